"""Update of landmarks with observations, and the statements that are worth writing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.perception.ingestion.observation import Scan
from hylo_memory_ros.perception.map.landmark import NEVER, LandmarkEstimate, create_item
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.fusion import exceeds_turn, fuse, fuse_orientations
from hylo_memory_ros.perception.tracking.sym3 import DIAGONAL

# Hysteresis of the label: a detector that alternates between two would otherwise cause a statement
# each time.
_LEAD = 1.5
# A confirmed landmark is written again when it has turned by more than this, degrees.
_TURN_MIN_DEG = 15.0
_LEAD_VOTES = 1.0
# Detectors choose labels freely, so their number must be bounded.
_LABELS_KEPT = 16


def add_votes(row: int, votes: Mapping[str, float], landmarks: LandmarkMap) -> bool:
    """Add label scores to those of a landmark; return whether its label changed."""
    scores, label = landmarks.scores[row], landmarks.labels[row]
    if len(votes) == 1 and label in votes:
        # The usual case, which cannot change the label.
        scores[label] = scores.get(label, 0.0) + votes[label]
        return False
    for name, score in votes.items():
        scores[name] = scores.get(name, 0.0) + score
    if len(scores) > _LABELS_KEPT:
        kept = sorted(scores, key=lambda name: (-scores[name], name))[: _LABELS_KEPT - 1]
        landmarks.scores[row] = {name: scores.get(name, 0.0) for name in sorted({*kept, label})}
    landmarks.labels[row] = select_label(label, landmarks.scores[row])
    return landmarks.labels[row] != label


def select_label(label: str, scores: Mapping[str, float]) -> str:
    """Return the label with the best score, given the current one.

    Examples
    --------
    >>> select_label('cup', {'cup': 4.0, 'mug': 5.0}), select_label('cup', {'cup': 4.0, 'mug': 7.5})
    ('cup', 'mug')
    """
    best = min(scores, key=lambda name: (-scores[name], name), default=label)
    return best if scores.get(best, 0.0) > _LEAD * scores.get(label, 0.0) + _LEAD_VOTES else label


Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Votes = Sequence[Mapping[str, float]]


class LandmarkUpdater:
    """Updates landmarks with observations, and writes few statements.

    A landmark is written when it is confirmed; again when it has moved from the written position by more
    than a least distance and more than a number of its standard deviations, or turned by more than a
    least angle; and when its label changed.

    Parameters
    ----------
    settings : LandmarkSettings
        Confirmation, displacement, floor.
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self._settings = settings

    def take(
        self, scan: Scan, votes: Votes, places: Rows, rows: Rows, landmarks: LandmarkMap
    ) -> Sequence[MemoryItem]:
        """Update landmarks with their observations; return the statements that follow.

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
        state = landmarks.state
        self._restart_moved(scan, places, taken, landmarks)
        is_new = state['n'][taken] == 0
        pinned = state['pinned'][taken]
        self._average(scan, places, taken, landmarks)
        fuse(scan, places[~pinned], taken[~pinned], landmarks, self._settings)
        fuse_orientations(
            state, taken[~pinned], scan.orientations[places[~pinned]], is_new[~pinned], scan.axis
        )
        self._count(scan.stamp_ns, taken, landmarks)
        landmarks.place(taken)
        changed = [
            add_votes(row, votes[place], landmarks) and not state['pinned'][row]
            for place, row in zip(places.tolist(), taken.tolist(), strict=True)
        ]
        return self.written(scan, taken, landmarks, np.array(changed, dtype=bool))

    def written(
        self, scan: Scan, rows: Rows, landmarks: LandmarkMap, changed: NDArray[np.bool_] | None = None
    ) -> list[MemoryItem]:
        """Return the statements of landmarks that changed enough to be written."""
        news = self._is_news(scan, rows, landmarks, changed)
        due = rows[news].tolist()
        return [self.statement(row, landmarks, source=scan.input, stamp_ns=scan.stamp_ns) for row in due]

    @staticmethod
    def _restart_moved(scan: Scan, places: Rows, rows: Rows, landmarks: LandmarkMap) -> None:
        """Begin a new estimate of named instances that are outside the gate."""
        state = landmarks.state
        away = _length(scan.positions[places] - state['mean'][rows]) > scan.gate_m
        moved = rows[state['has_instance'][rows] & away & ~state['pinned'][rows] & (state['n'][rows] > 0)]
        for row in moved.tolist():
            landmarks.restart(row)

    @staticmethod
    def _average(scan: Scan, places: Rows, rows: Rows, landmarks: LandmarkMap) -> None:
        state = landmarks.state
        n = state['n'][rows].astype(np.float64)
        state['score'][rows] = _mean(state['score'][rows], scan.scores[places], n)
        old, size = state['extent'][rows], scan.extents[places]
        mixed = np.where(np.isnan(old), size, _mean(old, size, n))
        state['extent'][rows] = np.where(np.isnan(size), old, mixed)

    @staticmethod
    def _count(stamp_ns: int, rows: Rows, landmarks: LandmarkMap) -> None:
        state = landmarks.state
        state['since_ns'][rows[state['n'][rows] == 0]] = stamp_ns
        state['first_ns'][rows[state['observations'][rows] == 0]] = stamp_ns
        state['last_ns'][rows] = stamp_ns
        state['n'][rows] += 1
        state['observations'][rows] += 1

    def _is_news(
        self, scan: Scan, rows: Rows, landmarks: LandmarkMap, changed: NDArray[np.bool_] | None
    ) -> NDArray[np.bool_]:
        settings, state = self._settings, landmarks.state
        variance = state['covariance'][rows][:, DIAGONAL].max(axis=1, initial=settings.sigma_floor_m**2)
        far = np.maximum(settings.move_min_m, settings.move_sigmas * np.sqrt(variance))
        # The written position of unwritten landmarks is NaN, so they count as moved.
        news = ~(_length(state['mean'][rows] - state['written'][rows]) <= far)
        news |= exceeds_turn(state, rows, math.radians(_TURN_MIN_DEG))
        if changed is not None:
            news |= changed
        n = state['n'][rows]
        doubtful = (state['written_ns'][rows] == NEVER) & (n < scan.hit_ratio * state['chances'][rows])
        due: NDArray[np.bool_] = news & (n >= settings.confirm_n) & ~doubtful
        return due

    def statement(self, row: int, landmarks: LandmarkMap, *, source: str, stamp_ns: int) -> MemoryItem:
        """Return the statement of a landmark and mark it as written.

        Parameters
        ----------
        source : str
            Input whose observation made it so, or the edit that did.
        stamp_ns : int
            When, nanoseconds.
        """
        state = landmarks.state[row]
        since_ns, written_ns = int(state['since_ns']), int(state['written_ns'])
        valid_from_ns = since_ns if written_ns == NEVER or since_ns > written_ns else stamp_ns
        state['written'], state['written_ns'] = state['mean'], valid_from_ns
        state['written_rotation'] = state['rotation']
        state['dirty'] = True
        return create_item(
            apply_covariance_floor(landmarks.fused(row), self._settings),
            frame_id=self._settings.global_frame,
            map_id=landmarks.map_id,
            source=source,
            valid_from_ns=valid_from_ns,
            stamp_ns=stamp_ns,
        )


def apply_covariance_floor(fused: LandmarkEstimate, settings: LandmarkSettings) -> LandmarkEstimate:
    """Return an estimate whose standard deviations are not below the floor."""
    floor = settings.sigma_floor_m**2
    xx, xy, xz, yy, yz, zz = fused.covariance
    return fused._replace(covariance=(max(xx, floor), xy, xz, max(yy, floor), yz, max(zz, floor)))


def _mean(old: Array, given: Array, n: Array) -> Array:
    """Return the mean of `n` values and one more."""
    count = n.reshape(-1, *(1,) * (given.ndim - 1))
    mean: Array = np.where(count == 0.0, given, old + (given - old) / (count + 1.0))
    return mean


def _length(steps: Array) -> Array:
    x, y, z = steps.T
    length: Array = np.sqrt(x * x + y * y + z * z)
    return length
