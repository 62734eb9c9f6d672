"""Existence of all landmarks after each message: hits, misses, endings and displacements.

Visibility is ordered with the observations: a depth image and its camera are messages of inputs that
hold the watermark like any other, so that the image for an observation is there when it is processed, or
its input is silent. An occupancy grid is valid from its stamp on and is taken at once.

Place and label alone do not prove that two landmarks are one thing that moved. A displacement is
accepted when the old place was observed empty and there is a single candidate on both sides: one
landmark of a label was found gone and one of that label began elsewhere, after the other was last seen,
both within a minute. The landmark then keeps its key and has two places in its history. In all
other cases the new landmark stays a landmark of its own. Instances and labels declared unique are found
by name instead.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.perception.existence.existence_filter import ExistenceFilter, logit
from hylo_memory_ros.perception.existence.visibility import (
    CameraModel,
    DepthImage,
    OccupancyGrid,
    StampedVisibility,
    VisibilityHistory,
)
from hylo_memory_ros.perception.ingestion.observation import Message, Scan
from hylo_memory_ros.perception.map.landmark import NEVER, LandmarkEnding
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.receipts import Receipt, absence_receipt, displacement_receipt
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.data_association import AssociationResult
from hylo_memory_ros.perception.tracking.update import LandmarkUpdater
from hylo_memory_ros.transforms import Transform

# Stamps and digests by which a map that is sent again is known.
_GRIDS_KEPT = 1024
# Largest age of a depth image relative to an observation, seconds.
_VISIBILITY_TOLERANCE_S = 0.1


class ExistenceUpdate(NamedTuple):
    """Statements that follow from existence, in this order."""

    endings: list[LandmarkEnding]
    """Items that end."""
    items: list[MemoryItem]
    """Statements of displaced landmarks."""
    receipts: list[Receipt]
    """Receipts of the decisions."""


class ExistenceMonitor:
    """Monitor of landmarks that are there, gone or displaced.

    Parameters
    ----------
    settings : LandmarkSettings
        Fields of view, probabilities, thresholds.
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self.filter = ExistenceFilter(settings)
        """Log-odds of existence."""
        self._settings = settings
        self._inputs = {source.name: source for source in settings.inputs}
        self._update = LandmarkUpdater(settings)
        self._views = VisibilityHistory()
        self._grids: dict[str, deque[tuple[int, int]]] = {}
        self._judged_ns: dict[str, int] = {}
        self._tolerance_ns = round(_VISIBILITY_TOLERANCE_S * 1e9)

    def take_view(self, message: Message, global_from_sensor: Transform) -> str:
        """Take the camera or depth image of a message, in the order of stamps.

        Returns
        -------
        str
            Why it is not used: ``camera_mismatch``; empty: it is.
        """
        view = message.view
        if isinstance(view, CameraModel):
            self._views.add_camera(message.input, view)
        elif isinstance(view, DepthImage):
            camera = self._views.camera(self._inputs[message.input].camera_info)
            if camera is not None:
                placed = view.placed(camera, global_from_sensor)
                if placed is None:
                    return 'camera_mismatch'
                self._views.add_image(message.input, message.stamp_ns, placed)
        return ''

    def take_grid(
        self, message: Message, grid: OccupancyGrid, settled_ns: int
    ) -> Literal['pending', 'repeated', 'late']:
        """Take an occupancy grid in any order; ``late``: an observation was processed without it."""
        known = self._grids.setdefault(message.input, deque(maxlen=_GRIDS_KEPT))
        name = message.stamp_ns, message.digest
        if name in known:
            return 'repeated'
        known.append(name)
        self._views.add_grid(message.input, message.stamp_ns, grid, settled_ns)
        return 'late' if message.stamp_ns <= self._judged_ns.get(message.input, -1) else 'pending'

    def forget_images(self) -> None:
        """Forget depth images after the clock went back; grids stay, since they are not sent again."""
        self._views.clear_images()

    def forget_views(self) -> None:
        """Forget all visibility data of the former map."""
        self._views.clear()
        self._grids.clear()
        self._judged_ns.clear()

    def observe(self, scan: Scan, outcome: AssociationResult, landmarks: LandmarkMap) -> ExistenceUpdate:
        """Update existence with a message after data association."""
        seen = np.empty(0, dtype=np.int64) if outcome.seen is None else outcome.seen
        seen = seen[landmarks.state['forgotten_ns'][seen] == NEVER]
        missed = self.filter.observe(scan, seen, self._visibility(scan), landmarks)
        follows = ExistenceUpdate([], [], [])
        if len(missed.rows):
            told_by = '' if missed.visibility_ns is None else self._inputs[scan.input].visibility
            follows.receipts.append(absence_receipt(scan, missed, told_by, landmarks, self._settings))
        for row in missed.gone.tolist():
            if ending := end_landmark(row, scan.stamp_ns, 'seen absent', landmarks):
                follows.endings.append(ending)
        if follows.endings or outcome.items:
            self._displace(scan, follows, landmarks)
        return follows

    def _visibility(self, scan: Scan) -> StampedVisibility | None:
        source = self._inputs[scan.input]
        if not (source.visibility and source.has_field_of_view):
            return None
        judged_ns = self._judged_ns.get(source.visibility, -1)
        self._judged_ns[source.visibility] = max(judged_ns, scan.stamp_ns)
        return self._views.at(source.visibility, scan.stamp_ns, self._tolerance_ns)

    def _displace(self, scan: Scan, follows: ExistenceUpdate, landmarks: LandmarkMap) -> None:
        endings, items, receipts = follows
        for one in find_displacements(scan.stamp_ns, landmarks, self._settings):
            before, after = landmarks.keys[one.before], landmarks.keys[one.after]
            unsaid = [ending for ending in endings if ending.key == before]
            for ending in unsaid:
                endings.remove(ending)
            # It never was a thing of its own.
            written_ns = int(landmarks.state['written_ns'][one.after])
            endings.append(
                LandmarkEnding(after, written_ns, landmarks.map_id, f'{before} moved here', before)
            )
            receipts.append(displacement_receipt(scan, one.before, one.after, landmarks, self._settings))
            apply_displacement(one, scan.stamp_ns, landmarks, ended=not unsaid)
            items += self._update.written(scan, np.array([one.before]), landmarks)


