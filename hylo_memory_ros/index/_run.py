"""A KD-tree over distinct points, with the rows that stand at them beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hylo_memory_ros.index._ball import HAIR, Ball, Points
from hylo_memory_ros.index._part import SLICE, SPATIAL, TO_SEQ, VERSION, Index, Part, Rows, Window

__all__ = ['Run', 'expand', 'gather']

_LEAF = 48
_ROUGH_LEAF = 512
_FIRST_K, _LAST_K = 32, 4096

_Scalar = TypeVar('_Scalar', bound=np.generic)


class Run(Part):
    """A part that never grows: rows in the order of their points, points in the order of space.

    Parameters
    ----------
    rows, points : ndarray
    starts : ndarray, shape (n + 1,), or None
        Rows ``starts[i]:starts[i + 1]`` stand at point i; None when row i alone stands at point i.
    live : bool
    planar : bool
        Whether to build the tree over x and y too.
    """

    __slots__ = ('_order', '_planar', '_starts', '_tree')

    def __init__(self, rows: Rows, points: Points, starts: Index | None, live: bool, planar: bool) -> None:
        super().__init__(rows, points, live)
        self._starts = starts
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
        """Arrange rows, each with its point, so that one point stands for all rows that share it.

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
        by_spatial = take(pick, np.argsort(take(rows[SPATIAL], pick), kind='stable'))
        stop()
        starts = _group_starts(rows, points, by_spatial)
        firsts = take(by_spatial, starts[:-1])
        # Points that are near in space are near in memory: a query touches fewer pages, and the tree
        # proper is built in half the time.
        in_space = _tree(take(points, firsts), _ROUGH_LEAF).indices
        stop()
        placed = take(points, take(firsts, in_space))
        if len(firsts) == len(pick):
            return cls(take_rows(rows, take(firsts, in_space)), placed, None, live, planar)
        index, _ = expand(starts, in_space)
        counts = take(np.diff(starts), in_space)
        new_starts = np.concatenate((np.zeros(1, np.intp), np.cumsum(counts)))
        return cls(take_rows(rows, take(by_spatial, index)), placed, new_starts, live, planar)

    def build_planar(self) -> None:
        """Build the tree over x and y, if it is not there."""
        if self._planar is None:
            self._planar = _tree(np.ascontiguousarray(self.points[:, :2]), _LEAF)

    @property
    def planar(self) -> bool:
        """Whether the tree over x and y is there."""
        return self._planar is not None

    def near(self, ball: Ball) -> tuple[Index, Index]:
        tree = self._planar if ball.planar else self._tree
        if tree is None:
            found = self._scan(ball)
        else:
            found = np.array(tree.query_ball_point(ball.point, ball.reach_array), np.intp)
        return (found, found) if self._starts is None else expand(self._starts, found)

    def locate(self, version_rows: Rows) -> Index:
        held = self.rows[VERSION]
        index: Index = self._order.take(held.searchsorted(version_rows, sorter=self._order), mode='clip')
        index[(held.take(index) != version_rows) | (self.rows[TO_SEQ].take(index) < 0)] = -1
        return index

    def spread(self, first: int, last: int) -> tuple[Index, Index]:
        points = np.arange(first, last)
        return (points, points) if self._starts is None else expand(self._starts, points)

    def owners(self, index: Index) -> Index:
        return index if self._starts is None else np.searchsorted(self._starts, index, side='right') - 1

    def scrub(self, index: Index) -> None:
        super().scrub(index)
        points = np.unique(self.owners(index))
        if self._starts is not None:
            rows, owner = expand(self._starts, points)
            points = np.setdiff1d(points, owner[self.rows[TO_SEQ, rows] >= 0])
        self.points[points] = np.nan

    def nearest_beyond(self, ball: Ball, window: Window) -> tuple[float, int] | None:
        tree = self._planar if ball.planar else self._tree
        k = _FIRST_K
        while tree is not None and k < len(self.points) and k <= _LAST_K:
            distances, found = (np.asarray(column) for column in tree.query(ball.point, k))
            found = found[found < len(self.points)]
            index, owner = (found, found) if self._starts is None else expand(self._starts, found)
            best = self.first_beyond(index, owner, ball, window)
            if best is not None and best[0] * (1.0 + HAIR) < distances[-1]:
                return best
            k *= 8
        return super().nearest_beyond(ball, window)

    def _scan(self, ball: Ball) -> Index:
        pieces = []
        for first in range(0, len(self.points), SLICE):
            away = np.abs(self.points[first : first + SLICE, : ball.axes] - ball.point)
            pieces.append(np.flatnonzero((away <= ball.reach).all(axis=1)) + first)
        return np.concatenate(pieces)


def expand(starts: Index, points: Index) -> tuple[Index, Index]:
    """Index the rows that stand at each of the points, and the point of each row."""
    first = starts[points]
    counts = starts[points + 1] - first
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    index = np.arange(total) + np.repeat(first - ends + counts, counts)
    return index, np.repeat(points, counts)


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
            index, owner = part.spread(start, min(start + SLICE, len(part.points)))
            first, last = last, last + len(index)
            rows[:, first:last] = part.rows[:, index]
            points[first:last] = part.points[owner]
    return rows, points


def _tree(points: Points, leaf: int) -> cKDTree:
    # These settings build without the interpreter lock, and in half the time.
    return cKDTree(points, leafsize=leaf, balanced_tree=False, compact_nodes=False)


def _group_starts(rows: Rows, points: Points, order: Index) -> Index:
    """Start a group wherever the spatial id, or against the rule the position, changes along the order."""
    spatial = take(rows[SPATIAL], order)
    change = spatial[1:] != spatial[:-1]
    same = np.flatnonzero(~change)
    moved = (take(points, order[same]) != take(points, order[same + 1])).any(axis=1)
    change[same[moved]] = True
    return np.concatenate((np.zeros(1, np.intp), np.flatnonzero(change) + 1, np.array([len(order)])))
