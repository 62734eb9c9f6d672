"""The newest rows of a place, kept in order of x until a tree takes them in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from hylo_memory_ros.index._ball import Ball
from hylo_memory_ros.index._part import VERSION, Index, Part, Rows

__all__ = ['Block']

_CAPACITY = 64
# Beyond these many numpy is quicker than lists: rows in order, rows near in x, rows added at once.
_ORDERED = 4096
_NEAR = 64
_ADDED = 16
_NONE = np.empty(0, np.intp)


class Block(Part):
    """A part that grows. An index stays valid when the arrays are replaced by longer ones."""

    __slots__ = ('_count', '_order', '_slots', '_y')

    def __init__(self, live: bool) -> None:
        super().__init__(np.empty((6, _CAPACITY), np.int64), np.empty((_CAPACITY, 3), np.float64), live)
        # Every x and the slot of each: lists, for a search in them costs a tenth of one call of numpy;
        # replaced whole, for readers.
        self._order: tuple[list[float], list[int]] | None = ([], [])
        self._y: list[float] = []
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
        self._y.extend(y for _, y, _ in points)
        if len(rows) <= _ADDED:
            for row in rows:
                self.widen_by(row)
        else:
            self.widen(self.rows[:, first:last])
        # Last: a reader must not see a row before it is whole.
        self._count = last
        self._put_in_order(first, [x for x, _, _ in points])

    def near(self, ball: Ball) -> Index:
        order, reach = self._order, ball.reach
        x, y = ball.center[:2]
        if order is not None:
            first, last = bisect_left(order[0], x - reach), bisect_right(order[0], x + reach)
            if last - first <= _NEAR:
                beside = self._y
                slots = [slot for slot in order[1][first:last] if abs(beside[slot] - y) <= reach]
                return np.array(slots) if slots else _NONE
        away = np.abs(self.points[: self._count, 0] - x)
        index: Index = (away <= reach).nonzero()[0]
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
        self._y = self.points[: self._count, 1].tolist()
        self._put_in_order(0, self.points[: self._count, 0].tolist())

    def _put_in_order(self, first: int, added: list[float]) -> None:
        """Take in the x of the slots from `first` on."""
        if self._count > _ORDERED or self._order is None:
            self._order = None
        elif first and len(added) <= _ADDED:
            along, slots = self._order[0].copy(), self._order[1].copy()
            for slot, x in enumerate(added, first):
                place = bisect_left(along, x)
                along.insert(place, x)
                slots.insert(place, slot)
            self._order = along, slots
        else:
            x_of = self.points[: self._count, 0]
            order = np.argsort(x_of)[: self._count - int(np.isnan(x_of).sum())]
            self._order = x_of[order].tolist(), order.tolist()

    def _grow(self, capacity: int) -> None:
        count = self._count
        rows, points = np.empty((6, capacity), np.int64), np.empty((capacity, 3))
        rows[:, :count], points[:count] = self.rows[:, :count], self.points[:count]
        self.rows, self.points = rows, points
