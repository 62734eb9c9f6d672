"""Searchable segment of a partition: rows at points, with time bounds over the rows.

Readers use a segment while the writer changes it: the writer only ends rows (`TO_SEQ`), at a sequence later
than any reader asks for, or erases them for good.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import repeat
from math import dist, inf

import numpy as np
from numpy.typing import NDArray

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

__all__ = ['MARGIN', 'Ball', 'Segment']

# scipy's arithmetic and math.dist differ by some units in the last place: pre-select with a margin, then
# decide with math.dist alone.
MARGIN = 1e-9
_MARGIN_M = 1e-12
# So many are measured sooner by math.dist than by the calls of numpy.
_FEW = 32
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
