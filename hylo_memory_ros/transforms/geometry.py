"""Rigid transforms of positions, orientations and covariances between frames.

Every transform is named by its direction. ``map_from_camera`` takes coordinates in `camera`
(the source) to coordinates in `map` (the target), so that products read without crossing out::

    map_from_camera = map_from_odom @ odom_from_camera

Quaternions are x y z w, lengths metres, angles radians (REP-103). A batch and a single
position give the same bits: both use the same sums in the same order, and no BLAS, whose
rounding depends on how many rows it is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = tuple[float, float, float]
"""Metres, x y z."""

Quaternion = tuple[float, float, float, float]
"""A rotation, x y z w, of unit length."""

IDENTITY_ROTATION: Quaternion = (0.0, 0.0, 0.0, 1.0)

# Tolerance of |q|^2 of quaternions from outside; the same as in tf2.
UNIT_TOLERANCE = 1e-2
# How far rounding may take the |q|^2 of a long product of unit quaternions from 1.
_ROUNDING = 1e-9
# Rotations closer than this (radians, half angle) are mixed linearly: 1 / sin(angle) would
# amplify rounding, and the two mixtures agree to 1e-13.
_SMALL_ANGLE = 1e-6

_Rows = tuple[Vector, Vector, Vector]


@dataclass(frozen=True, slots=True)
class Transform:
    """A rotation followed by a translation, from a source frame into a target frame.

    Parameters
    ----------
    translation : tuple of float, length 3
        Where the origin of the source frame is in the target frame, metres, x y z.
    rotation : tuple of float, length 4
        Orientation of the source frame in the target frame, unit quaternion x y z w.
    target_frame, source_frame : str
        The frames, without leading slash; ``''`` when they have no name.
    stamp_ns : int
        The time at which it holds, nanoseconds; 0 when it holds at any time.

    Raises
    ------
    ValueError
        If a number is not finite, or the quaternion is not of unit length.

    Examples
    --------
    >>> quarter_turn = (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5))
    >>> map_from_base = Transform((1.0, 2.0, 0.0), quarter_turn, 'map', 'base_link')
    >>> tuple(round(part, 9) for part in map_from_base.position((1.0, 0.0, 0.0)))
    (1.0, 3.0, 0.0)
    """

    translation: Vector
    rotation: Quaternion = IDENTITY_ROTATION
    target_frame: str = ''
    source_frame: str = ''
    stamp_ns: int = 0

    def __post_init__(self) -> None:
        x, y, z = self.translation
        qx, qy, qz, qw = self.rotation
        if not math.isfinite(x + y + z):
            raise ValueError(f'translation: expected finite numbers, got {self.translation}')
        if not abs(qx * qx + qy * qy + qz * qz + qw * qw - 1.0) <= _ROUNDING:
            raise ValueError(f'rotation: expected a unit quaternion x y z w, got {self.rotation}')

    def position(self, position: Vector) -> Vector:
        """Return a position of the source frame in the target frame, metres, x y z."""
        return add(rotate(self.rotation, position), self.translation)

    def positions(self, positions: ArrayLike) -> NDArray[np.float64]:
        """Return many positions in the target frame.

        Parameters
        ----------
        positions : array_like, shape (n, 3)
            Metres, x y z, in the source frame.

        Returns
        -------
        ndarray, shape (n, 3)
            Metres, x y z, in the target frame; each row exactly what `position` gives.
        """
        points = np.asarray(positions, dtype=np.float64).reshape(-1, 3)
        x, y, z = points[:, 0], points[:, 1], points[:, 2]
        moved = np.empty_like(points)
        for axis, (row, offset) in enumerate(zip(_rows(self.rotation), self.translation, strict=True)):
            moved[:, axis] = (row[0] * x + row[1] * y + row[2] * z) + offset
        return moved

    def orientation(self, orientation: Quaternion) -> Quaternion:
        """Return an orientation of the source frame in the target frame, x y z w."""
        return multiply(self.rotation, orientation)

    def covariance(self, covariance: Sequence[float]) -> tuple[float, ...]:
        """Return a pose covariance with its axes turned into the target frame.

        Position and rotation blocks, and the blocks between them, are all turned:
        ``C' = D C D^T`` with ``D = blkdiag(R, R)``. The uncertainty of the transform itself is
        not added.

        Parameters
        ----------
        covariance : sequence of float, length 36
            6x6 row-major over x y z rotX rotY rotZ (fixed axes of the source frame); m^2,
            m rad and rad^2.

        Returns
        -------
        tuple of float, length 36
            The same over the axes of the target frame; symmetric when the input is.
        """
        given = np.asarray(covariance, dtype=np.float64).reshape(6, 6)
        rotation = np.array(_rows(self.rotation))
        turned = np.empty((6, 6))
        for i in (0, 3):
            for j in (0, 3):
                turned[i : i + 3, j : j + 3] = _turn(rotation, given[i : i + 3, j : j + 3])
        if np.array_equal(given, given.T):
            # Rounding alone would tell the two halves apart.
            turned = (turned + turned.T) * 0.5
        return tuple(turned.ravel().tolist())

    def compose(self, other: Transform) -> Transform:
        """Return ``a_from_c`` when this is ``a_from_b`` and the other ``b_from_c``.

        The stamp is this one's, unless this one holds at any time.

        Raises
        ------
        ValueError
            If both name the frame between them, and the names differ.
        """
        if self.source_frame and other.target_frame and self.source_frame != other.target_frame:
            raise ValueError(
                f'{self.target_frame}_from_{self.source_frame} cannot follow '
                f'{other.target_frame}_from_{other.source_frame}: the frame between them must be one'
            )
        return Transform(
            add(rotate(self.rotation, other.translation), self.translation),
            multiply(self.rotation, other.rotation),
            self.target_frame,
            other.source_frame,
            self.stamp_ns or other.stamp_ns,
        )

    def __matmul__(self, other: Transform) -> Transform:
        return self.compose(other)

    def inverse(self) -> Transform:
        """Return ``source_from_target``."""
        back = conjugate(self.rotation)
        x, y, z = rotate(back, self.translation)
        return Transform((-x, -y, -z), back, self.source_frame, self.target_frame, self.stamp_ns)


def interpolate(older: Transform, newer: Transform, stamp_ns: int) -> Transform:
    """Return the transform between two samples at a stamp, as tf2 does.

    The translation is linear in time, the rotation spherical-linear along the shorter arc.

    Parameters
    ----------
    older, newer : Transform
        Two samples of one pair of frames, ``older.stamp_ns <= stamp_ns <= newer.stamp_ns``.
    stamp_ns : int
        Time of the result, nanoseconds.

    Raises
    ------
    ValueError
        If the frames differ or the stamp is not between the samples: nothing is extrapolated.
    """
    if (older.target_frame, older.source_frame) != (newer.target_frame, newer.source_frame):
        raise ValueError(f'{older} and {newer} join different frames')
    if not older.stamp_ns <= stamp_ns <= newer.stamp_ns:
        raise ValueError(f'stamp_ns: {stamp_ns} is outside [{older.stamp_ns}, {newer.stamp_ns}]')
    span = newer.stamp_ns - older.stamp_ns
    if span == 0:
        return newer
    fraction = (stamp_ns - older.stamp_ns) / span
    return replace(
        older,
        translation=mix(older.translation, newer.translation, fraction),
        rotation=slerp(older.rotation, newer.rotation, fraction),
        stamp_ns=stamp_ns,
    )


def unit_quaternion(values: Sequence[float]) -> Quaternion:
    """Return a quaternion scaled to unit length.

    Parameters
    ----------
    values : sequence of float, length 4
        x y z w, with ``|norm^2 - 1| <= 1e-2``.

    Raises
    ------
    ValueError
        If it is further than that from unit length (all zeros included), or not finite.
    """
    x, y, z, w = values
    norm2 = x * x + y * y + z * z + w * w
    if not abs(norm2 - 1.0) <= UNIT_TOLERANCE:
        raise ValueError(
            f'rotation: expected a unit quaternion x y z w, got {tuple(values)} (squared length {norm2:g})'
        )
    scale = 1.0 / math.sqrt(norm2)
    return x * scale, y * scale, z * scale, w * scale


def add(a: Vector, b: Vector) -> Vector:
    """Return the sum of two vectors."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def mix(a: Vector, b: Vector, fraction: float) -> Vector:
    """Return the point a fraction of the way from one vector to another."""
    rest = 1.0 - fraction
    return rest * a[0] + fraction * b[0], rest * a[1] + fraction * b[1], rest * a[2] + fraction * b[2]


