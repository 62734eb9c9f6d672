"""One writer, a few readers, and what a coroutine of the executor awaits.

Who may touch what: anybody may submit; a job runs in one thread of its lane; the executor's
thread only awaits. Threads are daemons, so that a file check that takes minutes cannot hold up
the end of the process.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from hylo_memory_ros.errors import NotActiveError, StoreBusyError

__all__ = ['Awaited', 'Lane', 'Settled']

T = TypeVar('T')
logger = logging.getLogger(__name__)


class Settled:
    """What a coroutine of rclpy's executor may await: that futures are done, well or not.

    Parameters
    ----------
    futures : iterable of concurrent.futures.Future
        Completed by any thread.
    wake : callable
        Wakes the executor; without it the coroutine goes on at the next event only.
    """

    __slots__ = ('_futures',)

    def __init__(self, futures: Iterable[Future[Any]], wake: Callable[[], None]) -> None:
        self._futures = tuple(futures)
        for future in self._futures:
            future.add_done_callback(lambda _: wake())

    def __await__(self) -> Generator[None, None, None]:
        while not all(future.done() for future in self._futures):
            yield


class Awaited(Generic[T]):
    """The same for the result of one future, or its exception."""

    __slots__ = ('_future', '_settled')

    def __init__(self, future: Future[T], wake: Callable[[], None]) -> None:
        self._future, self._settled = future, Settled((future,), wake)

    def __await__(self) -> Generator[None, None, T]:
        yield from self._settled.__await__()
        return self._future.result()


class Lane:
    """A bounded queue of jobs, and the threads that do them in order.

    Parameters
    ----------
    name : str
        For the names of the threads, and for refusals.
    threads : int
        How many; one keeps the order.
    limit : int
        Jobs that may wait.
    wake : callable
        Wakes the executor.
    """

    def __init__(self, name: str, threads: int, limit: int, wake: Callable[[], None]) -> None:
        self._name, self._limit, self._wake = name, limit, wake
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        names = [f'{name}-{index}' for index in range(threads)]
        self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for name in names]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Callable[[], T], *, always: bool = False) -> Future[T]:
        """Queue a job.

        Parameters
        ----------
        job : callable
            What to do.
        always : bool
            Take it although the queue is full; for jobs that are queued once at a time.

        Raises
        ------
        StoreBusyError
            If as many jobs wait as may.
        NotActiveError
            If the lane is closed.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise NotActiveError('the node is not active: its memory is being closed')
            if not always and self._jobs.qsize() >= self._limit:
                raise StoreBusyError(
                    f'{self._limit} requests already wait for the {self._name} (queue_limit)',
                    waiting=self._jobs.qsize(),
                )
            self._jobs.put((future, job))
        return future

    def do(self, job: Callable[[], T]) -> Awaited[T]:
        """Queue a job whose result a coroutine awaits; raises as `submit`."""
        return Awaited(self.submit(job), self._wake)

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
            except BaseException as exc:  # noqa: BLE001 - it belongs to whoever awaits the job
                future.set_exception(exc)
            else:
                future.set_result(result)
            del future, job, work
