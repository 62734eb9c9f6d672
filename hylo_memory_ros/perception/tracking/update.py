"""What an observation changes of its landmark, and what of that is worth writing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.perception.ingestion.scan import Scan
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.landmark import Fused, item_of
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.fusion import fuse
from hylo_memory_ros.perception.tracking.orientation import fuse_orientations, turned_far
from hylo_memory_ros.perception.tracking.sym3 import DIAGONAL

__all__ = ['Update', 'claimed', 'vote', 'winner']

# Lead that another label needs: detectors that flicker between two would otherwise have it
# written again and again.
_LEAD = 1.5
_LEAD_VOTES = 1.0
# A confirmed landmark is written again when it has turned by more than this, degrees.
_TURN_MIN_DEG = 15.0
# Detectors may make up labels for ever.
_LABELS_KEPT = 16


def vote(row: int, votes: Mapping[str, float], book: LandmarkMap) -> bool:
    """Add scores to those of a landmark; return whether its label changed."""
    scores, label = book.scores[row], book.labels[row]
    if len(votes) == 1 and label in votes:
        # The usual case, and what it confirms it does not change.
        scores[label] = scores.get(label, 0.0) + votes[label]
        return False
    for name, score in votes.items():
        scores[name] = scores.get(name, 0.0) + score
    if len(scores) > _LABELS_KEPT:
        kept = sorted(scores, key=lambda name: (-scores[name], name))[: _LABELS_KEPT - 1]
        book.scores[row] = {name: scores.get(name, 0.0) for name in sorted({*kept, label})}
    book.labels[row] = winner(label, book.scores[row])
    return book.labels[row] != label


def winner(label: str, scores: Mapping[str, float]) -> str:
    """Return the label that the scores speak for, given the one so far.

    Examples
    --------
    >>> winner('cup', {'cup': 4.0, 'mug': 5.0}), winner('cup', {'cup': 4.0, 'mug': 7.5})
    ('cup', 'mug')
    """
    best = min(scores, key=lambda name: (-scores[name], name), default=label)
    return best if scores.get(best, 0.0) > _LEAD * scores.get(label, 0.0) + _LEAD_VOTES else label


Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Votes = Sequence[Mapping[str, float]]


class Update:
    """Takes observations into landmarks, and writes little.

    A landmark is written when it is confirmed; again when it is elsewhere than was written by
    more than a least distance and more than so many of its standard deviations, or turned by more
    than a least angle; and when its label changed.

    Parameters
    ----------
    settings : LandmarkSettings
        Confirmation, displacement, floor.
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self._settings = settings

    def take(
        self, scan: Scan, votes: Votes, places: Rows, rows: Rows, book: LandmarkMap
    ) -> Sequence[MemoryItem]:
        """Take observations into their landmarks; return the statements that follow.

        Parameters
        ----------
        votes : sequence of mapping
            Score by label of every observation of the scan.
        places : ndarray of int
            Which observations.
        rows : ndarray of int
            Row of the landmark of every observation of the scan, each at most once.
        """
        taken = rows[places]
        if not len(taken):
            return ()
        state = book.state
        self._restart_moved(scan, places, taken, book)
        anew = state['n'][taken] == 0
        pinned = state['pinned'][taken]
        self._average(scan, places, taken, book)
        fuse(scan, places[~pinned], taken[~pinned], book, self._settings)
        fuse_orientations(state, taken[~pinned], scan.orientations[places[~pinned]], anew[~pinned], scan.axis)
        self._count(scan.stamp_ns, taken, book)
        book.place(taken)
        changed = [
            vote(row, votes[place], book) and not state['pinned'][row]
            for place, row in zip(places.tolist(), taken.tolist(), strict=True)
        ]
        return self.written(scan, taken, book, np.array(changed, dtype=bool))

    def written(
        self, scan: Scan, rows: Rows, book: LandmarkMap, changed: NDArray[np.bool_] | None = None
    ) -> list[MemoryItem]:
        """Return the statements of those landmarks of which there is something new to say."""
        news = self._is_news(scan, rows, book, changed)
        told = rows[news].tolist()
        return [self.statement(row, book, source=scan.input, stamp_ns=scan.stamp_ns) for row in told]

    @staticmethod
    def _restart_moved(scan: Scan, places: Rows, rows: Rows, book: LandmarkMap) -> None:
        """Begin a new estimate of things that are known by name and are elsewhere now."""
        state = book.state
        away = _length(scan.positions[places] - state['mean'][rows]) > scan.gate_m
        moved = rows[state['has_instance'][rows] & away & ~state['pinned'][rows] & (state['n'][rows] > 0)]
        for row in moved.tolist():
            book.restart(row)

    @staticmethod
    def _average(scan: Scan, places: Rows, rows: Rows, book: LandmarkMap) -> None:
        state = book.state
        n = state['n'][rows].astype(np.float64)
        state['score'][rows] = _mean(state['score'][rows], scan.scores[places], n)
        old, size = state['extent'][rows], scan.extents[places]
        mixed = np.where(np.isnan(old), size, _mean(old, size, n))
        state['extent'][rows] = np.where(np.isnan(size), old, mixed)

    @staticmethod
    def _count(stamp_ns: int, rows: Rows, book: LandmarkMap) -> None:
        state = book.state
        state['since_ns'][rows[state['n'][rows] == 0]] = stamp_ns
        state['first_ns'][rows[state['observations'][rows] == 0]] = stamp_ns
        state['last_ns'][rows] = stamp_ns
        state['n'][rows] += 1
        state['observations'][rows] += 1

    def _is_news(
        self, scan: Scan, rows: Rows, book: LandmarkMap, changed: NDArray[np.bool_] | None
    ) -> NDArray[np.bool_]:
        settings, state = self._settings, book.state
        variance = state['covariance'][rows][:, DIAGONAL].max(axis=1, initial=settings.sigma_floor_m**2)
        far = np.maximum(settings.move_min_m, settings.move_sigmas * np.sqrt(variance))
        # Unwritten ones are nowhere, NaN, and further away than anything.
        news = ~(_length(state['mean'][rows] - state['written'][rows]) <= far)
        news |= turned_far(state, rows, math.radians(_TURN_MIN_DEG))
        if changed is not None:
            news |= changed
        n = state['n'][rows]
        doubtful = (state['written_ns'][rows] == NEVER) & (n < scan.hit_ratio * state['chances'][rows])
        told: NDArray[np.bool_] = news & (n >= settings.confirm_n) & ~doubtful
        return told

    def statement(self, row: int, book: LandmarkMap, *, source: str, stamp_ns: int) -> MemoryItem:
        """Return the statement of where a landmark is, which counts as written from now on.

        Parameters
        ----------
        source : str
            Input whose observation made it so, or the edit that did.
        stamp_ns : int
            When, nanoseconds.
        """
        state = book.state[row]
        since_ns, written_ns = int(state['since_ns']), int(state['written_ns'])
        valid_from_ns = since_ns if written_ns == NEVER or since_ns > written_ns else stamp_ns
        state['written'], state['written_ns'] = state['mean'], valid_from_ns
        state['written_rotation'] = state['rotation']
        state['dirty'] = True
        return item_of(
            claimed(book.fused(row), self._settings),
            frame_id=self._settings.global_frame,
            map_id=book.map_id,
            source=source,
            valid_from_ns=valid_from_ns,
            stamp_ns=stamp_ns,
        )


def claimed(fused: Fused, settings: LandmarkSettings) -> Fused:
    """Return a landmark that claims no more certainty than the floor."""
    floor = settings.sigma_floor_m**2
    xx, xy, xz, yy, yz, zz = fused.covariance
    return fused._replace(covariance=(max(xx, floor), xy, xz, max(yy, floor), yz, max(zz, floor)))


def _mean(old: Array, given: Array, n: Array) -> Array:
    """Return the mean of one more than `n`; the first one is taken as it is."""
    count = n.reshape(-1, *(1,) * (given.ndim - 1))
    mean: Array = np.where(count == 0.0, given, old + (given - old) / (count + 1.0))
    return mean


def _length(steps: Array) -> Array:
    x, y, z = steps.T
    length: Array = np.sqrt(x * x + y * y + z * z)
    return length