def multiply(a: Quaternion, b: Quaternion) -> Quaternion:
    """Return the rotation that applies the second, then the first."""
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def conjugate(q: Quaternion) -> Quaternion:
    """Return the inverse of a unit quaternion."""
    return -q[0], -q[1], -q[2], q[3]


def rotate(q: Quaternion, v: Vector) -> Vector:
    """Return a vector turned by a unit quaternion."""
    x, y, z = v
    a, b, c = _rows(q)
    return (
        a[0] * x + a[1] * y + a[2] * z,
        b[0] * x + b[1] * y + b[2] * z,
        c[0] * x + c[1] * y + c[2] * z,
    )


def slerp(a: Quaternion, b: Quaternion, fraction: float) -> Quaternion:
    """Return the rotation a fraction of the way along the shorter arc from one to another."""
    dot = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]
    sign = -1.0 if dot < 0.0 else 1.0
    angle = math.acos(min(1.0, abs(dot)))
    if angle < _SMALL_ANGLE:
        of_a, of_b = 1.0 - fraction, sign * fraction
    else:
        scale = 1.0 / math.sin(angle)
        of_a, of_b = math.sin((1.0 - fraction) * angle) * scale, sign * math.sin(fraction * angle) * scale
    x, y, z, w = (of_a * p + of_b * q for p, q in zip(a, b, strict=True))
    scale = 1.0 / math.sqrt(x * x + y * y + z * z + w * w)
    return x * scale, y * scale, z * scale, w * scale


def _rows(q: Quaternion) -> _Rows:
    x, y, z, w = q
    xx, yy, zz = x * x, y * y, z * z
    xy, xz, yz = x * y, x * z, y * z
    wx, wy, wz = w * x, w * y, w * z
    return (
        (1.0 - 2.0 * (yy + zz), 2.0 * (xy - wz), 2.0 * (xz + wy)),
        (2.0 * (xy + wz), 1.0 - 2.0 * (xx + zz), 2.0 * (yz - wx)),
        (2.0 * (xz - wy), 2.0 * (yz + wx), 1.0 - 2.0 * (xx + yy)),
    )


def _turn(rotation: NDArray[np.float64], block: NDArray[np.float64]) -> NDArray[np.float64]:
    # R B R^T, written as sums so that the result does not depend on the BLAS at hand.
    return _product(_product(rotation, block), rotation.T)


def _product(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    product: NDArray[np.float64] = a[:, [0]] * b[[0], :] + a[:, [1]] * b[[1], :] + a[:, [2]] * b[[2], :]
    return product
