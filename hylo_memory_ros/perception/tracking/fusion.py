"""Fusion of the sightings of a landmark into one position, covariance and orientation.

Detections from one keyframe share the error of the robot's pose. They refine the mean of the sighting,
and only the sightings, each with the localization error added, count as independent.

Orientations are averaged in the tangent space, as a whole or for one axis. A flat tag seen from afar has
two ambiguous orientations, and its detector sometimes returns the wrong one. Their mean would be
neither, so a second mean is kept of the observations that disagree with the first; the mean with more
support is reported.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from hylo_memory_ros.perception.ingestion.observation import Scan
from hylo_memory_ros.perception.map.landmark import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.gating import localization_covariance
from hylo_memory_ros.perception.tracking.sym3 import inverse, rotation_matrix, times, turned

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


def locate_sightings(slots: Rows, landmarks: LandmarkMap, settings: LandmarkSettings) -> tuple[Array, Array]:
    """Return positions and covariances of sightings in the global frame.

    Returns
    -------
    positions : ndarray, shape (n, 3)
        Metres.
    covariances : ndarray, shape (n, 6)
        Of the detections and of the localization, m^2.
    """
    seen = landmarks.sightings.state
    frames = landmarks.keyframes.columns[seen['keyframe'][slots] - 1]
    matrices = rotation_matrix(frames['rotation'])
    mean = seen['mean'][slots]
    levers = np.stack([(matrices[:, axis] * mean).sum(axis=1) for axis in range(3)], axis=1)
    covariances = turned(matrices, inverse(seen['information'][slots])) + localization_covariance(
        levers, settings
    )
    return levers + frames['position'], covariances


def fuse(scan: Scan, places: Rows, rows: Rows, landmarks: LandmarkMap, settings: LandmarkSettings) -> None:
    """Fuse observations into the sightings of their landmarks, and the sightings into the estimates.

    Parameters
    ----------
    places : ndarray of int
        Which observations of the scan.
    rows : ndarray of int
        Row of the landmark of each of them, all different.
    """
    state, keyframe = landmarks.state, len(landmarks.keyframes)
    slots = state['slot'][rows]
    seen = landmarks.sightings.state
    ended = (slots >= 0) & (seen['keyframe'][slots] != keyframe)
    _close(rows[ended], slots[ended], landmarks, settings)
    begun = rows[ended | (slots < 0)]
    tentative = begun[state['written_ns'][begun] == NEVER]
    state['chances'][tentative] += 1
    landmarks.watch(tentative)
    for row in begun.tolist():
        state['slot'][row] = landmarks.sightings.begin(int(state['number'][row]), keyframe, scan.stamp_ns)
    slots = state['slot'][rows]
    _refine(scan, places, slots, landmarks)
    _estimate(rows, slots, landmarks, settings)


def reestimate(row: int, landmarks: LandmarkMap, settings: LandmarkSettings) -> None:
    """Recompute the estimate of a landmark from all its sightings."""
    state, seen = landmarks.state[row], landmarks.sightings.state
    slots = landmarks.sightings.of(int(state['number']))
    state['prior_information'], state['prior_vector'] = 0.0, 0.0
    state['slot'] = slots[-1] if len(slots) else -1
    state['n'] = seen['n'][slots].sum()
    if not len(slots):
        return
    rows = np.array([row])
    # Those from one keyframe, of landmarks that are one now, share its error: together they
    # count as one.
    _, index, shared = np.unique(seen['keyframe'][slots], return_inverse=True, return_counts=True)
    weights = 1.0 / shared[index]
    _close(np.full(len(slots) - 1, row), slots[:-1], landmarks, settings, weights[:-1])
    _estimate(rows, slots[-1:], landmarks, settings, weights[-1:])
    landmarks.place(rows)


def _close(
    rows: Rows, slots: Rows, landmarks: LandmarkMap, settings: LandmarkSettings, weights: Array | float = 1.0
) -> None:
    """Add sightings to the prior of their landmarks."""
    if not len(rows):
        return
    positions, covariances = locate_sightings(slots, landmarks, settings)
    information = inverse(covariances) * np.reshape(weights, (-1, 1))
    # A row may be in it many times.
    np.add.at(landmarks.state['prior_information'], rows, information)
    np.add.at(landmarks.state['prior_vector'], rows, times(information, positions))


def _refine(scan: Scan, places: Rows, slots: Rows, landmarks: LandmarkMap) -> None:
    seen = landmarks.sightings.state
    base_from_global = landmarks.keyframes.pose(len(landmarks.keyframes) - 1).inverse()
    matrix = rotation_matrix(np.array([base_from_global.rotation]))
    given = inverse(turned(matrix, scan.covariances[places]))
    known = seen['information'][slots] + given
    mean = seen['mean'][slots]
    step = base_from_global.positions(scan.positions[places]) - mean
    seen['mean'][slots] = mean + times(inverse(known), times(given, step))
    seen['information'][slots] = known
    seen['n'][slots] += 1
    seen['last_ns'][slots] = scan.stamp_ns
    seen['dirty'][slots] = True


def _estimate(
    rows: Rows, slots: Rows, landmarks: LandmarkMap, settings: LandmarkSettings, weights: Array | float = 1.0
) -> None:
    positions, covariances = locate_sightings(slots, landmarks, settings)
    information = inverse(covariances) * np.reshape(weights, (-1, 1))
    prior = landmarks.state['prior_information'][rows]
    total = inverse(prior + information)
    # As a step from the newest sighting: sums of products with positions would cancel.
    step = landmarks.state['prior_vector'][rows] - times(prior, positions)
    landmarks.state['mean'][rows] = positions + times(total, step)
    landmarks.state['covariance'][rows] = total


Flags = NDArray[np.bool_]

AXES = {'x': 0, 'y': 1, 'z': 2}
"""Index of each axis."""

# Ambiguous orientations of a tag differ by more than this angle, noisy ones by less.
_APART_RAD = np.deg2rad(45.0)
# Limit of the count, so that the mean follows a thing that was turned.
_MOST = 100.0
# Hysteresis, so that two modes with equal support do not alternate.
_CLEARLY = 1.1


def normalize_orientations(given: Array | None, size: int) -> tuple[Array, Flags]:
    """Return unit quaternions, NaN where unknown, and flags of invalid quaternions.

    Parameters
    ----------
    given : ndarray, shape (n, 4), or None
        Quaternions x y z w; all zeros: unknown.
    size : int
        How many there are to be.
    """
    nothing = np.full((size, 4), np.nan)
    if given is None:
        return nothing, np.zeros(size, dtype=bool)
    unset = (given == 0.0).all(axis=1)
    # Comparisons with NaN are false.
    bounded = np.abs(given) <= 2.0
    finite = np.where(bounded, given, 0.0)
    squared = (finite * finite).sum(axis=1)
    valid = bounded.all(axis=1) & (np.abs(squared - 1.0) <= 1e-2)
    length = np.sqrt(np.where(valid, squared, 1.0))
    return np.where(valid[:, None], finite / length[:, None], nothing), ~valid & ~unset


class _Modes(NamedTuple):
    """First and second mean orientation of each row, with the number of observations of each."""

    first: Array
    first_n: Array
    second: Array
    second_n: Array


def fuse_orientations(
    state: NDArray[np.void], rows: Rows, observed: Array, is_new: Flags, axis: int | None = None
) -> None:
    """Fuse observed orientations into landmarks.

    Parameters
    ----------
    state : ndarray of void
        Columns of landmarks: `rotation`, `rotation_n`, `flipped`, `flipped_n` are changed.
    rows : ndarray of int, shape (m,)
        Row of the landmark of each, each at most once.
    observed : ndarray, shape (m, 4)
        Unit quaternions x y z w from the thing's axes to the global frame; NaN: none.
    is_new : ndarray of bool, shape (m,)
        Landmarks whose estimate begins with this observation.
    axis : int, optional
        Index of the only meaningful axis; None: all are meaningful.
    """
    started = rows[is_new]
    state['rotation_n'][started] = state['flipped_n'][started] = 0.0
    known = np.isfinite(observed).all(axis=1)
    rows, observed = rows[known], observed[known]
    if not len(rows):
        return
    modes = _Modes(*(state[name][rows] for name in ('rotation', 'rotation_n', 'flipped', 'flipped_n')))
    fused = _fused(modes, observed, axis)
    for name, column in zip(('rotation', 'rotation_n', 'flipped', 'flipped_n'), fused, strict=True):
        state[name][rows] = column


def _fused(modes: _Modes, observed: Array, axis: int | None) -> _Modes:
    first, second = modes.first.copy(), modes.second.copy()
    first_n, second_n = modes.first_n.copy(), modes.second_n.copy()
    begun = first_n == 0.0
    first[begun], first_n[begun] = observed[begun], 1.0
    to_first = _turns(first, observed, axis)
    near = ~begun & (_angles(to_first) <= _APART_RAD)
    first[near] = _stepped(first[near], to_first[near], first_n[near])
    _count(first_n, second_n, near)
    left = ~begun & ~near
    fresh = left & (second_n == 0.0)
    second[fresh], second_n[fresh] = observed[fresh], 1.0
    held = left & ~fresh
    to_second = _turns(np.where(held[:, None], second, observed), observed, axis)
    agrees = held & (_angles(to_second) <= _APART_RAD)
    second[agrees] = _stepped(second[agrees], to_second[agrees], second_n[agrees])
    _count(second_n, first_n, agrees)
    # An observation that fits neither weakens the second mode, until it is replaced.
    second_n[held & ~agrees] -= 1.0
    swap = second_n > _CLEARLY * first_n
    first[swap], second[swap] = second[swap], first[swap]
    first_n[swap], second_n[swap] = second_n[swap], first_n[swap]
    return _Modes(first, first_n, second, second_n)


def _count(counted: Array, other: Array, rows: Flags) -> None:
    """Count one more observation; at the limit the other mode loses one."""
    full = rows & (counted >= _MOST)
    other[full] = np.maximum(other[full] - 1.0, 0.0)
    counted[rows] = np.minimum(counted[rows] + 1.0, _MOST)


def _turns(old: Array, observed: Array, axis: int | None) -> Array:
    """Return the rotation vector from each orientation to the observed one, in the global frame, radians."""
    if axis is None:
        turn: Array = (Rotation.from_quat(observed) * Rotation.from_quat(old).inv()).as_rotvec()
        return turn
    along = np.eye(3)[axis]
    before, after = (Rotation.from_quat(quaternions).apply(along) for quaternions in (old, observed))
    normal = np.cross(before, after)
    sine = np.sqrt((normal * normal).sum(axis=1))
    angle = np.arctan2(sine, (before * after).sum(axis=1))
    scale = np.where(sine > 1e-12, angle / np.where(sine > 1e-12, sine, 1.0), 0.0)
    turn = normal * scale[:, None]
    # Exactly opposite: any way round is as good; it only has to be far.
    turn[(sine <= 1e-12) & (angle > 1.0)] = (np.pi, 0.0, 0.0)
    return turn


def _angles(turns: Array) -> Array:
    angle: Array = np.sqrt((turns * turns).sum(axis=1))
    return angle


def _stepped(old: Array, turns: Array, n: Array) -> Array:
    """Return the mean of `n` orientations and one more."""
    if not len(old):
        return old
    step = Rotation.from_rotvec(turns / (n[:, None] + 1.0))
    mean: Array = (step * Rotation.from_quat(old)).as_quat()
    return mean


def exceeds_turn(state: NDArray[np.void], rows: Rows, least_rad: float) -> Flags:
    """Return flags of landmarks that are turned by more than an angle from the written orientation.

    A known orientation of which nothing was written is far from it.
    """
    current, written = state['rotation'][rows], state['written_rotation'][rows]
    along = np.abs((current * written).sum(axis=1))
    far: Flags = (state['rotation_n'][rows] > 0.0) & (along < np.cos(least_rad / 2.0))
    return far
