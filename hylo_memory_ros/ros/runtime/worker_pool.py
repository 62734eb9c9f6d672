"""Worker pools (one writer, a few readers), and the dispatch of service coroutines to them.

Threads: any may submit; a job runs in one thread of its pool. They are daemons, so that a file check that
takes minutes cannot delay the end of the process.

In rclpy's executor each awaited future costs two turns of its loop and a wake: a third of the time of a
small query. Here the thread that completes a future continues the handler, and the last one sends the
reply; the executor only takes the request.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from hylo_memory_ros.errors import HyloMemoryError, NotActiveError, StoreBusyError

T = TypeVar('T')
logger = logging.getLogger(__name__)


class Settled:
    """Awaitable completion of futures, with a result or an exception.

    Parameters
    ----------
    futures : iterable of concurrent.futures.Future
        Completed by any thread.
    """

    __slots__ = ('_futures',)

    def __init__(self, futures: Iterable[Future[Any]]) -> None:
        self._futures = tuple(futures)

    def __await__(self) -> Generator[Future[Any], None, None]:
        for future in self._futures:
            if not future.done():
                yield future


class Awaited(Generic[T]):
    """Awaitable result of one future, or its exception.

    Parameters
    ----------
    future : concurrent.futures.Future
        Completed by any thread.
    """

    __slots__ = ('_future',)

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def __await__(self) -> Generator[Future[T], None, T]:
        if not self._future.done():
            yield self._future
        return self._future.result()


def drive(handler: Coroutine[Any, Any, T], done: Callable[[T], None]) -> None:
    """Run a handler in this thread until it waits, then in the threads that complete its futures.

    Parameters
    ----------
    handler : coroutine
        Awaits `Settled` and `Awaited` only, and never raises.
    done : callable
        Takes its result, in the thread where it ends.
    """

    def step(_: object = None) -> None:
        try:
            waited_for = handler.send(None)
        except StopIteration as end:
            try:
                done(end.value)
            except Exception:
                logger.exception('an answer could not be sent')
        else:
            waited_for.add_done_callback(step)

    step()


def awaited_in_executor(handler: Coroutine[Any, Any, T], wake: Callable[[], None]) -> _InExecutor[T]:
    """Return an awaitable for a coroutine of rclpy's own executor: the result of a driven handler.

    Parameters
    ----------
    handler : coroutine
        As for `drive`.
    wake : callable
        Wakes the executor; without it the coroutine continues only at the next event.
    """
    future: Future[T] = Future()
    drive(handler, future.set_result)
    future.add_done_callback(lambda _: wake())
    return _InExecutor(future)


class _InExecutor(Generic[T]):
    __slots__ = ('_future',)

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def __await__(self) -> Generator[None, None, T]:
        while not self._future.done():
            yield
        return self._future.result()


class WorkerPool:
    """Bounded queue of jobs, and the threads that run them in order.

    Parameters
    ----------
    name : str
        For the names of the threads, and for refusals.
    threads : int
        Number of threads; one keeps the order.
    limit : int
        Largest number of waiting jobs.
    """

    def __init__(self, name: str, threads: int, limit: int) -> None:
        self._name, self._limit = name, limit
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._pending: set[str] = set()
        names = [f'{name}-{index}' for index in range(threads)]
        self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for name in names]
        for thread in self._threads:
            thread.start()

    @property
    def closing(self) -> bool:
        """True while it is being closed; a long job checks this between steps."""
        return self._closed

    def submit(self, job: Callable[[], T], *, always: bool = False) -> Future[T]:
        """Queue a job.

        Parameters
        ----------
        job : callable
            The job.
        always : bool
            Accept it although the queue is full; for jobs that are queued once at a time.

        Raises
        ------
        StoreBusyError
            If the queue is full.
        NotActiveError
            If the pool is closed.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise NotActiveError('the node is not active: its memory is being closed')
            if not always and self._jobs.qsize() >= self._limit:
                raise StoreBusyError(
                    f'{self._limit} requests already wait for the {self._name}',
                    waiting=self._jobs.qsize(),
                )
            self._jobs.put((future, job))
        return future

    def do(self, job: Callable[[], T]) -> Awaited[T]:
        """Queue a job and return its awaitable result; raises as `submit`."""
        return Awaited(self.submit(job))

    def once(self, name: str, job: Callable[[], None]) -> None:
        """Queue a job without a result, unless one of this name waits or runs; none if the pool is closed.

        An exception is logged.
        """
        with self._lock:
            if name in self._pending:
                return
            self._pending.add(name)

        def run() -> None:
            try:
                logged(name, job)
            finally:
                self._pending.discard(name)

        try:
            self.submit(run, always=True)
        except NotActiveError:
            self._pending.discard(name)

    def close(self, timeout_s: float) -> bool:
        """End the threads; jobs that still wait are refused. Return whether all ended in time."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._refuse_waiting()
                for _ in self._threads:
                    self._jobs.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def _refuse_waiting(self) -> None:
        while True:
            try:
                waiting = self._jobs.get_nowait()
            except queue.Empty:
                return
            if waiting is not None and waiting[0].set_running_or_notify_cancel():
                waiting[0].set_exception(NotActiveError('the node is not active: its memory was closed'))

    def _work(self) -> None:
        while (work := self._jobs.get()) is not None:
            future, job = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = job()
            except BaseException as exc:  # noqa: BLE001 - it is raised where the job is awaited
                future.set_exception(exc)
            else:
                future.set_result(result)
            del future, job, work


def logged(name: str, job: Callable[[], None]) -> None:
    """Run a job; an exception is logged."""
    try:
        job()
    except HyloMemoryError as exc:
        logger.warning('%s: %s', name, exc)
    except Exception:
        logger.exception('%s failed', name)
