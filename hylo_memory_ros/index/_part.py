"""One searchable part of a place: points, the rows that stand at them, and time bounds over those rows.

Rows are an int64 array of shape (6, m), a column at a time; the constants below name the columns.
Readers use a part while the writer changes it: the writer only ever ends a row (`TO_SEQ`), at a sequence
later than any reader asks for, or scrubs it for good.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index._ball import HAIR, Ball, Points
from hylo_memory_ros.index._rows import OPEN

__all__ = [
    'FROM_SEQ',
    'SHOWN',
    'SLICE',
    'SPATIAL',
    'TO_SEQ',
    'VALID_FROM',
    'VALID_TO',
    'VERSION',
    'Index',
    'Part',
    'Rows',
    'Window',
    'present',
]

VERSION, VALID_FROM, VALID_TO, SPATIAL, FROM_SEQ, TO_SEQ = range(6)
# What a query hands back: the first columns.
SHOWN = 3

Rows = NDArray[np.int64]
Index = NDArray[np.intp]

Window = tuple[int, int, int]
"""What times a query asks for, (low, high, seq): valid_from <= high, low < valid_to, believed at seq."""

# What a row is overwritten with: all but its number, for the numbers of a run are searched in their order.
_SCRUBBED = np.array([[0], [0], [-1], [OPEN], [-1]])
SLICE = 65_536
_NO_INDEX, _NOWHERE = np.empty(0, np.intp), np.empty((0, 3))


def present(rows: Rows) -> NDArray[np.bool_]:
    """Tell which rows were not scrubbed."""
    there: NDArray[np.bool_] = rows[TO_SEQ] >= 0
    return there


class Part(ABC):
    """Rows at points, with the bounds that let a query skip the part or skip a test.

    Attributes
    ----------
    rows : ndarray, shape (6, m), int64
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
        'since_at',
        'since_seq',
    )

    def __init__(self, rows: Rows, points: Points, live: bool) -> None:
        self.rows = rows
        self.points = points
        self.live = live
        self.scrubbed = 0
        # No row matches a query that asks at or after both of the last two, or before one of the first two.
        self.since_at = self.since_seq = OPEN
        self.over_at = -OPEN
        self.over_seq = -1
        # Every row passes the test that its bound stands for.
        self._latest_from = self._latest_seq = -OPEN
        self._earliest_to = self._earliest_end = OPEN

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    @abstractmethod
    def near(self, ball: Ball) -> Index:
        """Find the index of the candidates: every row within the reach of the ball, maybe some others."""

    @abstractmethod
    def locate(self, version_rows: Rows) -> Index:
        """Find the index of each version row; -1 for one that is not here."""

    def spread(self, first: int, last: int) -> Index:
        """Index the rows that stand at the points ``first <= i < last``."""
        return np.arange(first, last)

    def points_of(self, index: Index) -> Points:
        """Return the point at which each of the rows stands."""
        points: Points = self.points.take(index, axis=0)
        return points

    def may_match(self, window: Window) -> bool:
        """Tell from the bounds whether any row can be in the window."""
        low, high, seq = window
        return (low < self.over_at or seq < self.over_seq) and high >= self.since_at and seq >= self.since_seq

    def version_rows(self, index: Index) -> Rows:
        """Return the version row of each of the rows."""
        version_rows: Rows = self.rows[VERSION].take(index)
        return version_rows

    def widen(self, rows: Rows) -> None:
        """Let the bounds take in more rows."""
        for start in range(0, rows.shape[1], SLICE):
            piece = rows[:, start : start + SLICE]
            believed = piece[TO_SEQ] == OPEN
            last_end = int(piece[TO_SEQ].max(initial=-1, where=~believed))
            last_to = int(piece[VALID_TO].max(initial=-OPEN, where=believed))
            self._widen(piece.min(axis=1).tolist(), piece.max(axis=1).tolist(), last_to, last_end)

    def widen_by(self, row: Sequence[int]) -> None:
        """Let the bounds take in one row, in a tenth of the time that its array would take."""
        believed = row[TO_SEQ] == OPEN
        self._widen(row, row, row[VALID_TO] if believed else -OPEN, -1 if believed else row[TO_SEQ])

    def _widen(self, least: Sequence[int], most: Sequence[int], last_to: int, last_end: int) -> None:
        self.since_at = min(self.since_at, least[VALID_FROM])
        self.since_seq = min(self.since_seq, least[FROM_SEQ])
        self.over_at = max(self.over_at, last_to)
        self.over_seq = max(self.over_seq, last_end)
        self._latest_from = max(self._latest_from, most[VALID_FROM])
        self._latest_seq = max(self._latest_seq, most[FROM_SEQ])
        self._earliest_to = min(self._earliest_to, least[VALID_TO])
        self._earliest_end = min(self._earliest_end, least[TO_SEQ])

    def end(self, index: Index, sequence: int) -> int:
        """End the belief in rows that are still believed; return how many."""
        index = index[self.rows[TO_SEQ, index] == OPEN]
        if len(index):
            self.rows[TO_SEQ, index] = sequence
            self._earliest_end = min(self._earliest_end, sequence)
        return len(index)

    def scrub(self, index: Index) -> None:
        """Overwrite rows for good, and their points where no other row stands at them."""
        self.scrubbed += len(index)
        self._earliest_end = -1
        self.rows[1:, index] = _SCRUBBED

    def nearest_beyond(self, ball: Ball, window: Window) -> tuple[float, int] | None:
        """Find the (distance, version row) of the nearest matching row outside the ball."""
        best = None
        for first in range(0, len(self.points), SLICE):
            found = self.first_beyond(self.spread(first, min(first + SLICE, len(self.points))), ball, window)
            if found is not None and (best is None or found < best):
                best = found
        return best

    def first_beyond(self, index: Index, ball: Ball, window: Window) -> tuple[float, int] | None:
        """Choose from candidates the nearest matching row outside the ball."""
        index = index[self._in_window(index, window)]
        points = self.points_of(index)
        rough = ball.rough(points)
        rough[~(rough > ball.radius)] = np.inf
        least = rough.min(0, initial=np.inf)
        if least == np.inf:
            return None
        first = np.flatnonzero(rough <= least * (1.0 + HAIR))
        exact = zip(ball.distances(points[first]), self.version_rows(index[first]).tolist(), strict=True)
        return min(pair for pair in exact if pair[0] > ball.radius)

    def match(self, ball: Ball, window: Window, most: int | None = None) -> tuple[Index, Points]:
        """Find the index of the rows inside the ball and the window, and the point of each.

        With `most`, no more rows than that are looked at.
        """
        if not self.may_match(window):
            return _NO_INDEX, _NOWHERE
        index = self.near(ball)[:most]
        if len(index) and not self._all_match(window):
            keep = self._in_window(index, window)
            if not keep[keep.argmin(0)]:
                index = index[keep]
        if not len(index):
            return index, _NOWHERE
        points = self.points_of(index)
        inside = ball.inside(points)
        return (index, points) if inside is None else (index[inside], points[inside])

    def _all_match(self, window: Window) -> bool:
        """Tell from the bounds whether every row is in the window."""
        low, high, seq = window
        return (
            seq < self._earliest_end
            and low < self._earliest_to
            and high >= self._latest_from
            and seq >= self._latest_seq
        )

    def _in_window(self, index: Index, window: Window) -> NDArray[np.bool_]:
        """Test rows against the window, leaving out the tests that the bounds say all pass."""
        low, high, seq = window
        rows = self.rows
        keep: NDArray[np.bool_] = rows[TO_SEQ].take(index) > seq
        if low >= self._earliest_to:
            keep &= rows[VALID_TO].take(index) > low
        if high < self._latest_from:
            keep &= rows[VALID_FROM].take(index) <= high
        if seq < self._latest_seq:
            keep &= rows[FROM_SEQ].take(index) <= seq
        return keep
