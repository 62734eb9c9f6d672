"""The newest rows of a place, searched one and all until a tree takes them in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hylo_memory_ros.index._part import Ball, Index, Part, Points, Rows

__all__ = ['Block']

_CAPACITY = 64
_FEW = 64


class Block(Part):
    """A part that grows. An index stays valid when the arrays are replaced by longer ones."""

    __slots__ = ('_count', '_slots', '_x')

    def __init__(self, live: bool) -> None:
        super().__init__(np.empty((_CAPACITY, 6), np.int64), np.empty((_CAPACITY, 3), np.float64), live)
        self._x = np.empty(_CAPACITY, np.float64)
        self._slots: dict[int, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, rows: Sequence[tuple[int, ...]], points: Sequence[tuple[float, float, float]]) -> None:
        """Append rows, each with its own point."""
        first, last = self._count, self._count + len(rows)
        if last > len(self.rows):
            self._grow(max(last, 2 * len(self.rows)))
        self.rows[first:last] = rows
        self.points[first:last] = points
        self._x[first:last] = self.points[first:last, 0]
        self._slots.update((row[0], slot) for slot, row in enumerate(rows, first))
        self.widen(self.rows[first:last])
        # Last: a reader must not see a row before it is whole.
        self._count = last

    def contents(self) -> tuple[Rows, Points]:
        """Return the filled part of the arrays, not copied."""
        count = self._count
        return self.rows[:count], self.points[:count]

    def near(self, ball: Ball) -> tuple[Index, Index]:
        index: Index = (np.abs(self._x[: self._count] - ball.center[0]) <= ball.reach).nonzero()[0]
        if len(index) > _FEW:
            away = np.abs(self.points.take(index, axis=0)[:, : ball.axes] - ball.center).max(axis=1)
            index = index[away <= ball.reach]
        return index, index

    def locate(self, version_rows: Rows) -> Index:
        slots = self._slots
        return np.array([slots.get(version_row, -1) for version_row in version_rows.tolist()], dtype=np.intp)

    def spread(self, first: int, last: int) -> tuple[Index, Index]:
        return super().spread(first, min(last, self._count))

    def scrub(self, index: Index) -> None:
        for version_row in self.rows[index, 0].tolist():
            del self._slots[version_row]
        super().scrub(index)
        self.points[index] = np.nan
        self._x[index] = np.nan

    def _grow(self, capacity: int) -> None:
        count = self._count
        for name in ('rows', 'points', '_x'):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), old.dtype)
            new[:count] = old[:count]
            setattr(self, name, new)
