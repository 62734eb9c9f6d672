"""Existence filter: log-odds that a landmark is still there, from hits and misses.

A message with a detection of a landmark raises its log-odds by ``ln(p / f)``; a message that should have
shown it and does not lowers them by ``ln((1 - f) / (1 - p))``. Here p is the probability that a visible
thing is detected, and f the probability of a false detection. A viewpoint (keyframe) counts once:
further misses from it add nothing, and a hit replaces a miss.

A miss needs a received message, a configured field of view, and a visibility model that shows the place
unobstructed. Without a visibility model a landmark is only marked stale, after several viewpoints.
Pinned and held landmarks are exempt. Only messages are observations: the content of the memory is never
evidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.existence.visibility import (
    StampedVisibility,
    Visibilities,
    Visibility,
    VisibilityModel,
)
from hylo_memory_ros.perception.ingestion.observation import Scan, digest32
from hylo_memory_ros.perception.map.landmark import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import (
    EXISTENCE_MAX,
    FALSE_DETECTION,
    InputSettings,
    LandmarkSettings,
)

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

# With a probability of 1 a single message would decide.
_SURE = 0.999
# Margins of the field of view and of the range in which a thing is not expected to be seen.
_FOV_MARGIN_RAD, _RANGE_MARGIN_M = 0.05, 0.1
# A sensor moves further than its base within a keyframe, at most by this lever arm, metres.
_LEVER_M = 1.0
# Largest confidence that a report by a person or planner counts with that report an absence.
_REPORT_SURE = 0.98


def logit(p: float) -> float:
    """Return the log-odds of a probability, which is clipped to [0.001, 0.999].

    Examples
    --------
    >>> round(logit(0.9), 3), logit(0.5)
    (2.197, 0.0)
    """
    p = min(max(p, 1.0 - _SURE), _SURE)
    return math.log(p / (1.0 - p))


def probability(log_odds: float) -> float:
    """Return the probability of log-odds.

    Examples
    --------
    >>> probability(0.0), round(probability(logit(0.9)), 9)
    (0.5, 0.9)
    """
    return 1.0 / (1.0 + math.exp(-log_odds))


@dataclass(frozen=True, slots=True)
class _LogOddsGain:
    """Changes of the log-odds by a hit and by a miss."""

    hit: float
    miss: float


class MissedLandmarks(NamedTuple):
    """Landmarks that a message should have shown and did not, with the result for each."""

    rows: Rows
    """Rows of the landmarks."""
    before: Array
    """Log-odds of existence before the message, shape (rows,)."""
    was_stale: NDArray[np.bool_]
    """Flags of landmarks that were stale before the message, shape (rows,)."""
    sights: Sequence[int | None]
    """`Visibility` of each place; None: there was no visibility model."""
    gone: Rows
    """Rows of landmarks that have ceased to exist."""
    visibility_ns: int | None = None
    """Stamp of the visibility model, nanoseconds."""


_NONE: Rows = np.empty(0, dtype=np.int64)
_NOTHING = MissedLandmarks(_NONE, np.empty(0), np.empty(0, dtype=bool), (), _NONE)


class ExistenceFilter:
    """Filter of the existence of landmarks.

    Parameters
    ----------
    settings : LandmarkSettings
        Inputs, probabilities and thresholds.
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self._settings = settings
        self._inputs = {source.name: source for source in settings.inputs}
        self._with_view = {source.name for source in settings.inputs if source.has_field_of_view}
        self._digests = {source.name: digest32(source.name.encode()) for source in settings.inputs}
        self._most = logit(EXISTENCE_MAX)
        self._least = logit(settings.gone_below)
        self._reach: dict[str, tuple[LandmarkMap, int, Rows]] = {}

    def observe(
        self, scan: Scan, seen: Rows, visibility: StampedVisibility | None, landmarks: LandmarkMap
    ) -> MissedLandmarks:
        """Update existence with the hits and misses of a message; return the missed landmarks.

        Parameters
        ----------
        scan : Scan
            The message; its keyframe is the newest of the map.
        seen : ndarray of int
            Rows of the landmarks that its detections were given to.
        visibility : StampedVisibility or None
            Visibility model that is valid at its stamp.
        """
        source, keyframe = self._inputs[scan.input], len(landmarks.keyframes)
        self._hit(seen, source, keyframe, landmarks)
        if scan.input not in self._with_view:
            return _NOTHING
        rows = self._missing(scan, seen, source, keyframe, landmarks)
        if not len(rows):
            return _NOTHING
        before, was_stale = landmarks.state['existence'][rows], landmarks.state['stale'][rows]
        if visibility is None:
            self._mark_unconfirmed(rows, keyframe, landmarks)
            return MissedLandmarks(rows, before, was_stale, (None,) * len(rows), _NONE)
        sights = self._miss(scan, rows, visibility.model, source, keyframe, landmarks)
        known = sights != int(Visibility.UNKNOWN)
        visible = rows[known]
        return MissedLandmarks(
            visible,
            before[known],
            was_stale[known],
            sights[known].tolist(),
            self._gone_among(visible, landmarks),
            visibility.stamp_ns,
        )

    def report(self, row: int, confidence: float, viewpoint: int, landmarks: LandmarkMap) -> bool:
        """Apply a report of absence to a landmark; return whether it has ceased to exist.

        The report counts as a miss of a detector with the detection probability `confidence`, at most
        0.98, and once for each viewpoint until the landmark is seen again. A landmark that was not
        stale becomes stale, and ceases to exist only after a further report.
        """
        state = landmarks.state[row]
        f = FALSE_DETECTION
        if viewpoint in state['reported'] or confidence <= f:
            return self._is_gone(row, landmarks)
        was_stale = bool(state['stale'])
        state['reported'] = np.concatenate([[viewpoint], state['reported'][:-1]])
        state['existence'] -= math.log((1.0 - f) / (1.0 - min(confidence, _REPORT_SURE)))
        if not was_stale:
            state['existence'] = max(float(state['existence']), self._least)
        state['stale'] = state['dirty'] = True
        return self._is_gone(row, landmarks)

    def initial_log_odds(self, confidence: float) -> float:
        """Return the initial log-odds of an item that was written by hand."""
        return min(logit(confidence), self._most)

    def _is_gone(self, row: int, landmarks: LandmarkMap) -> bool:
        return bool(landmarks.state['existence'][row] < self._least)

    def _gone_among(self, rows: Rows, landmarks: LandmarkMap) -> Rows:
        gone: Rows = rows[landmarks.state['existence'][rows] < self._least]
        return gone

    def _gain(self, source: InputSettings, label: str) -> _LogOddsGain:
        p = min(source.detection_probability_of(label), _SURE)
        f = FALSE_DETECTION
        return _LogOddsGain(
            max(0.0, math.log(p / f)) if p > 0.0 else 0.0, min(0.0, math.log((1.0 - p) / (1.0 - f)))
        )

    def _hit(self, rows: Rows, source: InputSettings, keyframe: int, landmarks: LandmarkMap) -> None:
        state = landmarks.state
        earlier = np.where(state['viewpoint'][rows] == keyframe, state['evidence'][rows], 0.0)
        state['stale'][rows], state['misses'][rows], state['reported'][rows] = False, 0, 0
        news = earlier <= 0.0
        rows, earlier = rows[news], earlier[news]
        if not len(rows):
            return
        gain = np.array([self._gain(source, landmarks.labels[row]).hit for row in rows.tolist()])
        # A detection outweighs all earlier misses: negative evidence does not accumulate across it.
        before = np.maximum(state['existence'][rows] - earlier, 0.0)
        state['existence'][rows] = np.minimum(before + gain, self._most)
        state['viewpoint'][rows], state['evidence'][rows] = keyframe, gain
        state['dirty'][rows] = True

    def _missing(
        self, scan: Scan, seen: Rows, source: InputSettings, keyframe: int, landmarks: LandmarkMap
    ) -> Rows:
        """Return rows in view that this viewpoint has not counted yet."""
        state, near = landmarks.state, self._within_reach(scan, source, keyframe, landmarks)
        # The geometric test excludes most rows, so the costlier ones run on few.
        rows: Rows = near[state['viewpoint'][near] != keyframe]
        if not len(rows):
            return rows
        places = scan.global_from_sensor.inverse().positions(state['mean'][rows])
        rows = rows[_in_view(places, source)]
        candidates = state['live'][rows] & (state['forgotten_ns'][rows] == NEVER)
        candidates &= ~(state['pinned'][rows] | state['held'][rows]) & (state['merged_into'][rows] == 0)
        rows = rows[candidates & ~np.isin(rows, seen)]
        reported = [self._is_reported_by(row, source, landmarks) for row in rows.tolist()]
        found: Rows = rows[np.array(reported, dtype=bool)]
        return found

    def _within_reach(self, scan: Scan, source: InputSettings, keyframe: int, landmarks: LandmarkMap) -> Rows:
        """Return rows that may be in view from a keyframe, computed once per keyframe.

        A landmark that begins later was detected from this viewpoint, so it cannot be missed from it.
        """
        known = self._reach.get(source.name)
        if known is not None and known[0] is landmarks and known[1] == keyframe:
            return known[2]
        state = landmarks.state[: len(landmarks.keys)]
        reach = source.max_range_m + self._settings.keyframe_distance_m + _LEVER_M
        away = state['mean'] - scan.global_from_sensor.translation
        near = np.flatnonzero(np.einsum('ij,ij->i', away, away) <= reach**2)
        rows: Rows = near[state['live'][near] & (state['forgotten_ns'][near] == NEVER)]
        self._reach[source.name] = landmarks, keyframe, rows
        return rows

    def _is_reported_by(self, row: int, source: InputSettings, landmarks: LandmarkMap) -> bool:
        """Return whether an input reports this landmark: one of its labels, or begun by it."""
        if source.label or source.labels:
            return landmarks.labels[row] == source.label or landmarks.labels[row] in source.labels.values()
        return int(landmarks.state['source'][row]) == self._digests[source.name]

    def _mark_unconfirmed(self, rows: Rows, keyframe: int, landmarks: LandmarkMap) -> None:
        state = landmarks.state
        state['misses'][rows] += 1
        state['viewpoint'][rows], state['evidence'][rows] = keyframe, 0.0
        state['stale'][rows] |= state['misses'][rows] >= self._settings.stale_after
        state['dirty'][rows] = True

    def _miss(
        self,
        scan: Scan,
        rows: Rows,
        visibility: VisibilityModel,
        source: InputSettings,
        keyframe: int,
        landmarks: LandmarkMap,
    ) -> Visibilities:
        state = landmarks.state
        extents = state['extent'][rows]
        radii = np.where(np.isnan(extents).any(axis=1), 0.0, 0.5 * extents.max(axis=1, initial=0.0))
        origin = np.array(scan.global_from_sensor.translation)
        sights = visibility.sights(state['mean'][rows], radii, origin)
        for row in rows[sights != int(Visibility.UNKNOWN)].tolist():
            self._lower(row, self._gain(source, landmarks.labels[row]).miss, keyframe, landmarks)
        return sights

    def _lower(self, row: int, by: float, viewpoint: int, landmarks: LandmarkMap) -> None:
        state = landmarks.state
        if state['viewpoint'][row] == viewpoint and state['evidence'][row] < 0.0:
            # The viewpoint has counted already; only a stronger miss replaces the weaker one.
            by = min(0.0, by - float(state['evidence'][row]))
        else:
            state['misses'][row] += 1
            state['evidence'][row] = 0.0
        state['existence'][row] += by
        state['evidence'][row] += by
        state['viewpoint'][row] = viewpoint
        state['stale'][row] |= state['existence'][row] < 0.0
        state['dirty'][row] = True


def _in_view(points: Array, source: InputSettings) -> NDArray[np.bool_]:
    """Return flags of points of the sensor's frame that lie inside its field of view, less the margins."""
    forward, left, up = points.T if source.view_axis == 'x' else points[:, [2, 0, 1]].T
    flat = np.hypot(forward, left)
    range_m = np.hypot(flat, up)
    inside = (range_m >= source.min_range_m + _RANGE_MARGIN_M) & (
        range_m <= source.max_range_m - _RANGE_MARGIN_M
    )
    for angle, width in (
        (np.arctan2(left, forward), source.fov_horizontal_rad),
        (np.arctan2(up, flat), source.fov_vertical_rad),
    ):
        if width < 2.0 * math.pi - 0.01:
            inside &= np.abs(angle) <= 0.5 * width - _FOV_MARGIN_RAD
    found: NDArray[np.bool_] = inside
    return found
