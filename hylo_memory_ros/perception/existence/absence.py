"""Is it still there? What hits and misses say of the existence of landmarks.

Existence is kept as log-odds. A message in which a thing is seen raises it by ``ln(p / f)``, one
in which it should have been seen and is not lowers it by ``ln((1 - f) / (1 - p))``, where p is how
likely a visible thing is detected and f how likely one is reported that is not there. A viewpoint
(keyframe) speaks once: further misses from there add nothing, and a hit takes the place of a miss.

A miss needs a received message, a configured field of view, and a witness that nothing stood in the
way. Without a witness a thing is only marked stale, after several viewpoints. Pinned and held
landmarks are exempt. Nothing but messages is an observation: what the memory says is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.existence.visibility import Sight, Sights, StampedWitness, Witness
from hylo_memory_ros.perception.ingestion.observation import digest32
from hylo_memory_ros.perception.ingestion.scan import Scan
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import InputSettings, LandmarkSettings

__all__ = ['Absence', 'Missed', 'logit', 'probability']

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

# Largest probability of existence that is claimed.
_EXISTENCE_MAX = 0.99
# Probability that a detector reports a thing where there is none.
_FALSE_DETECTION = 0.05
# Edges of the field of view and of the range in which a thing is not expected to be seen.
_FOV_MARGIN_RAD, _RANGE_MARGIN_M = 0.05, 0.1
# Detectors that are never wrong would make one message decide.
_SURE = 0.999
# How much further a sensor moves than its base while a keyframe is in force, metres.
_LEVER_M = 1.0
# Nor may whoever reports be.
_REPORT_SURE = 0.98


def logit(p: float) -> float:
    """Return the log-odds of a probability; 0 and 1 are taken for nearly that.

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
class _Gain:
    """What a hit and a miss add to the log-odds."""

    hit: float
    miss: float


class Missed(NamedTuple):
    """Landmarks that a message should have shown and did not, and what that came to."""

    rows: Rows
    """Their rows."""
    before: Array
    """Log-odds of their existence before, shape (rows,)."""
    doubted: NDArray[np.bool_]
    """Which were stale before."""
    sights: Sequence[int | None]
    """What the witness says of each place, a `Sight`; None: there was none."""
    gone: Rows
    """Those of them that are gone."""
    witness_ns: int | None = None
    """Stamp of the witness, nanoseconds."""


_NONE: Rows = np.empty(0, dtype=np.int64)
_NOTHING = Missed(_NONE, np.empty(0), np.empty(0, dtype=bool), (), _NONE)


