"""KD-tree over distinct points, with the rows at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from math import hypot, sqrt

import numpy as np
from scipy.spatial import cKDTree

from hylo_memory_ros.index.spatial.rows import TO_SEQ, VERSION, Indices, Points, Rows, Window
from hylo_memory_ros.index.spatial.segment import MARGIN, Ball, Segment

__all__ = ['TreeSegment', 'merge_rows']

_LEAF = 48
_COARSE_LEAF = 512
_FIRST_K, _LAST_K = 32, 4096
_MOST_LAYERS = 32
# Odd, large and unrelated; products wrap round.
_HASH_FACTORS = np.array([-7046029254386353131, -4417276706812531889, 1609587929392839161])


class TreeSegment(Segment):
    """Segment that never grows: rows in the order of their points, points in the order of space.

    Parameters
    ----------
    rows, points : ndarray
    starts : ndarray, shape (n + 1,), or None
        Rows ``starts[i]:starts[i + 1]`` are at point i; None when row i alone is at point i.
    live : bool
    """

    __slots__ = ('_high_m', '_low_m', '_order', '_owners', '_starts', '_tree')

    def __init__(self, rows: Rows, points: Points, starts: Indices | None, live: bool) -> None:
        super().__init__(rows, points, live)
        self._starts = starts
        # The point of each row; 32 bits are enough and half the memory.
        self._owners = (
            None if starts is None else np.arange(len(points), dtype=np.int32).repeat(np.diff(starts))
        )
        self._tree = _build_tree(points, _LEAF)
        self._order = np.argsort(rows[VERSION])
        self._low_m, self._high_m = float(points[:, 2].min()), float(points[:, 2].max())
        self.widen(rows)

    @classmethod
    def build(
        cls, rows: Rows, points: Points, chosen: Indices, live: bool, stop: Callable[[], None] = lambda: None
    ) -> TreeSegment:
        """Arrange rows, each with its point.

        Closed rows share points, so that a place with a long history is one point of the tree. Live rows do
        not: few would, and looking up the rows of a point costs a query more than the test of a few points.

        Parameters
        ----------
        rows : ndarray, shape (6, m), int64
        points : ndarray, shape (m, 3), float64
        chosen : ndarray of indices
            The rows to take.
        live : bool
        stop : callable
            Called between steps; raises to cancel.
        """
        if live:
            chosen = chosen[_spatial_order(points[chosen])]
            stop()
            return cls(rows.take(chosen, axis=1), points[chosen], None, live)
        chosen = chosen[np.argsort(_hash_points(points[chosen]), kind='stable')]
        stop()
        sorted_points = points[chosen]
        changes = (sorted_points[1:] != sorted_points[:-1]).any(axis=1)
        starts = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(chosen)]])
        distinct = sorted_points[starts[:-1]]
        order = _spatial_order(distinct)
        stop()
        row_order = chosen[_expand(starts, order)]
        new_starts = np.concatenate([np.zeros(1, np.intp), np.cumsum(np.diff(starts)[order])])
        return cls(rows.take(row_order, axis=1), distinct[order], new_starts, live)

    def candidates(self, ball: Ball) -> Indices:
        """Find the rows within the reach of the ball."""
        found = (
            self._find_in_column(ball)
            if ball.horizontal
            else self._tree.query_ball_point(ball.point, ball.reach)
        )
        points = np.array(found, np.intp)
        return points if self._starts is None else _expand(self._starts, points)

    def locate(self, version_rows: Rows) -> Indices:
        """Find the index of each version row; -1 for a row that is not in the segment."""
        held = self.rows[VERSION]
        indices: Indices = self._order.take(held.searchsorted(version_rows, sorter=self._order), mode='clip')
        indices[(held.take(indices) != version_rows) | (self.rows[TO_SEQ].take(indices) < 0)] = -1
        return indices

    def points_of(self, indices: Indices) -> Points:
        """Return the point of each of the rows, shape (n, 3)."""
        points: Points = self.points.take(
            indices if self._owners is None else self._owners.take(indices), axis=0
        )
        return points

    def erase(self, indices: Indices) -> None:
        """Overwrite rows for good, and the points at which no other row remains."""
        super().erase(indices)
        if self._owners is None or self._starts is None:
            self.points[indices] = np.nan
            return
        for point in np.unique(self._owners[indices]).tolist():
            if (self.rows[TO_SEQ, self._starts[point] : self._starts[point + 1]] < 0).all():
                self.points[point] = np.nan

    def nearest_beyond(self, ball: Ball, window: Window) -> tuple[float, int] | None:
        """Find the (distance, version row) of the nearest matching row outside the ball."""
        center, height = ball.point, 0.0
        if ball.horizontal:
            # No point is more than `height` above or below the middle.
            middle = self._low_m + (self._high_m - self._low_m) / 2.0
            height = max(self._high_m - middle, middle - self._low_m)
            center = np.append(ball.point, middle)
        k = _FIRST_K
        while k < len(self.points) and k <= _LAST_K:
            distances, found = (np.asarray(column) for column in self._tree.query(center, k))
            found = found[found < len(self.points)]
            indices = found if self._starts is None else _expand(self._starts, found)
            best = self._choose_nearest(indices, ball, window)
            # Every point that was not found is at least this far away, seen from above too.
            bound = sqrt(max(0.0, float(distances[-1]) ** 2 * (1.0 - MARGIN) - height**2))
            if best is not None and best[0] * (1.0 + MARGIN) < bound:
                return best
            k *= 8
        return super().nearest_beyond(ball, window)

    def _find_in_column(self, ball: Ball) -> list[int]:
        """Find points near a vertical line by balls stacked along it, so that no second tree is needed."""
        extent = self._high_m - self._low_m
        layers = min(_MOST_LAYERS, 1 + int(extent / (2.0 * ball.reach)))
        half = extent / layers / 2.0
        heights = self._low_m + half * (2 * np.arange(layers) + 1)
        centers = np.column_stack([np.broadcast_to(ball.point, (layers, 2)), heights])
        # The heights are rounded.
        half += 4.0 * np.spacing(max(abs(self._low_m), abs(self._high_m)))
        found = self._tree.query_ball_point(centers, hypot(ball.reach, half) * (1.0 + MARGIN))
        return list(set(chain.from_iterable(found)))


def merge_rows(segments: Iterable[Segment]) -> tuple[Rows, Points]:
    """Copy the rows of segments, each row with its point."""
    segments = tuple(segments)
    rows = [segment.rows[:, : len(segment)] for segment in segments]
    points = [segment.points_of(np.arange(len(segment))) for segment in segments]
    return np.concatenate([np.empty((6, 0), np.int64), *rows], axis=1), np.concatenate(
        [np.empty((0, 3)), *points]
    )


def _expand(starts: Indices, points: Indices) -> Indices:
    """List the rows at each of the points."""
    first = starts.take(points)
    counts = starts.take(points + 1) - first
    ends = counts.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    indices: Indices = np.arange(total) + (first - ends + counts).repeat(counts)
    return indices


def _build_tree(points: Points, leaf: int) -> cKDTree:
    # These settings build without the interpreter lock, and in half the time.
    return cKDTree(points, leafsize=leaf, balanced_tree=False, compact_nodes=False)


def _spatial_order(points: Points) -> Indices:
    """Order points so that neighbours in space are near in the order.

    A query then touches fewer pages of memory, and the final tree is built in half the time.
    """
    order: Indices = _build_tree(points, _COARSE_LEAF).indices
    return order


def _hash_points(points: Points) -> Rows:
    """Give equal points equal numbers; collisions only split a group."""
    bits = points.view(np.int64)
    hashes: Rows = (
        bits[:, 0] * _HASH_FACTORS[0] + bits[:, 1] * _HASH_FACTORS[1] + bits[:, 2] * _HASH_FACTORS[2]
    )
    return hashes
