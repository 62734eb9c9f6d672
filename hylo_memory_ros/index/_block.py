"""The newest rows of a place, searched one and all until a tree takes them in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hylo_memory_ros.index._ball import Ball
from hylo_memory_ros.index._part import VERSION, Index, Part, Rows

__all__ = ['Block']

_CAPACITY = 64


class Block(Part):
    """A part that grows. An index stays valid when the arrays are replaced by longer ones."""

    __slots__ = ('_count', '_slots', '_xy')

    def __init__(self, live: bool) -> None:
        super().__init__(np.empty((6, _CAPACITY), np.int64), np.empty((_CAPACITY, 3), np.float64), live)
        self._xy = np.empty((2, _CAPACITY), np.float64)
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
        self._xy[:, first:last] = self.points[first:last, :2].T
        self._slots.update((row[VERSION], slot) for slot, row in enumerate(rows, first))
        self.widen(self.rows[:, first:last])
        # Last: a reader must not see a row before it is whole.
        self._count = last

    def near(self, ball: Ball) -> Index:
        away = self._xy[:, : self._count] - ball.point[:2, None]
        x, y = np.abs(away, out=away)
        index: Index = (np.maximum(x, y, out=x) <= ball.reach).nonzero()[0]
        return index

    def locate(self, version_rows: Rows) -> Index:
        slots = self._slots
        return np.array([slots.get(version_row, -1) for version_row in version_rows.tolist()], dtype=np.intp)

    def spread(self, first: int, last: int) -> Index:
        return super().spread(first, min(last, self._count))

    def scrub(self, index: Index) -> None:
        for version_row in self.version_rows(index).tolist():
            del self._slots[version_row]
        super().scrub(index)
        self.points[index] = np.nan
        self._xy[:, index] = np.nan

    def _grow(self, capacity: int) -> None:
        count = self._count
        rows, points, xy = self.rows, self.points, self._xy
        new = np.empty((6, capacity), np.int64), np.empty((capacity, 3)), np.empty((2, capacity))
        new[0][:, :count], new[1][:count], new[2][:, :count] = rows[:, :count], points[:count], xy[:, :count]
        self.rows, self.points, self._xy = new
