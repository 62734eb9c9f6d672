"""Newest rows of a partition, scanned linearly until a compaction moves them into a tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hylo_memory_ros.index.spatial.rows import VERSION, Indices, Rows
from hylo_memory_ros.index.spatial.segment import Ball, Segment

__all__ = ['DeltaSegment']

_CAPACITY = 64


class DeltaSegment(Segment):
    """Segment that grows. An index stays valid when the arrays are replaced by longer ones."""

    __slots__ = ('_count', '_slots')

    def __init__(self, live: bool) -> None:
        super().__init__(np.empty((6, _CAPACITY), np.int64), np.empty((_CAPACITY, 3), np.float64), live)
        self._slots: dict[int, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, rows: Sequence[tuple[int, ...]], points: Sequence[tuple[float, float, float]]) -> None:
        """Append rows, each with its own point."""
        first, last = self._count, self._count + len(rows)
        if last > len(self.points):
            self._grow(max(last, 2 * len(self.points)))
        self.rows[:, first:last] = np.array(rows).T
        self.points[first:last] = points
        self._slots.update((row[VERSION], slot) for slot, row in enumerate(rows, first))
        self.widen(self.rows[:, first:last])
        # Last: a reader must not see a row before it is complete.
        self._count = last

    def candidates(self, ball: Ball) -> Indices:
        """Find the rows within the reach of the ball along x and y."""
        x, y = ball.center[:2]
        near_x = (np.abs(self.points[: self._count, 0] - x) <= ball.reach).nonzero()[0]
        indices: Indices = near_x[np.abs(self.points[near_x, 1] - y) <= ball.reach]
        return indices

    def locate(self, version_rows: Rows) -> Indices:
        """Find the index of each version row; -1 for a row that is not in the segment."""
        slots = self._slots
        return np.array([slots.get(version_row, -1) for version_row in version_rows.tolist()], dtype=np.intp)

    def erase(self, indices: Indices) -> None:
        """Overwrite rows and their points for good."""
        for version_row in self.rows[VERSION].take(indices).tolist():
            del self._slots[version_row]
        super().erase(indices)
        self.points[indices] = np.nan

    def _grow(self, capacity: int) -> None:
        count = self._count
        rows, points = np.empty((6, capacity), np.int64), np.empty((capacity, 3))
        rows[:, :count], points[:count] = self.rows[:, :count], self.points[:count]
        self.rows, self.points = rows, points
