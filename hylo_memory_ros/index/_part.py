"""One searchable part of a place: points, the rows that stand at them, and time bounds over those rows.

Rows are an int64 array of shape (m, 6); the columns are the constants below. Readers use a part while
the writer changes it: the writer only ever ends a row (`TO_SEQ`) at a sequence later than any reader
asks for, or scrubs it for good.
"""

from __future__ import annotations

from itertools import repeat
from math import dist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index._rows import OPEN

__all__ = [
    'FROM_SEQ',
    'SLICE',
    'SPATIAL',
    'TO_SEQ',
    'VALID_FROM',
    'VALID_TO',
    'VERSION',
    'Ball',
    'Part',
    'Window',
]

VERSION, SPATIAL, VALID_FROM, VALID_TO, FROM_SEQ, TO_SEQ = range(6)

Rows = NDArray[np.int64]
Points = NDArray[np.float64]
Index = NDArray[np.intp]

_GONE = -1
# scipy's arithmetic and math.dist differ by some units in the last place: pre-select a hair more, then
# decide with math.dist alone.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
SLICE = 65_536


class Window(NamedTuple):
    """The times a query asks for: ``valid_from <= high``, ``low < valid_to``, believed at `seq`."""

    low: int
    high: int
    seq: int


class Ball:
    """A centre and a radius, in space or, when `planar`, over x and y only."""

    __slots__ = ('axes', 'center', 'planar', 'radius', 'reach')

    def __init__(self, center: tuple[float, float, float], radius: float, planar: bool) -> None:
        self.planar = planar
        self.axes = 2 if planar else 3
        self.center: tuple[float, ...] = center[:2] if planar else center
        self.radius = radius
        # Given as an array of no dimensions, a radius costs scipy 3 us less per call than as a float.
        self.reach = np.array(radius * (1.0 + _RELATIVE) + _ABSOLUTE)

    def distances(self, points: Points) -> list[float]:
        """Measure with `math.dist`, the one arbiter of what lies within."""
        if self.planar:
            points = points[:, :2]
        return list(map(dist, points.tolist(), repeat(self.center)))