def end_landmark(row: int, at_ns: int, reason: str, landmarks: LandmarkMap) -> LandmarkEnding | None:
    """End a landmark; return the ending of its item, or None if nothing was written of it."""
    written_ns, key = int(landmarks.state['written_ns'][row]), landmarks.keys[row]
    if written_ns == NEVER:
        landmarks.remove(row)
        return None
    landmarks.forget(row, at_ns)
    return LandmarkEnding(key, max(at_ns, written_ns), landmarks.map_id, reason)


Rows = NDArray[np.int64]

_MOVED = (
    *('mean', 'covariance', 'extent', 'score', 'prior_information', 'prior_vector', 'slot'),
    *('n', 'since_ns', 'last_ns', 'existence', 'evidence', 'viewpoint', 'misses', 'stale', 'source'),
    *('rotation', 'rotation_n', 'flipped', 'flipped_n'),
)


class Displacement(NamedTuple):
    """A landmark that moved: found gone at one place, and begun at another."""

    before: int
    """Row of the landmark that was found gone and continues."""
    after: int
    """Row of the landmark that began elsewhere and is merged into it."""


def find_displacements(
    stamp_ns: int, landmarks: LandmarkMap, settings: LandmarkSettings
) -> list[Displacement]:
    """Return the landmarks that have moved, as known at a stamp."""
    window_ns = round(settings.moved_within_s * 1e9)
    gone = _gone(stamp_ns - window_ns, landmarks, settings)
    if not len(gone):
        return []
    state, there = landmarks.state, _there(stamp_ns - 2 * window_ns, landmarks)
    found = []
    by_label: dict[str, list[int]] = {}
    for row in gone.tolist():
        by_label.setdefault(landmarks.labels[row], []).append(row)
    for label in sorted(by_label):
        before, *others = by_label[label]
        new = [row for row in there.tolist() if landmarks.labels[row] == label]
        new = [row for row in new if _began_after(state, row, before, window_ns)]
        if not others and len(new) == 1 and state['written_ns'][new[0]] != NEVER:
            found.append(Displacement(before, new[0]))
    return found


def _gone(since_ns: int, landmarks: LandmarkMap, settings: LandmarkSettings) -> Rows:
    """Return rows of landmarks that were found gone since a stamp."""
    if landmarks.newest_forgotten_ns < since_ns:
        return np.empty(0, dtype=np.int64)
    state = landmarks.state
    rows = np.flatnonzero(state['forgotten_ns'][: len(landmarks.keys)] >= since_ns)
    gone = _is_plain(rows, landmarks) & (state['written_ns'][rows] != NEVER)
    found: Rows = rows[gone & (state['existence'][rows] < logit(settings.gone_below))]
    return found


def _there(since_ns: int, landmarks: LandmarkMap) -> Rows:
    """Return rows of current landmarks that began since a stamp."""
    state = landmarks.state
    rows = np.flatnonzero(state['first_ns'][: len(landmarks.keys)] >= since_ns)
    there = _is_plain(rows, landmarks) & (state['forgotten_ns'][rows] == NEVER)
    found: Rows = rows[there & ~(state['pinned'][rows] | state['held'][rows])]
    return found


def _is_plain(rows: Rows, landmarks: LandmarkMap) -> NDArray[np.bool_]:
    state = landmarks.state
    plain: NDArray[np.bool_] = state['live'][rows] & ~state['has_instance'][rows]
    plain &= state['merged_into'][rows] == 0
    return plain


def _began_after(state: NDArray[np.void], row: int, before: int, window_ns: int) -> bool:
    first_ns = int(state['first_ns'][row])
    close = abs(first_ns - int(state['forgotten_ns'][before])) <= window_ns
    return close and first_ns > int(state['last_ns'][before])


def apply_displacement(one: Displacement, stamp_ns: int, landmarks: LandmarkMap, *, ended: bool) -> None:
    """Continue the landmark that was found gone at the place of the other one.

    Parameters
    ----------
    ended : bool
        Whether its end was stored: then the new place holds from that time on.
    """
    state = landmarks.state
    before, after = one
    ended_ns = int(state['forgotten_ns'][before])
    landmarks.restart(before)
    for name in _MOVED:
        state[name][before] = state[name][after]
    if ended:
        state['since_ns'][before] = max(int(state['since_ns'][before]), ended_ns)
    state['observations'][before] += state['observations'][after]
    state['forgotten_ns'][before] = NEVER
    state['reported'][before] = 0
    landmarks.merge(after, before, stamp_ns)
    landmarks.place(np.array([before]))
