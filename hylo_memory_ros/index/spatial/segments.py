"""Segments of a partition: a KD-tree segment and a delta segment of the newest rows.

Readers use a segment while the writer changes it: the writer only ends rows (`TO_SEQ`), at a sequence later
than any reader asks for, or erases them for good.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from math import dist, hypot, inf, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.index.spatial.rows import (
    FROM_SEQ,
    LARGEST_M,
    OPEN,
    TO_SEQ,
    VALID_FROM,
    VALID_TO,
    VERSION,
    Indices,
    Points,
    Rows,
    Window,
)

# scipy's arithmetic and math.dist differ by some units in the last place: pre-select with a margin, then
# decide with math.dist alone.
MARGIN = 1e-9
_MARGIN_M = 1e-12
# So many are measured sooner by math.dist than by the calls of numpy.
_FEW = 32
# So many rows are tested at once where a count may stop early.
_CHUNK = 16_384
# Every column but the number, by which the rows of a tree segment are found.
_ERASED = np.array([[0], [0], [-1], [OPEN], [-1]])
_NO_INDICES, _NO_POINTS = np.empty(0, np.intp), np.empty((0, 3))


class Ball:
    """Centre and radius of a query, in space or, when `horizontal`, over x and y only.

    Raises
    ------
    InvalidRequestError
        The radius is negative or not finite, or the centre is not three finite numbers.
    """

    __slots__ = ('center', 'horizontal', 'point', 'radius', 'reach')

    def __init__(self, center: Sequence[float], radius: float, horizontal: bool) -> None:
        if not 0.0 <= radius < inf:
            raise InvalidRequestError(
                f'radius_m: expected a finite number of at least 0, got {radius}', radius_m=radius
            )
        position = tuple(map(float, center))
        if len(position) != 3 or not all(abs(axis) <= LARGEST_M for axis in position):
            raise InvalidRequestError(f'center: expected three finite numbers, got {center}', center=center)
        self.horizontal = horizontal
        self.center = position[:2] if horizontal else position
        self.point = np.array(self.center)
        # No two points are farther apart; the square of more might overflow.
        self.radius = min(radius, 4.0 * LARGEST_M)
        self.reach = self.radius * (1.0 + MARGIN) + _MARGIN_M

    def distances(self, points: Points) -> list[float]:
        """Measure with `math.dist`, which alone decides what lies within."""
        columns = points.T[: len(self.center)].tolist()
        return list(map(dist, zip(*columns, strict=True), repeat(self.center)))

    def approximate_distances(self, points: Points) -> NDArray[np.float64]:
        """Measure many points at once: exactly near the surface, else to some units in the last place."""
        offsets = points[:, : len(self.center)] - self.point
        distances: NDArray[np.float64] = np.sqrt(np.einsum('ij,ij->i', offsets, offsets))
        edge = np.abs(distances - self.radius) <= self.radius * MARGIN + _MARGIN_M
        if edge.any():
            distances[edge] = self.distances(points[edge])
        return distances

    def contains(self, points: Points) -> NDArray[np.bool_]:
        """Test which points lie within, the boundary included."""
        if len(points) <= _FEW:
            return np.array([distance <= self.radius for distance in self.distances(points)], np.bool_)
        inside: NDArray[np.bool_] = self.approximate_distances(points) <= self.radius
        return inside


class Segment(ABC):
    """Rows at points, with the bounds that let a query skip the segment.

    Attributes
    ----------
    rows : ndarray, shape (6, m), int64
    points : ndarray, shape (n, 3), float64
        Metres, in the frame of the partition.
    live : bool
        Whether the rows were believed and still valid when they were added.
    erased : int
        Rows that were overwritten for good; they still count in the length.
    """

    __slots__ = (
        '_first_from_seq',
        '_first_valid_from',
        '_first_valid_to',
        '_last_believed_to',
        '_last_from_seq',
        '_last_to_seq',
        '_last_valid_from',
        'erased',
        'live',
        'points',
        'rows',
    )

    def __init__(self, rows: Rows, points: Points, live: bool) -> None:
        self.rows = rows
        self.points = points
        self.live = live
        self.erased = 0
        self._first_valid_from = self._first_valid_to = self._first_from_seq = OPEN
        self._last_valid_from = self._last_from_seq = -OPEN
        # Of the rows that are believed, and of those that are not.
        self._last_believed_to = -OPEN
        self._last_to_seq = -1

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    @abstractmethod
    def candidates(self, ball: Ball) -> Indices:
        """Find every row within the reach of the ball, and maybe some others."""

    @abstractmethod
    def locate(self, version_rows: Rows) -> Indices:
        """Find the index of each version row; -1 for a row that is not in the segment."""

    def points_of(self, indices: Indices) -> Points:
        """Return the point of each of the rows, shape (n, 3)."""
        points: Points = self.points.take(indices, axis=0)
        return points

    def may_match(self, window: Window) -> bool:
        """Test with the bounds whether any row can be in the window."""
        low, high, seq = window
        return (
            (low < self._last_believed_to or seq < self._last_to_seq)
            and high >= self._first_valid_from
            and seq >= self._first_from_seq
        )

    def widen(self, rows: Rows) -> None:
        """Widen the bounds to include more rows."""
        least, most = rows.min(axis=1).tolist(), rows.max(axis=1).tolist()
        believed = rows[TO_SEQ] == OPEN
        believed_to = int(rows[VALID_TO].max(initial=-OPEN, where=believed))
        to_seq = int(rows[TO_SEQ].max(initial=-1, where=~believed))
        self._first_valid_from = min(self._first_valid_from, least[VALID_FROM])
        self._first_valid_to = min(self._first_valid_to, least[VALID_TO])
        self._first_from_seq = min(self._first_from_seq, least[FROM_SEQ])
        self._last_valid_from = max(self._last_valid_from, most[VALID_FROM])
        self._last_from_seq = max(self._last_from_seq, most[FROM_SEQ])
        self._last_believed_to = max(self._last_believed_to, believed_to)
        self._last_to_seq = max(self._last_to_seq, to_seq)

    def end(self, indices: Indices, sequence: int) -> int:
        """End the belief in rows that are still believed; return their number."""
        indices = indices[self.rows[TO_SEQ, indices] == OPEN]
        self.rows[TO_SEQ, indices] = sequence
        return len(indices)

    def erase(self, indices: Indices) -> None:
        """Overwrite rows for good, and the points at which no other row remains."""
        self.erased += len(indices)
        self.rows[1:, indices] = _ERASED

    def match(self, ball: Ball, window: Window, limit: int | None = None) -> tuple[Indices, Points]:
        """Find the rows inside the ball and the window, and the point of each.

        With `limit`, no more rows than that are tested.
        """
        if not self.may_match(window):
            return _NO_INDICES, _NO_POINTS
        indices = self.candidates(ball)[:limit]
        if len(indices):
            indices = indices[self._in_window(indices, window)]
        if not len(indices):
            return _NO_INDICES, _NO_POINTS
        points = self.points_of(indices)
        inside = ball.contains(points)
        return indices[inside], points[inside]

    def rows_in(self, window: Window, most: int) -> Rows:
        """Find version rows in the window, at any place, and stop after about `most` of them."""
        found, count = [np.empty(0, np.int64)], 0
        for start in range(0, len(self) if self.may_match(window) else 0, _CHUNK):
            indices = np.arange(start, min(start + _CHUNK, len(self)))
            found.append(self.rows[VERSION].take(indices[self._in_window(indices, window)]))
            count += len(found[-1])
            if count >= most:
                break
        return np.concatenate(found)

    def nearest_beyond(self, ball: Ball, window: Window) -> tuple[float, int] | None:
        """Find the (distance, version row) of the nearest matching row outside the ball."""
        return self._choose_nearest(np.arange(len(self)), ball, window)

    def _choose_nearest(self, indices: Indices, ball: Ball, window: Window) -> tuple[float, int] | None:
        indices = indices[self._in_window(indices, window)]
        points = self.points_of(indices)
        distances = ball.approximate_distances(points)
        distances[~(distances > ball.radius)] = inf
        least = distances.min(initial=inf)
        if least == inf:
            return None
        nearest = np.flatnonzero(distances <= least * (1.0 + MARGIN))
        version_rows = self.rows[VERSION].take(indices[nearest]).tolist()
        exact = zip(ball.distances(points[nearest]), version_rows, strict=True)
        return min(pair for pair in exact if pair[0] > ball.radius)

    def _in_window(self, indices: Indices, window: Window) -> NDArray[np.bool_]:
        low, high, seq = window
        keep: NDArray[np.bool_] = self.rows[TO_SEQ].take(indices) > seq
        # Mostly the bounds decide, and the columns need not be read.
        if low >= self._first_valid_to:
            keep &= self.rows[VALID_TO].take(indices) > low
        if high < self._last_valid_from:
            keep &= self.rows[VALID_FROM].take(indices) <= high
        if seq < self._last_from_seq:
            keep &= self.rows[FROM_SEQ].take(indices) <= seq
        return keep


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