class Absence:
    """Keeps the existence of landmarks up to date.

    Parameters
    ----------
    settings : LandmarkSettings
        Inputs, probabilities and thresholds.
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self._settings = settings
        self._inputs = {source.name: source for source in settings.inputs}
        self._digests = {source.name: digest32(source.name.encode()) for source in settings.inputs}
        self._most = logit(_EXISTENCE_MAX)
        self._least = logit(settings.gone_below)
        self._reach: dict[str, tuple[LandmarkMap, int, Rows]] = {}

    def observe(self, scan: Scan, seen: Rows, witness: StampedWitness | None, book: LandmarkMap) -> Missed:
        """Take what a message shows, and what it does not; return what it missed, and what of that is gone.

        Parameters
        ----------
        scan : Scan
            The message; its keyframe is the newest of the book.
        seen : ndarray of int
            Rows of the landmarks that its detections were given to.
        witness : StampedWitness or None
            Tells what could be seen at its stamp.
        """
        source, keyframe = self._inputs[scan.input], len(book.keyframes)
        self._hit(seen, source, keyframe, book)
        if not source.watches:
            return _NOTHING
        rows = self._missing(scan, seen, source, keyframe, book)
        if not len(rows):
            return _NOTHING
        before, doubted = book.state['existence'][rows], book.state['stale'][rows]
        if witness is None:
            self._doubt(rows, keyframe, book)
            return Missed(rows, before, doubted, (None,) * len(rows), _NONE)
        sights = self._miss(scan, rows, witness.witness, source, keyframe, book)
        told = sights != int(Sight.UNKNOWN)
        visible = rows[told]
        return Missed(
            visible,
            before[told],
            doubted[told],
            sights[told].tolist(),
            self._over(visible, book),
            witness.stamp_ns,
        )

    def report(self, row: int, confidence: float, viewpoint: int, book: LandmarkMap) -> bool:
        """Take the report of somebody who looked there and saw nothing; return whether it is gone.

        It counts as a miss of a detector that finds what can be seen with the probability
        `confidence`, at most 0.98, and once for each viewpoint until the thing is seen again. What
        nobody doubted before is stale after it, and gone only after another one.
        """
        state = book.state[row]
        f = _FALSE_DETECTION
        if viewpoint in state['reported'] or confidence <= f:
            return self._is_over(row, book)
        doubted = bool(state['stale'])
        state['reported'] = np.concatenate([[viewpoint], state['reported'][:-1]])
        state['existence'] -= math.log((1.0 - f) / (1.0 - min(confidence, _REPORT_SURE)))
        if not doubted:
            state['existence'] = max(float(state['existence']), self._least)
        state['stale'] = state['dirty'] = True
        return self._is_over(row, book)

    def first(self, confidence: float) -> float:
        """Return the log-odds of what somebody wrote down."""
        return min(logit(confidence), self._most)

    def _is_over(self, row: int, book: LandmarkMap) -> bool:
        return bool(book.state['existence'][row] < self._least)

    def _over(self, rows: Rows, book: LandmarkMap) -> Rows:
        gone: Rows = rows[book.state['existence'][rows] < self._least]
        return gone

    def _gain(self, source: InputSettings, label: str) -> _Gain:
        p = min(source.detection_probability_of(label), _SURE)
        f = _FALSE_DETECTION
        return _Gain(max(0.0, math.log(p / f)) if p > 0.0 else 0.0, min(0.0, math.log((1.0 - p) / (1.0 - f))))

    def _hit(self, rows: Rows, source: InputSettings, keyframe: int, book: LandmarkMap) -> None:
        state = book.state
        told = np.where(state['viewpoint'][rows] == keyframe, state['evidence'][rows], 0.0)
        state['stale'][rows], state['misses'][rows], state['reported'][rows] = False, 0, 0
        news = told <= 0.0
        rows, told = rows[news], told[news]
        if not len(rows):
            return
        gain = np.array([self._gain(source, book.labels[row]).hit for row in rows.tolist()])
        # What was seen is there again, whatever was missed before: doubt does not pile up.
        before = np.maximum(state['existence'][rows] - told, 0.0)
        state['existence'][rows] = np.minimum(before + gain, self._most)
        state['viewpoint'][rows], state['evidence'][rows] = keyframe, gain
        state['dirty'][rows] = True

    def _missing(
        self, scan: Scan, seen: Rows, source: InputSettings, keyframe: int, book: LandmarkMap
    ) -> Rows:
        """Return the rows in the field of view that this viewpoint has not spoken of."""
        state, near = book.state, self._within_reach(scan, source, keyframe, book)
        # Where it is leaves the fewest, so that the others are asked of few.
        rows: Rows = near[state['viewpoint'][near] != keyframe]
        if not len(rows):
            return rows
        places = scan.global_from_sensor.inverse().positions(state['mean'][rows])
        rows = rows[_in_view(places, source)]
        asked = state['live'][rows] & (state['forgotten_ns'][rows] == NEVER)
        asked &= ~(state['pinned'][rows] | state['held'][rows]) & (state['merged_into'][rows] == 0)
        rows = rows[asked & ~np.isin(rows, seen)]
        answers = [self._answers_for(row, source, book) for row in rows.tolist()]
        found: Rows = rows[np.array(answers, dtype=bool)]
        return found

    def _within_reach(self, scan: Scan, source: InputSettings, keyframe: int, book: LandmarkMap) -> Rows:
        """Return rows that may be in view from a keyframe; all are looked at once for each.

        What begins later has been spoken of from this viewpoint: it was seen.
        """
        known = self._reach.get(source.name)
        if known is not None and known[0] is book and known[1] == keyframe:
            return known[2]
        state = book.state[: len(book.keys)]
        reach = source.max_range_m + self._settings.keyframe_distance_m + _LEVER_M
        away = state['mean'] - scan.global_from_sensor.translation
        near = np.flatnonzero(np.einsum('ij,ij->i', away, away) <= reach**2)
        rows: Rows = near[state['live'][near] & (state['forgotten_ns'][near] == NEVER)]
        self._reach[source.name] = book, keyframe, rows
        return rows

    def _answers_for(self, row: int, source: InputSettings, book: LandmarkMap) -> bool:
        """Whether an input would have reported a landmark: of one of its labels, or begun by it."""
        if source.label or source.labels:
            return book.labels[row] == source.label or book.labels[row] in source.labels.values()
        return int(book.state['source'][row]) == self._digests[source.name]

    def _doubt(self, rows: Rows, keyframe: int, book: LandmarkMap) -> None:
        state = book.state
        state['misses'][rows] += 1
        state['viewpoint'][rows], state['evidence'][rows] = keyframe, 0.0
        state['stale'][rows] |= state['misses'][rows] >= self._settings.stale_after
        state['dirty'][rows] = True

    def _miss(
        self,
        scan: Scan,
        rows: Rows,
        witness: Witness,
        source: InputSettings,
        keyframe: int,
        book: LandmarkMap,
    ) -> Sights:
        state = book.state
        extents = state['extent'][rows]
        radii = np.where(np.isnan(extents).any(axis=1), 0.0, 0.5 * extents.max(axis=1, initial=0.0))
        origin = np.array(scan.global_from_sensor.translation)
        sights = witness.sights(state['mean'][rows], radii, origin)
        for row in rows[sights != int(Sight.UNKNOWN)].tolist():
            self._lower(row, self._gain(source, book.labels[row]).miss, keyframe, book)
        return sights

    def _lower(self, row: int, by: float, viewpoint: int, book: LandmarkMap) -> None:
        state = book.state
        if state['viewpoint'][row] == viewpoint and state['evidence'][row] < 0.0:
            # It has spoken already; only what is surer takes the place of what was said.
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
    """Return which points of the sensor's frame lie well inside its field of view."""
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