class Part:
    """Rows at points, with the bounds that let a query skip the part or skip a test.

    Attributes
    ----------
    rows : ndarray, shape (m, 6), int64
    points : ndarray, shape (n, 3), float64
        Metres, in the frame of the place.
    live : bool
        Whether the rows were believed and not over when they came here.
    scrubbed : int
        Rows that were overwritten for good; they still count in the length.
    """

    __slots__ = (
        '_earliest_end',
        '_earliest_to',
        '_latest_from',
        '_latest_seq',
        'live',
        'over_at',
        'over_seq',
        'points',
        'rows',
        'scrubbed',
    )

    def __init__(self, rows: Rows, points: Points, live: bool) -> None:
        self.rows = rows
        self.points = points
        self.live = live
        self.scrubbed = 0
        # No row matches a query that asks at or after both of these.
        self.over_at = -OPEN
        self.over_seq = -1
        # Every row passes the test that its bound stands for.
        self._latest_from = self._latest_seq = -OPEN
        self._earliest_to = self._earliest_end = OPEN

    def __len__(self) -> int:
        return len(self.rows)

    def near(self, ball: Ball) -> tuple[Index, Index]:
        """Find candidates within the reach of the ball: indices of rows, and of the point of each."""
        raise NotImplementedError

    def locate(self, version_rows: Rows) -> Index:
        """Find the index of each version row; -1 for one that is not here."""
        raise NotImplementedError

    def spread(self, first: int, last: int) -> tuple[Index, Index]:
        """Index the rows that stand at the points ``first <= i < last``, and the point of each."""
        index = np.arange(first, last)
        return index, index

    def owners(self, index: Index) -> Index:
        """Return the index of the point at which each of the rows stands."""
        return index

    def widen(self, rows: Rows) -> None:
        """Let the bounds take in more rows."""
        for start in range(0, len(rows), SLICE):
            piece = rows[start : start + SLICE]
            ends = piece[:, TO_SEQ]
            believed = ends == OPEN
            self.over_at = max(self.over_at, int(piece[:, VALID_TO].max(initial=-OPEN, where=believed)))
            self.over_seq = max(self.over_seq, int(ends.max(initial=-1, where=~believed)))
            self._latest_from = max(self._latest_from, int(piece[:, VALID_FROM].max()))
            self._latest_seq = max(self._latest_seq, int(piece[:, FROM_SEQ].max()))
            self._earliest_to = min(self._earliest_to, int(piece[:, VALID_TO].min()))
            self._earliest_end = min(self._earliest_end, int(ends.min()))

    def end(self, index: Index, sequence: int) -> int:
        """End the belief in rows that are still believed; return how many."""
        index = index[self.rows[index, TO_SEQ] == OPEN]
        if len(index):
            self.rows[index, TO_SEQ] = sequence
            self._earliest_end = min(self._earliest_end, sequence)
        return len(index)

    def scrub(self, index: Index) -> None:
        """Overwrite rows for good, and their points where no other row stands at them."""
        self.scrubbed += len(index)
        self._earliest_end = -1
        self.rows[index] = (_GONE, _GONE, 0, 0, OPEN, -1)

    def match(self, ball: Ball, window: Window) -> tuple[list[float], Rows] | None:
        """Find the rows inside the ball and the window.

        Returns
        -------
        (distances, rows) or None
            Metres by `math.dist`, and copies of the rows, in no particular order.
        """
        index, owner = self.near(ball)
        if not len(index):
            return None
        rows = self.rows.take(index, axis=0)
        keep = self._in_window(rows, window)
        if keep is not None:
            rows = rows[keep]
            owner = owner[keep]
            if not len(owner):
                return None
        distances = ball.distances(self.points.take(owner, axis=0))
        if max(distances) > ball.radius:
            inside = [i for i, distance in enumerate(distances) if distance <= ball.radius]
            return ([distances[i] for i in inside], rows[inside]) if inside else None
        return distances, rows

    def nearest_beyond(self, ball: Ball, window: Window) -> tuple[float, int] | None:
        """Find the (distance, version row) of the nearest matching row outside the ball."""
        best = None
        for first in range(0, len(self.points), SLICE):
            found = self.first_beyond(*self.spread(first, min(first + SLICE, len(self.points))), ball, window)
            if found is not None and (best is None or found < best):
                best = found
        return best

    def first_beyond(
        self, index: Index, owner: Index, ball: Ball, window: Window
    ) -> tuple[float, int] | None:
        """Choose from candidates the nearest matching row outside the ball."""
        rows = self.rows.take(index, axis=0)
        keep = self._in_window(rows, window)
        if keep is not None:
            rows, owner = rows[keep], owner[keep]
        points = self.points.take(owner, axis=0)
        away = points[:, : ball.axes] - np.array(ball.center)
        rough = np.sqrt(np.einsum('ij,ij->i', away, away))
        edge = np.flatnonzero(np.abs(rough - ball.radius) <= ball.radius * _RELATIVE + _ABSOLUTE)
        rough[edge] = ball.distances(points[edge])
        rough[~(rough > ball.radius)] = np.inf
        least = rough.min(initial=np.inf)
        if least == np.inf:
            return None
        first = np.flatnonzero(rough <= least * (1.0 + _RELATIVE))
        exact = zip(ball.distances(points[first]), rows[first, VERSION].tolist(), strict=True)
        return min(pair for pair in exact if pair[0] > ball.radius)

    def _in_window(self, rows: Rows, window: Window) -> NDArray[np.bool_] | None:
        """Test the rows against the window; None when the bounds say that all pass."""
        low, high, seq = window
        keep = None
        if seq >= self._earliest_end:
            keep = rows[:, TO_SEQ] > seq
        if low >= self._earliest_to:
            begun = rows[:, VALID_TO] > low
            keep = begun if keep is None else keep & begun
        if high < self._latest_from:
            begun = rows[:, VALID_FROM] <= high
            keep = begun if keep is None else keep & begun
        if seq < self._latest_seq:
            known = rows[:, FROM_SEQ] <= seq
            keep = known if keep is None else keep & known
        return keep
