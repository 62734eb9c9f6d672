"""In-memory index of stored poses, as KD-trees: radius queries and the nearest row beyond a radius.

The index copies the poses of the store's version table. The store is written first and stays the
authority; the index follows each committed transaction, and can be rebuilt from the store at any time.

Threads: one writer at a time calls `apply` and `remove`; any number of readers query; one thread loads; one
thread of the index compacts. Changes run under a lock that is held for moments. Readers take no lock: rows
carry the sequences between which they are believed, so a reader that takes the sequence of the index first,
and the segments of a partition second, finds exactly what was believed at that sequence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import InvalidRequestError, LoadingError
from hylo_memory_ros.index.spatial.audit import Audit
from hylo_memory_ros.index.spatial.partition import ClosingError, Compactor, Partition, build_trees
from hylo_memory_ros.index.spatial.rows import (
    LARGEST_M,
    OPEN,
    VALID_FROM,
    VALID_TO,
    VERSION,
    BelievedRow,
    Difference,
    Excluded,
    Hits,
    Key,
    Nearest,
    RadiusQuery,
    RowBatch,
    RowCollector,
    Rows,
    Window,
)
from hylo_memory_ros.index.spatial.segments import Ball, Segment

_FOREVER = OPEN - 1


class IndexChange(NamedTuple):
    """Effect of one committed transaction on the rows that have a pose."""

    sequence: int
    added: Sequence[BelievedRow] = ()
    ended: Collection[int] = ()
    removed: Collection[int] = ()


class Partitions:
    """Partitions by (map, frame), changed by one thread at a time under the lock of the index.

    Attributes
    ----------
    by_key : mapping
        Replaced when a partition is added, never changed, so that readers iterate over a stable one.
    skipped : int
        Rows left out for a coordinate that is not finite.
    """

    def __init__(
        self, by_key: Mapping[Key, Partition] | None = None, highest_row: int = 0, skipped: int = 0
    ) -> None:
        self.by_key = by_key or {}
        self.skipped = skipped
        self._highest_row = highest_row

    def find_segments(self, map_id: str | None, frame_id: str) -> Sequence[Segment]:
        """Return the segments of a map, or of every map, in a frame."""
        if map_id is not None:
            partition = self.by_key.get((map_id, frame_id))
            return () if partition is None else partition.segments
        return [
            segment
            for (_, frame), partition in self.by_key.items()
            if frame == frame_id
            for segment in partition.segments
        ]

    def apply(self, change: IndexChange, cutoff_ns: int) -> None:
        """Apply a change; rows added twice, and ends of unknown rows, are ignored."""
        if change.added:
            self._add(change.added, cutoff_ns)
        if change.ended:
            version_rows = np.array(list(change.ended), np.int64)
            left = len(version_rows)
            for partition in self.by_key.values():
                left -= partition.end(version_rows, change.sequence) if left else 0
        if change.removed:
            version_rows = np.array(list(change.removed), np.int64)
            for partition in self.by_key.values():
                partition.erase(version_rows)

    def _add(self, added: Sequence[BelievedRow], cutoff_ns: int) -> None:
        groups: dict[Key, tuple[list[tuple[int, ...]], list[tuple[float, float, float]]]] = {}
        for row in self._select_unknown(added):
            point = (row.x, row.y, row.z)
            if not all(abs(axis) <= LARGEST_M for axis in point):
                self.skipped += 1
                continue
            valid_to = OPEN if row.valid_to_ns is None else row.valid_to_ns
            to_seq = OPEN if row.to_seq is None else row.to_seq
            rows, points = groups.setdefault((row.map_id, row.frame_id), ([], []))
            rows.append((row.version_row, row.valid_from_ns, valid_to, row.spatial_id, row.from_seq, to_seq))
            points.append(point)
        for key, (rows, points) in groups.items():
            partition = self.by_key.get(key)
            if partition is None:
                partition = Partition()
                self.by_key = {**self.by_key, key: partition}
            partition.extend(rows, points, cutoff_ns)

    def _select_unknown(self, added: Sequence[BelievedRow]) -> Iterable[BelievedRow]:
        """Drop the rows that the index has already, as after a load that read them too."""
        rows = {row.version_row: row for row in added}
        # Row numbers only grow, so a lookup is rarely needed.
        old = np.array([version_row for version_row in rows if version_row <= self._highest_row], np.int64)
        if len(old):
            for partition in self.by_key.values():
                for version_row in old[partition.find_known(old)].tolist():
                    rows.pop(version_row, None)
        self._highest_row = max(self._highest_row, max(rows, default=0))
        return rows.values()


class SpatialIndex:
    """KD-trees over the believed rows of each (map, frame).

    Parameters
    ----------
    now_ns : callable, optional
        Returns the highest service time seen, in nanoseconds. It decides which rows count as closed
        when a tree is built, which changes speed, never an answer; without it every row with an end
        counts as closed.

    Examples
    --------
    >>> index = SpatialIndex()
    >>> index.load((), sequence=0)
    >>> index.apply(1, [BelievedRow(1, 1, 'lab', 'map', 0.3, 0.1, 0.2, 0, None, 1)])
    >>> index.within(RadiusQuery('lab', 'map', (0.0, 0.0, 0.0), 0.3741657386773941)).version_rows.tolist()
    [1]
    >>> index.close()
    """

    def __init__(self, now_ns: Callable[[], int] | None = None) -> None:
        self._cutoff_ns = now_ns or (lambda: _FOREVER)
        self._partitions = Partitions()
        self._sequence = 0
        self._loaded = False
        self._ready = threading.Event()
        self._lock = threading.RLock()
        self._loading = threading.Lock()
        # Changes during a load, to be repeated on the loaded rows.
        self._meanwhile: list[IndexChange] | None = []
        self._removals: list[set[int]] = []
        self._compactor = Compactor(self._lock, self._all_partitions, self._cutoff_ns)

    @property
    def sequence(self) -> int:
        """Sequence of the newest applied transaction."""
        return self._sequence

    @property
    def ready(self) -> bool:
        """True if the first load is complete."""
        return self._loaded

    @property
    def skipped(self) -> int:
        """Number of rows left out for a coordinate that is not finite."""
        return self._partitions.skipped

    def __len__(self) -> int:
        return sum(map(len, self._partitions.by_key.values()))

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the first load is complete; False after the timeout."""
        return self._ready.wait(timeout_s)

    def wait_idle(self, timeout_s: float | None = None) -> bool:
        """Wait until no rebuild is running; False after the timeout."""
        return self._compactor.wait(timeout_s)

    def rebuild(self) -> None:
        """Start to rebuild every tree in the background."""
        self._compactor.start(force=True)

    def close(self) -> None:
        """Stop rebuilding and wait for it; a load ends at its next batch. Queries go on. Safe to repeat."""
        self._compactor.close()

    def load(self, batches: Iterable[RowBatch], sequence: int) -> None:
        """Fill the index from the store, in the calling thread; again, to replace what it holds.

        The writer's thread may call `apply` and `remove` meanwhile. The batches need not come from one
        transaction: those calls supply the missing changes, and duplicate rows are kept once.

        Parameters
        ----------
        batches : iterable of RowBatch
            Every row of the store that has a pose, believed or not; read lazily.
        sequence : int
            A sequence that the store had reached before the first batch was read.
        """
        with self._loading:
            with self._lock:
                self._meanwhile = self._meanwhile or []
            try:
                collector = RowCollector()
                for batch in batches:
                    self._compactor.check()
                    collector.add(batch)
                self._replace(collector, sequence)
            except ClosingError:
                return
            finally:
                with self._lock:
                    if self.ready:
                        self._meanwhile = None
        self._compactor.start()

    def apply(self, sequence: int, added: Sequence[BelievedRow] = (), ended: Collection[int] = ()) -> None:
        """Apply one committed transaction.

        Parameters
        ----------
        sequence : int
        added : sequence of BelievedRow
            Rows believed from `sequence` on.
        ended : collection of int
            Version rows no longer believed from `sequence` on.
        """
        self._change(IndexChange(sequence, tuple(added), tuple(ended)))

    def remove(self, version_rows: Collection[int], sequence: int = 0) -> None:
        """Delete rows for good (purge); the rebuild that this starts removes every trace.

        Parameters
        ----------
        version_rows : collection of int
        sequence : int
            The sequence of the purge, if it has one.
        """
        self._change(IndexChange(sequence, removed=tuple(version_rows)))

    def within(self, query: RadiusQuery) -> Hits:
        """Find the believed rows within a radius, ordered by distance, then version row.

        Raises
        ------
        InvalidRequestError
            The radius is negative or not finite, or the centre is not three finite numbers.
        LoadingError
            The first load is not complete.
        """
        ball, window, segments = self._plan(query)
        distances: list[float] = []
        matches = [np.empty((6, 0), np.int64)]
        for segment in segments:
            indices, points = segment.match(ball, window)
            if len(indices):
                distances += ball.distances(points)
                matches.append(segment.rows.take(indices, axis=1))
        rows, distances_m = np.concatenate(matches, axis=1), np.array(distances)
        order = np.lexsort((rows[VERSION], distances_m))
        rows = rows.take(order, axis=1)
        return Hits(window[2], rows[VERSION], distances_m.take(order), rows[VALID_FROM], rows[VALID_TO])

    def ids_within(self, query: RadiusQuery) -> NDArray[np.int64]:
        """Find the version rows of `within`, in no particular order."""
        ball, window, segments = self._plan(query)
        found = [segment.rows[VERSION].take(segment.match(ball, window)[0]) for segment in segments]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def nearest_outside(self, query: RadiusQuery) -> Nearest | None:
        """Find the nearest matching row beyond the radius, at any distance."""
        ball, window, segments = self._plan(query)
        found = [segment.nearest_beyond(ball, window) for segment in segments if segment.may_match(window)]
        best = min((pair for pair in found if pair is not None), default=None)
        return None if best is None else Nearest(best[1], best[0])

    def excluded(self, query: RadiusQuery, most: int = 10_000) -> Excluded:
        """Find the rows that a query excludes by map, frame, radius or time.

        About `most` of a segment are found: beyond that the counts are lower bounds.
        """
        ball, window, segments = self._plan(query)
        map_id, frame_id = query.map_id, query.frame_id
        other_maps, other_frames = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for (m, f), partition in self._partitions.by_key.items():
            if map_id not in (None, m):
                other_maps += [segment.rows_in(window, most) for segment in partition.segments]
            elif f != frame_id:
                other_frames += [segment.rows_in(window, most) for segment in partition.segments]
        late, over = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        any_time, outside = (-OPEN, OPEN, window[2]), 0
        for segment in segments:
            rows: Rows = segment.rows.take(segment.match(ball, any_time, most)[0], axis=1)
            begins, ended = rows[VALID_FROM] > window[1], rows[VALID_TO] <= window[0]
            late.append(rows[VERSION, begins])
            over.append(rows[VERSION, ~begins & ended])
            inside = int((~begins & ~ended).sum())
            outside += len(segment.rows_in(window, most + inside)) - inside
        return Excluded(
            np.concatenate(other_maps),
            np.concatenate(other_frames),
            np.concatenate(late),
            np.concatenate(over),
            max(outside, 0),
        )

    def frames(self, map_id: str | None) -> set[str]:
        """Return the frames of the places of a map, or of every map."""
        return {
            f
            for (m, f), partition in self._partitions.by_key.items()
            if map_id in (None, m) and len(partition)
        }

    def verify(self, batches: Iterable[RowBatch], sequence: int, limit: int = 100) -> tuple[Difference, ...]:
        """Compare the index with rows streamed from the store, while both may move on.

        Parameters
        ----------
        batches : iterable of RowBatch
            Every row of the store that has a pose.
        sequence : int
            The store's sequence when reading began; the index must have reached it.
        limit : int
            Stop after about this many differences.

        Returns
        -------
        tuple of Difference
            In order of the version row; empty when the index equals the store.
        """
        if self._check_loaded() < sequence:
            raise InvalidRequestError(
                f'sequence: expected at most {self._sequence}, that of the index, got {sequence}',
                sequence=sequence,
            )
        removed: set[int] = set()
        with self._lock:
            self._removals.append(removed)
            segments = {key: partition.segments for key, partition in self._partitions.by_key.items()}
            audit = Audit(segments, sequence)
        try:
            audit.compare(batches, limit)
        finally:
            with self._lock:
                self._removals = [other for other in self._removals if other is not removed]
        return audit.differences(removed, limit)

    def _all_partitions(self) -> Collection[Partition]:
        return self._partitions.by_key.values()

    def _change(self, change: IndexChange) -> None:
        with self._lock:
            if self._meanwhile is not None:
                self._meanwhile.append(change)
            if not self.ready:
                return
            for removed in self._removals:
                removed.update(change.removed)
            self._partitions.apply(change, self._cutoff_ns())
            # Last: a reader that sees the sequence must find its rows.
            self._sequence = max(self._sequence, change.sequence)
        self._compactor.start()

    def _replace(self, collector: RowCollector, sequence: int) -> None:
        partitions: dict[Key, Partition] = {}
        highest = 0
        for key, rows, points in collector.partitions():
            highest = max(highest, int(rows[VERSION].max(initial=0)))
            partitions[key] = Partition(build_trees(rows, points, self._cutoff_ns(), self._compactor.check))
        loaded = Partitions(partitions, highest, collector.skipped)
        with self._lock:
            for change in self._meanwhile or ():
                loaded.apply(change, self._cutoff_ns())
                sequence = max(sequence, change.sequence)
            self._meanwhile = None
            self._partitions = loaded
            self._sequence = max(self._sequence, sequence)
            self._loaded = True
            self._ready.set()

    def _plan(self, query: RadiusQuery) -> tuple[Ball, Window, Sequence[Segment]]:
        """Return the ball, the window and the segments to search."""
        # The sequence before the segments: they then hold all that was believed at it.
        sequence = self._check_loaded()
        if query.seq is not None:
            sequence = min(query.seq, sequence)
        low, high = (-OPEN, OPEN) if query.at_ns is None else (query.at_ns, query.at_ns)
        ball = Ball(query.center, query.radius_m, query.horizontal)
        return ball, (low, high, sequence), self._partitions.find_segments(query.map_id, query.frame_id)

    def _check_loaded(self) -> int:
        """Return the sequence of a loaded index."""
        if not self._loaded:
            raise LoadingError('the spatial index is still being loaded: try again later')
        return self._sequence
