"""Worker pools: one writer, a few readers.

Threads: any may submit; a job runs in one thread of its pool. They are daemons, so that a file check that
takes minutes cannot delay the end of the process.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from hylo_memory_ros.errors import HyloMemoryError, NotActiveError, StoreBusyError
from hylo_memory_ros.ros.runtime.dispatch import Awaited

__all__ = ['WorkerPool', 'logged']

T = TypeVar('T')
logger = logging.getLogger(__name__)


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
