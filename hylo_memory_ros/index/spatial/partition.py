"""Partition of the spatial index: the rows of one (map, frame), and their background compaction.

The newest rows are in two delta segments (live and closed). When they have grown to a share of the trees, a
compaction builds new trees on its own thread: `freeze` returns the segments, `replace` swaps in the result.
Both, and every change, run under the lock of the index; readers take `segments` once and need none.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from hylo_memory_ros.index.spatial.rows import OPEN, TO_SEQ, VALID_TO, Indices, Points, Rows, not_erased
from hylo_memory_ros.index.spatial.segments import DeltaSegment, Segment, TreeSegment, merge_rows

_DELTA_ROWS = 2048
_DELTA_SHARE = 64
_DEAD_ROWS = 256
_DEAD_SHARE = 8


class Partition:
    """One (map, frame).

    Attributes
    ----------
    segments : tuple of Segment
        Everything that a query has to search; replaced as a whole.
    """

    def __init__(self, trees: tuple[TreeSegment, ...] = ()) -> None:
        self.segments: tuple[Segment, ...] = trees
        self._trees = trees
        self._frozen: tuple[DeltaSegment, ...] = ()
        self._live, self._closed = DeltaSegment(True), DeltaSegment(False)
        self._dead = 0
        self._changed = True
        self._journal: list[tuple[Rows, int | None]] | None = None
        self._backoff = 1

    def __len__(self) -> int:
        return sum(len(segment) - segment.erased for segment in self.segments)

    def extend(
        self, rows: Sequence[tuple[int, ...]], points: Sequence[tuple[float, float, float]], cutoff_ns: int
    ) -> None:
        """Add rows, each with its point; rows that end by the cutoff, or are not believed, as closed."""
        for delta in (self._live, self._closed):
            chosen = [
                i
                for i, row in enumerate(rows)
                if (row[TO_SEQ] == OPEN and row[VALID_TO] > cutoff_ns) == delta.live
            ]
            if chosen:
                delta.extend([rows[i] for i in chosen], [points[i] for i in chosen])
        self._publish()

    def find_known(self, version_rows: Rows) -> Indices:
        """Return, sorted, the positions in `version_rows` of the rows of this partition."""
        found = [np.flatnonzero(segment.locate(version_rows) >= 0) for segment in self.segments]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.intp)

    def end(self, version_rows: Rows, sequence: int) -> int:
        """End the belief in the rows of this partition; return how many of `version_rows` it has."""
        if self._journal is not None:
            self._journal.append((version_rows, sequence))
        found, dead = _end_rows(self.segments, version_rows, sequence)
        self._dead += dead
        self._changed = True
        return found

    def erase(self, version_rows: Rows) -> None:
        """Overwrite the rows of this partition, and request the compaction that drops them."""
        if self._journal is not None:
            self._journal.append((version_rows, None))
        _erase_rows(self.segments, version_rows)
        self._changed = True

    def needs_compaction(self) -> bool:
        """Test whether a compaction is due and none is running."""
        if self._journal is not None or not self._changed:
            return False
        delta = len(self._live) + len(self._closed) + sum(map(len, self._frozen))
        live = sum(len(segment) for segment in self.segments if segment.live)
        self._changed = (
            any(segment.erased for segment in self.segments)
            or delta > self._backoff * max(_DELTA_ROWS, sum(map(len, self._trees)) // _DELTA_SHARE)
            or self._dead > self._backoff * max(_DEAD_ROWS, live // _DEAD_SHARE)
        )
        return self._changed

    def freeze(self) -> tuple[Segment, ...]:
        """Set the deltas aside and return the segments to compact; changes are recorded for `replace`."""
        self._frozen += tuple(delta for delta in (self._live, self._closed) if len(delta))
        self._live, self._closed = DeltaSegment(True), DeltaSegment(False)
        self._journal = []
        self._publish()
        return (*self._trees, *self._frozen)

    def replace(self, trees: tuple[TreeSegment, ...]) -> None:
        """Replace the segments that `freeze` returned by the trees built from them."""
        self._dead = 0
        # Before a reader can see the trees.
        for version_rows, sequence in self._journal or ():
            if sequence is None:
                _erase_rows(trees, version_rows)
            else:
                self._dead += _end_rows(trees, version_rows, sequence)[1]
        self._trees, self._frozen, self._journal = trees, (), None
        self._backoff = 1
        self._publish()

    def end_compaction(self, failed: bool) -> None:
        """End a compaction, successful or not; a failure doubles the back-off."""
        self._journal = None
        if failed:
            self._backoff *= 2

    def _publish(self) -> None:
        deltas = (delta for delta in (self._live, self._closed) if len(delta))
        self.segments = (*self._trees, *self._frozen, *deltas)
        self._changed = True


def _end_rows(segments: Iterable[Segment], version_rows: Rows, sequence: int) -> tuple[int, int]:
    """End the belief in rows; return the number of rows found, and of live rows ended."""
    found = dead = 0
    for segment in segments:
        if found == len(version_rows):
            break
        indices = segment.locate(version_rows)
        indices = indices[indices >= 0]
        if len(indices):
            found += len(indices)
            ended = segment.end(indices, sequence)
            dead += ended if segment.live else 0
    return found, dead


def _erase_rows(segments: Iterable[Segment], version_rows: Rows) -> None:
    for segment in segments:
        indices = segment.locate(version_rows)
        indices = indices[indices >= 0]
        if len(indices):
            segment.erase(indices)


def build_trees(
    rows: Rows, points: Points, cutoff_ns: int, stop: Callable[[], None]
) -> tuple[TreeSegment, ...]:
    """Build the live and the closed tree of rows, each with its point; erased rows are dropped."""
    present = not_erased(rows)
    live = present & (rows[TO_SEQ] == OPEN) & (rows[VALID_TO] > cutoff_ns)
    choices = (True, np.flatnonzero(live)), (False, np.flatnonzero(present & ~live))
    return tuple(
        TreeSegment.build(rows, points, chosen, is_live, stop) for is_live, chosen in choices if len(chosen)
    )


def compact(segments: Sequence[Segment], cutoff_ns: int, stop: Callable[[], None]) -> tuple[TreeSegment, ...]:
    """Build the live and the closed tree of all rows in the segments."""
    return build_trees(*merge_rows(segments), cutoff_ns, stop)


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
            thread = threading.Thread(target=self._run, name='index-compact')
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
                _logger.exception('a rebuild of the spatial index failed; answers stay exact')
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
