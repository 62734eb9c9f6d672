"""Consistency check of the spatial index against the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index.spatial.rows import (
    FROM_SEQ,
    OPEN,
    TO_SEQ,
    VERSION,
    Difference,
    Indices,
    Key,
    Points,
    RowBatch,
    Rows,
    not_erased,
    split_by_partition,
    within_range,
)
from hylo_memory_ros.index.spatial.segments import Segment

_COLUMNS = ('version_row', 'valid_from_ns', 'valid_to_ns', 'spatial_id', 'from_seq', 'to_seq')


class Audit:
    """Comparison as of one sequence, while the index moves on.

    Parameters
    ----------
    segments : mapping of (map, frame) to tuple of Segment
        Taken when the index had reached the sequence.
    sequence : int
        Later rows are left out; a later end counts as no end.
    """

    def __init__(self, segments: Mapping[Key, tuple[Segment, ...]], sequence: int) -> None:
        self._segments = segments
        self._sequence = sequence
        self._seen = {
            id(segment): np.zeros(len(segment), np.bool_) for group in segments.values() for segment in group
        }
        self._found: dict[int, Difference] = {}

    def compare(self, batches: Iterable[RowBatch], limit: int) -> None:
        """Compare rows of the store, in any order, until `limit` rows differ."""
        for batch in batches:
            for key, rows, points in split_by_partition(batch):
                known = within_range(points) & (rows[FROM_SEQ] <= self._sequence)
                self._compare_partition(key, rows[:, known], points[known])
            if len(self._found) >= limit:
                return
        self._find_extra()

    def differences(self, removed: set[int], limit: int) -> tuple[Difference, ...]:
        """Return the differences in order of the version row, without rows removed meanwhile."""
        found = (self._found[version_row] for version_row in sorted(self._found.keys() - removed))
        return tuple(difference for difference, _ in zip(found, range(limit), strict=False))

    def _compare_partition(self, key: Key, rows: Rows, points: Points) -> None:
        missing = np.ones(len(points), np.bool_)
        for segment in self._segments.get(key, ()):
            indices, seen = segment.locate(rows[VERSION]), self._seen[id(segment)]
            found = np.flatnonzero((indices >= 0) & (indices < len(seen)))
            indices = indices[found]
            seen[indices] = True
            missing[found] = False
            self._compare_rows(segment, indices, rows[:, found], points[found])
        for version_row in rows[VERSION, missing].tolist():
            self._add(version_row, 'missing')

    def _compare_rows(self, segment: Segment, indices: Indices, rows: Rows, points: Points) -> None:
        differs = self._as_of_sequence(segment.rows[:, indices]) != self._as_of_sequence(rows)
        moved = (segment.points_of(indices) != points).any(axis=1)
        for i in np.flatnonzero(differs.any(axis=0) | moved).tolist():
            fields = [name for name, differ in zip(_COLUMNS, differs[:, i].tolist(), strict=True) if differ]
            self._add(int(rows[VERSION, i]), 'differs', (*fields, *(['position'] if moved[i] else [])))

    def _as_of_sequence(self, rows: Rows) -> Rows:
        """Reopen rows that ended after the sequence."""
        rows = rows.copy()
        rows[TO_SEQ, rows[TO_SEQ] > self._sequence] = OPEN
        return rows

    def _find_extra(self) -> None:
        for group in self._segments.values():
            for segment in group:
                seen: NDArray[np.bool_] = self._seen[id(segment)]
                rows = segment.rows[:, : len(seen)]
                extra = ~seen & not_erased(rows) & (rows[FROM_SEQ] <= self._sequence)
                for version_row in rows[VERSION, extra].tolist():
                    self._add(version_row, 'extra')

    def _add(self, version_row: int, kind: str, fields: tuple[str, ...] = ()) -> None:
        if version_row in self._found:
            # Missing in one partition, extra in another: the row is in the wrong one.
            kind, fields = 'differs', ('place',)
        self._found[version_row] = Difference(version_row, kind, fields)
