"""How things are turned: a mean in the tangent space, for a whole orientation or for one axis.

A flat tag seen from afar has two orientations that look alike, and its detector now and then takes
the wrong one. Their mean would be neither, so beside the mean a second one is kept of what does not
agree with it; the one that more observations support is what is told.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

__all__ = ['AXES', 'fuse_orientations', 'known_orientations', 'told_orientation', 'turned_far']

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]

AXES = {'x': 0, 'y': 1, 'z': 2}
"""Number of each axis of a thing."""

# Of two looks of one tag the turns between them are larger, of noise they are smaller.
_APART_RAD = np.deg2rad(45.0)
# Older observations count no more than this many, so that a thing that was turned is followed.
_MOST = 100.0
# So that two looks that are seen equally often do not take turns.
_CLEARLY = 1.1
_DIGITS = 6


def known_orientations(given: Array | None, size: int) -> tuple[Array, Flags]:
    """Return quaternions of length 1, NaN where there is none; and which are none but were meant to be.

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
    sound = bounded.all(axis=1) & (np.abs(squared - 1.0) <= 1e-2)
    length = np.sqrt(np.where(sound, squared, 1.0))
    return np.where(sound[:, None], finite / length[:, None], nothing), ~sound & ~unset


class _Modes(NamedTuple):
    """The first and the second orientation of each row, and how many observations each stands for."""

    first: Array
    first_n: Array
    second: Array
    second_n: Array


def fuse_orientations(
    state: NDArray[np.void], rows: Rows, observed: Array, anew: Flags, axis: int | None = None
) -> None:
    """Take observed orientations into landmarks.

    Parameters
    ----------
    state : ndarray of void
        Columns of landmarks: `rotation`, `rotation_n`, `flipped`, `flipped_n` are changed.
    rows : ndarray of int, shape (m,)
        Row of the landmark of each, each at most once.
    observed : ndarray, shape (m, 4)
        Unit quaternions x y z w from the thing's axes to the global frame; NaN: none.
    anew : ndarray of bool, shape (m,)
        Landmarks whose estimate begins with this observation.
    axis : int, optional
        The only axis of the thing whose direction means something; None: all of them do.
    """
    started = rows[anew]
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
    # What fits neither speaks against the weaker one, until it takes its place.
    second_n[held & ~agrees] -= 1.0
    swap = second_n > _CLEARLY * first_n
    first[swap], second[swap] = second[swap], first[swap]
    first_n[swap], second_n[swap] = second_n[swap], first_n[swap]
    return _Modes(first, first_n, second, second_n)


def _count(counted: Array, other: Array, rows: Flags) -> None:
    """Count one observation more; what is full already takes it from the other look."""
    full = rows & (counted >= _MOST)
    other[full] = np.maximum(other[full] - 1.0, 0.0)
    counted[rows] = np.minimum(counted[rows] + 1.0, _MOST)


def _turns(old: Array, observed: Array, axis: int | None) -> Array:
    """Return the turn from each to the observed one, as a vector in the global frame, radians."""
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
    """Return the mean of one more than `n` orientations."""
    if not len(old):
        return old
    step = Rotation.from_rotvec(turns / (n[:, None] + 1.0))
    mean: Array = (step * Rotation.from_quat(old)).as_quat()
    return mean


def told_orientation(state: np.void) -> tuple[float, float, float, float] | None:
    """Return the orientation of a landmark, quaternion x y z w; None: unknown."""
    if not state['rotation_n']:
        return None
    x, y, z, w = (round(part, _DIGITS) + 0.0 for part in state['rotation'].tolist())
    return x, y, z, w


def turned_far(state: NDArray[np.void], rows: Rows, least_rad: float) -> Flags:
    """Return which landmarks are turned by more than an angle from what was written of them.

    A known orientation of which nothing was written is far from it.
    """
    told, written = state['rotation'][rows], state['written_rotation'][rows]
    along = np.abs((told * written).sum(axis=1))
    far: Flags = (state['rotation_n'][rows] > 0.0) & (along < np.cos(least_rad / 2.0))
    return far
