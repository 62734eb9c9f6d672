"""Background compaction of partitions, on a thread that lives only while there is work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from hylo_memory_ros.index.spatial.partition import Partition, compact

__all__ = ['ClosingError', 'Compactor']

_logger = logging.getLogger(__name__)


class ClosingError(Exception):
    """The index is closing; the trees being built are dropped."""


class Compactor:
    """Compacts the partitions that need it, one at a time.

    Not a daemon: the interpreter waits for the running compaction (about a second for a million rows), so
    that its end never interrupts one.

    Parameters
    ----------
    lock : lock
        Guards the partitions; held for moments only.
    partitions : callable
        Returns the partitions.
    cutoff_ns : callable
        Rows that end by this world time are built into closed trees.
    """

    def __init__(
        self,
        lock: threading.RLock,
        partitions: Callable[[], Collection[Partition]],
        cutoff_ns: Callable[[], int],
    ) -> None:
        self._lock = lock
        self._partitions = partitions
        self._cutoff_ns = cutoff_ns
        self._idle = threading.Event()
        self._idle.set()
        self._closing = False
        self._forced: list[Partition] = []
        self._thread: threading.Thread | None = None

    def start(self, force: bool = False) -> None:
        """Start to compact if a partition needs it; with `force`, compact every partition."""
        with self._lock:
            if force:
                self._forced = list(self._partitions())
            if self._closing or self._thread is not None or self._next() is None:
                return
            # The name is short enough for the kernel to show it.
            thread = threading.Thread(target=self._run, name='mirror-compact')
            self._idle.clear()
            try:
                thread.start()
            except RuntimeError:
                # No thread can start while the interpreter ends; answers need none.
                self._idle.set()
            else:
                self._thread = thread

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until no compaction is running; False after the timeout."""
        return self._idle.wait(timeout_s)

    def check(self) -> None:
        """Raise `ClosingError` once the index is closing."""
        if self._closing:
            raise ClosingError

    def close(self) -> None:
        """Cancel the running compaction and wait for the thread to end."""
        self._closing = True
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _next(self) -> Partition | None:
        if self._forced:
            return self._forced[0]
        return next((partition for partition in self._partitions() if partition.needs_compaction()), None)

    def _run(self) -> None:
        failed = False
        while True:
            with self._lock:
                # After a failure the next change tries again.
                partition = None if self._closing or failed else self._next()
                if partition is None:
                    self._thread = None
                    self._idle.set()
                    return
                if partition in self._forced:
                    self._forced.remove(partition)
            try:
                self._compact(partition)
            except ClosingError:
                pass
            except Exception:
                _logger.exception('a rebuild of the spatial mirror failed; answers stay exact')
                failed = True

    def _compact(self, partition: Partition) -> None:
        with self._lock:
            segments = partition.freeze()
        failed = True
        try:
            trees = compact(segments, self._cutoff_ns(), self.check)
            with self._lock:
                partition.replace(trees)
            failed = False
        except ClosingError:
            failed = False
            raise
        finally:
            with self._lock:
                partition.end_compaction(failed)
