"""A KD-tree over distinct points, with the rows that stand at them beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hylo_memory_ros.index._ball import HAIR, Ball, Points
from hylo_memory_ros.index._part import SLICE, TO_SEQ, VERSION, Index, Part, Rows, Window
from hylo_memory_ros.index._probe import near

__all__ = ['Run', 'expand', 'gather']

_LEAF = 48
_ROUGH_LEAF = 512
_FIRST_K, _LAST_K = 32, 4096
# Odd, large and unrelated; products wrap round.
_MIX = np.array([-7046029254386353131, -4417276706812531889, 1609587929392839161])

_Scalar = TypeVar('_Scalar', bound=np.generic)


class Run(Part):
    """A part that never grows: rows in the order of their points, points in the order of space.

    Parameters
    ----------
    rows, points : ndarray
    starts : ndarray, shape (n + 1,), or None
        Rows ``starts[i]:starts[i + 1]`` stand at point i; None when row i, and no other, stands at point i.
    live : bool
    planar : bool
        Whether to build the tree over x and y too.
    """

    __slots__ = ('_order', '_owner', '_planar', '_starts', '_tree')

    def __init__(self, rows: Rows, points: Points, starts: Index | None, live: bool, planar: bool) -> None:
        super().__init__(rows, points, live)
        self._starts = starts
        self._owner = None if starts is None else _owners(starts)
        self._tree = _tree(points, _LEAF)
        self._planar: cKDTree | None = None
        self._order = np.argsort(rows[VERSION])
        self.widen(rows)
        if planar:
            self.build_planar()

    @classmethod
    def build(
        cls,
        rows: Rows,
        points: Points,
        pick: Index,
        live: bool,
        planar: bool = False,
        stop: Callable[[], None] = lambda: None,
    ) -> Run:
        """Arrange rows, each with its point.

        Closed rows share points, so that a spot with a long history is one point of the tree. Live rows do
        not: few would, and to look for the rows of a point costs a query more than the test of a few points.

        Parameters
        ----------
        rows : ndarray, shape (6, m), int64
        points : ndarray, shape (m, 3), float64
        pick : ndarray of indices
            The rows to take.
        live, planar : bool
        stop : callable
            Called between steps; raises to give up.
        """
        if live:
            pick = take(pick, _in_space(take(points, pick)))
            stop()
            return cls(take_rows(rows, pick), take(points, pick), None, live, planar)
        pick = take(pick, np.argsort(_keys(points, pick), kind='stable'))
        stop()
        starts = _group_starts(points, pick)
        firsts = take(pick, starts[:-1])
        order = _in_space(take(points, firsts))
        stop()
        counts = take(np.diff(starts), order)
        slices = (order[first : first + SLICE] for first in range(0, len(order), SLICE))
        index = np.concatenate([take(pick, expand(starts, piece)) for piece in slices])
        new_starts = np.concatenate((np.zeros(1, np.intp), np.cumsum(counts)))
        return cls(take_rows(rows, index), take(points, take(firsts, order)), new_starts, live, planar)

    def build_planar(self) -> None:
        """Build the tree over x and y, if it is not there."""
        if self._planar is None:
            self._planar = _tree(np.ascontiguousarray(self.points[:, :2]), _LEAF)

    @property
    def planar(self) -> bool:
        """Whether the tree over x and y is there."""
        return self._planar is not None

    def near(self, ball: Ball) -> Index:
        tree = self._planar if ball.planar else self._tree
        found = self._scan(ball) if tree is None else np.array(near(tree, ball), np.intp)
        return found if self._starts is None else expand(self._starts, found)

    def locate(self, version_rows: Rows) -> Index:
        held = self.rows[VERSION]
        index: Index = self._order.take(held.searchsorted(version_rows, sorter=self._order), mode='clip')
        index[(held.take(index) != version_rows) | (self.rows[TO_SEQ].take(index) < 0)] = -1
        return index

    def spread(self, first: int, last: int) -> Index:
        if self._starts is None:
            return np.arange(first, last)
        return np.arange(self._starts[first], self._starts[last])

    def points_of(self, index: Index) -> Points:
        points: Points = self.points.take(index if self._owner is None else self._owner.take(index), axis=0)
        return points

    def scrub(self, index: Index) -> None:
        super().scrub(index)
        if self._owner is None or self._starts is None:
            self.points[index] = np.nan
            return
        for point in np.unique(self._owner[index]).tolist():
            if (self.rows[TO_SEQ, self._starts[point] : self._starts[point + 1]] < 0).all():
                self.points[point] = np.nan

    def nearest_beyond(self, ball: Ball, window: Window) -> tuple[float, int] | None:
        tree = self._planar if ball.planar else self._tree
        k = _FIRST_K
        while tree is not None and k < len(self.points) and k <= _LAST_K:
            distances, found = (np.asarray(column) for column in tree.query(ball.point, k))
            found = found[found < len(self.points)]
            index = found if self._starts is None else expand(self._starts, found)
            best = self.first_beyond(index, ball, window)
            if best is not None and best[0] * (1.0 + HAIR) < distances[-1]:
                return best
            k *= 8
        return super().nearest_beyond(ball, window)

    def _scan(self, ball: Ball) -> Index:
        pieces = []
        for first in range(0, len(self.points), SLICE):
            away = np.abs(self.points[first : first + SLICE, : len(ball.center)] - ball.point)
            pieces.append(np.flatnonzero((away <= ball.reach).all(axis=1)) + first)
        return np.concatenate(pieces)


def expand(starts: Index, points: Index) -> Index:
    """Index the rows that stand at each of the points."""
    first = starts.take(points)
    counts = starts.take(points + 1) - first
    ends = counts.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    index: Index = np.arange(total) + (first - ends + counts).repeat(counts)
    return index


def take(source: NDArray[_Scalar], index: Index) -> NDArray[_Scalar]:
    """Take along the first axis in slices, so that no other thread waits long for the interpreter."""
    out = np.empty((len(index), *source.shape[1:]), source.dtype)
    for first in range(0, len(index), SLICE):
        out[first : first + SLICE] = source[index[first : first + SLICE]]
    return out


def take_rows(rows: Rows, index: Index) -> Rows:
    """Take rows as `take` does, column by column."""
    out = np.empty((len(rows), len(index)), rows.dtype)
    for column, taken in zip(rows, out, strict=True):
        for first in range(0, len(index), SLICE):
            taken[first : first + SLICE] = column[index[first : first + SLICE]]
    return out


def gather(parts: Iterable[Part]) -> tuple[Rows, Points]:
    """Copy the rows of parts, each row with its point."""
    parts = tuple(parts)
    total = sum(map(len, parts))
    rows, points = np.empty((6, total), np.int64), np.empty((total, 3), np.float64)
    last = 0
    for part in parts:
        for start in range(0, len(part.points), SLICE):
            index = part.spread(start, min(start + SLICE, len(part.points)))
            first, last = last, last + len(index)
            rows[:, first:last] = part.rows[:, index]
            points[first:last] = part.points_of(index)
    return rows, points


def _tree(points: Points, leaf: int) -> cKDTree:
    # These settings build without the interpreter lock, and in half the time.
    return cKDTree(points, leafsize=leaf, balanced_tree=False, compact_nodes=False)


def _in_space(points: Points) -> Index:
    """Order points so that those near in space are near in the order.

    A query then touches fewer pages of memory, and the tree proper is built in half the time.
    """
    order: Index = _tree(points, _ROUGH_LEAF).indices
    return order


def _keys(points: Points, pick: Index) -> Rows:
    """Give equal points equal numbers; hardly any others share one."""
    bits = take(points, pick).view(np.int64)
    keys: Rows = bits[:, 0] * _MIX[0] + bits[:, 1] * _MIX[1] + bits[:, 2] * _MIX[2]
    return keys


def _group_starts(points: Points, order: Index) -> Index:
    """Start a group wherever the position changes along the order."""
    starts = [np.zeros(1, np.intp)]
    for first in range(1, len(order), SLICE):
        piece = points[order[first - 1 : first + SLICE]]
        starts.append(np.flatnonzero((piece[1:] != piece[:-1]).any(axis=1)) + first)
    return np.concatenate((*starts, np.array([len(order)])))


def _owners(starts: Index) -> NDArray[np.int32]:
    """Give each row the index of the point at which it stands."""
    owners = np.empty(starts[-1], np.int32)
    for first in range(0, len(starts) - 1, SLICE):
        piece = starts[first : first + SLICE + 1]
        owners[piece[0] : piece[-1]] = np.arange(first, first + len(piece) - 1).repeat(np.diff(piece))
    return owners
