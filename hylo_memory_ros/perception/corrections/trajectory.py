"""Map corrections as rigid motions that depend on the stamp.

Everything remembered depends on the pose of the robot at its stamp. A correction returns for each stamp
how the global frame has to be moved, ``new_from_old``: one motion for all stamps, or one computed from a
corrected trajectory and the stored one. Motions are interpolated in SE(3), never as differences of
coordinates: far from the origin a small turn is a large step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model.pose import MAX_COORDINATE_M
from hylo_memory_ros.transforms import Transform

Array = NDArray[np.float64]
Stamps = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CorrectionUncertainty:
    """Uncertainty of a corrected trajectory at some stamps: a bridge between the poses of the path."""

    stretch: NDArray[np.int64]
    """Index of the path segment of each stamp, shape (n,)."""
    share: Array
    """Fraction of the segment at each stamp, 0 to 1, shape (n,)."""
    widest_m: Array
    """Standard deviation at the middle of the segment, metres, shape (n,)."""

    @property
    def sigma_m(self) -> Array:
        """Standard deviation of the position at each stamp, metres."""
        sigma: Array = self.widest_m * 2.0 * np.sqrt(self.share * (1.0 - self.share))
        return sigma

    def covariance(self, rows: NDArray[np.int64], others: NDArray[np.int64]) -> Array:
        """Return the covariance between stamps of one segment, m^2."""
        a, b = self.share[rows][:, None], self.share[others][None]
        bridge: Array = np.minimum(a, b) - a * b
        return (2.0 * self.widest_m[rows])[:, None] ** 2 * bridge

    def take(self, rows: NDArray[np.int64]) -> CorrectionUncertainty:
        """Return the uncertainty at some of the stamps."""
        return CorrectionUncertainty(self.stretch[rows], self.share[rows], self.widest_m[rows])

    def or_wider(self, other: CorrectionUncertainty) -> CorrectionUncertainty:
        """Return the larger uncertainty of two at each stamp."""
        theirs = other.sigma_m > self.sigma_m
        beyond = other.stretch + self.stretch.max(initial=0) + 1
        return CorrectionUncertainty(
            np.where(theirs, beyond, self.stretch),
            np.where(theirs, other.share, self.share),
            np.where(theirs, other.widest_m, self.widest_m),
        )


@dataclass(frozen=True, slots=True, eq=False)
class BrownianBridge:
    """Uncertainty of a trajectory that was corrected at the poses of a path."""

    stamps_ns: Stamps
    """Stamps of the path, nanoseconds, shape (n,)."""
    widest_m: Array
    """Standard deviation half-way to the next pose, metres, shape (n,)."""

    def at(self, stamps_ns: Stamps) -> CorrectionUncertainty:
        """Return the uncertainty at each stamp."""
        last = len(self.stamps_ns) - 1
        before = np.clip(np.searchsorted(self.stamps_ns, stamps_ns, side='right') - 1, 0, last)
        after = np.minimum(before + 1, last)
        span = self.stamps_ns[after] - self.stamps_ns[before]
        share = np.clip((stamps_ns - self.stamps_ns[before]) / np.maximum(span, 1), 0.0, 1.0) * (span > 0)
        return CorrectionUncertainty(before, share, self.widest_m[before])


# Tolerance of |q|^2 of quaternions from outside; the same as for poses.
_UNIT_TOLERANCE = 1e-2
# Below this angle (radians) the series is exact to the last bit, and the quotients are not.
_SMALL_ANGLE = 1e-4
# Error half-way between two poses of a path, as a share of the correction between them; 0.25 to 0.5
# was measured on recorded odometry.
_DOUBT = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Motions:
    """Rigid motions, one for each row: a rotation followed by a translation.

    Examples
    --------
    >>> ahead = Motions(Rotation.identity(2), np.array([(1.0, 0.0, 0.0), (2.0, 0.0, 0.0)]))
    >>> ahead.positions(np.zeros((2, 3))).tolist()
    [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
    """

    rotation: Rotation
    """Rotations, n of them."""
    translation: Array
    """Metres, shape (n, 3)."""

    def __len__(self) -> int:
        return len(self.translation)

    def __matmul__(self, other: Motions) -> Motions:
        return Motions(self.rotation * other.rotation, self.positions(other.translation))

    def inverse(self) -> Motions:
        """Return the inverse motions."""
        back = self.rotation.inv()
        return Motions(back, -back.apply(self.translation))

    def positions(self, points: Array) -> Array:
        """Move points, each by the motion of its row, metres, shape (n, 3)."""
        moved: Array = self.rotation.apply(points).reshape(-1, 3) + self.translation
        return moved

    def orientations(self, quaternions: Array) -> Array:
        """Rotate orientations x y z w, shape (n, 4)."""
        turned: Array = (self.rotation * Rotation.from_quat(quaternions)).as_quat().reshape(-1, 4)
        return turned

    def take(self, rows: NDArray[np.int64]) -> Motions:
        """Return the motions of some rows."""
        return Motions(self.rotation[rows], self.translation[rows])

    def transform(self, row: int) -> Transform:
        """Return one motion as a transform."""
        x, y, z = self.translation[row].tolist()
        qx, qy, qz, qw = self.rotation[row].as_quat().tolist()
        return Transform((x, y, z), (qx, qy, qz, qw))


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """Poses of the base, from the first to the last stamp.

    Parameters
    ----------
    stamps_ns : array_like of int, shape (n,)
        Nanoseconds, ascending, no two equal.
    positions : array_like, shape (n, 3)
        Metres, in the global frame.
    rotations : array_like, shape (n, 4)
        Unit quaternions x y z w, base to global frame.

    Raises
    ------
    InvalidRequestError
        If there is no pose, stamps do not increase, or a number is not sound; it names the first
        pose that is wrong.
    """

    stamps_ns: Stamps
    poses: Motions

    @classmethod
    def of(
        cls, stamps_ns: ArrayLike, positions: ArrayLike, rotations: ArrayLike, name: str = 'path'
    ) -> Trajectory:
        """Create a trajectory from columns and validate every number."""
        stamps = np.asarray(stamps_ns, dtype=np.int64).reshape(-1)
        points = np.asarray(positions, dtype=np.float64).reshape(-1, 3)
        quaternions = np.asarray(rotations, dtype=np.float64).reshape(-1, 4)
        if not len(stamps) or not len(stamps) == len(points) == len(quaternions):
            raise InvalidRequestError(f'{name}.poses: expected at least one pose', field=f'{name}.poses')
        beyond = ~(np.abs(points) <= MAX_COORDINATE_M).all(axis=1)
        _refuse_first(beyond, name, 'position', points, f'finite coordinates within {MAX_COORDINATE_M:g} m')
        norms = np.einsum('ij,ij->i', quaternions, quaternions)
        _refuse_first(
            ~(np.abs(norms - 1.0) <= _UNIT_TOLERANCE),
            name,
            'orientation',
            quaternions,
            'a unit quaternion x y z w',
        )
        backwards = np.concatenate([[False], np.diff(stamps) <= 0])
        _refuse_first(backwards, name, 'stamp', stamps, 'a stamp after the previous one, ns')
        return cls(stamps, Motions(Rotation.from_quat(quaternions), points))

    def __len__(self) -> int:
        return len(self.stamps_ns)

    def at(self, stamps_ns: Stamps) -> Motions:
        """Return the pose at each stamp: interpolated between two poses, constant beyond the ends."""
        before, after, share = self.between(stamps_ns)
        older, newer = self.poses.take(before), self.poses.take(after)
        turn = (older.rotation.inv() * newer.rotation).as_rotvec().reshape(-1, 3)
        rotation = older.rotation * Rotation.from_rotvec(turn * share[:, None])
        step = newer.translation - older.translation
        return Motions(rotation, older.translation + step * share[:, None])

    def between(self, stamps_ns: Stamps) -> tuple[Stamps, Stamps, Array]:
        """Return the poses before and after each stamp, and the fraction between them, 0 to 1."""
        last = len(self.stamps_ns) - 1
        stamps = np.asarray(stamps_ns, dtype=np.int64)
        before = np.clip(np.searchsorted(self.stamps_ns, stamps, side='right') - 1, 0, last)
        after = np.minimum(before + 1, last)
        span = self.stamps_ns[after] - self.stamps_ns[before]
        share = (stamps - self.stamps_ns[before]) / np.maximum(span, 1)
        return before, after, np.clip(share, 0.0, 1.0) * (span > 0)


class Correction(Protocol):
    """Motion of the global frame at each stamp."""

    def at(self, stamps_ns: Stamps) -> Motions:
        """Return ``new_from_old`` at each stamp."""

    @property
    def bridge(self) -> BrownianBridge | None:
        """Uncertainty between the poses of a path; None: all places keep their relative positions."""

    def as_json(self) -> dict[str, Any]:
        """Return the request, to be stored."""


class RigidCorrection:
    """One motion for all stamps.

    Examples
    --------
    >>> shift = RigidCorrection(Transform((1.0, 0.0, 0.0)))
    >>> shift.at(np.array([5, 6])).positions(np.zeros((2, 3))).tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """

    def __init__(self, new_from_old: Transform) -> None:
        self.new_from_old = new_from_old

    def at(self, stamps_ns: Stamps) -> Motions:
        """Return ``new_from_old`` at each stamp."""
        count = len(stamps_ns)
        rotation = Rotation.from_quat(np.tile(self.new_from_old.rotation, (max(count, 1), 1)))[:count]
        return Motions(rotation, np.tile(self.new_from_old.translation, (count, 1)).reshape(-1, 3))

    @property
    def bridge(self) -> None:
        """None: all places keep their relative positions."""
        return None

    def as_json(self) -> dict[str, Any]:
        """Return the request, to be stored."""
        moved = self.new_from_old
        return {'translation': list(moved.translation), 'rotation': list(moved.rotation)}


class PathCorrection:
    """Correction by a corrected trajectory and the stored one.

    Between two poses i and j of the path the correction is interpolated: ``new(t) = new_i old_i^-1
    old(t) Exp(s Log(e))`` with ``e = old_j^-1 old_i new_i^-1 new_j`` and s the fraction of the time
    between them. Before the first pose and after the last one the correction of the end holds.

    Parameters
    ----------
    old : Trajectory
        The stored trajectory.
    new : Trajectory
        The corrected trajectory, perhaps at fewer stamps.
    """

    def __init__(self, old: Trajectory, new: Trajectory) -> None:
        self._old = old
        self._new = new
        old_at_path = old.at(new.stamps_ns)
        self._at_path = new.poses @ old_at_path.inverse()
        last = len(new) - 1
        here, there = np.arange(last), np.arange(1, last + 1)
        difference = (
            old_at_path.take(there).inverse()
            @ old_at_path.take(here)
            @ new.poses.take(here).inverse()
            @ new.poses.take(there)
        )
        # Beyond the last pose nothing is added to its correction.
        self._twists = np.concatenate([_log(difference), np.zeros((1, 6))])

    def at(self, stamps_ns: Stamps) -> Motions:
        """Return ``new_from_old`` at each stamp."""
        before, _, share = self._new.between(stamps_ns)
        old = self._old.at(stamps_ns)
        added = _exp(self._twists[before] * share[:, None])
        return self._at_path.take(before) @ old @ added @ old.inverse()

    @property
    def bridge(self) -> BrownianBridge:
        """Uncertainty of the corrected trajectory: a share of the correction there."""
        corrected_m = np.linalg.norm(self._twists[:, :3], axis=1)
        return BrownianBridge(self._new.stamps_ns, _DOUBT * corrected_m)

    def as_json(self) -> dict[str, Any]:
        """Return the request, to be stored."""
        return {
            'stamps_ns': self._new.stamps_ns.tolist(),
            'positions': self._new.poses.translation.tolist(),
            'rotations': self._new.poses.rotation.as_quat().tolist(),
            'doubts_m': self.bridge.widest_m.tolist(),
        }


def _refuse_first(wrong: ArrayLike, path: str, part: str, values: NDArray[Any], rule: str) -> None:
    if np.any(wrong):
        row = int(np.argmax(wrong))
        value = values[row]
        shown = tuple(value.tolist()) if np.ndim(value) else int(value)
        field = f'{path}.poses[{row}].{part}'
        raise InvalidRequestError(f'{field}: expected {rule}, got {shown}', field=field)


def _log(motions: Motions) -> Array:
    """Return the twists of motions: translation part and rotation vector, shape (n, 6)."""
    turn = motions.rotation.as_rotvec().reshape(-1, 3)
    angle = np.linalg.norm(turn, axis=1)
    small = angle < _SMALL_ANGLE
    safe = np.where(small, 1.0, angle)
    factor = np.where(
        small, 1.0 / 12.0 + angle**2 / 720.0, (1.0 - 0.5 * safe / np.tan(0.5 * safe)) / (safe * safe)
    )
    step = motions.translation
    once = np.cross(turn, step)
    return np.concatenate([step - 0.5 * once + factor[:, None] * np.cross(turn, once), turn], axis=1)


def _exp(twists: Array) -> Motions:
    """Return the motions of twists, the inverse of `_log`."""
    step, turn = twists[:, :3], twists[:, 3:]
    angle = np.linalg.norm(turn, axis=1)
    small = angle < _SMALL_ANGLE
    safe = np.where(small, 1.0, angle)
    first = np.where(small, 0.5 - angle**2 / 24.0, (1.0 - np.cos(safe)) / (safe * safe))
    second = np.where(small, 1.0 / 6.0 - angle**2 / 120.0, (safe - np.sin(safe)) / safe**3)
    once = np.cross(turn, step)
    moved = step + first[:, None] * once + second[:, None] * np.cross(turn, once)
    return Motions(Rotation.from_rotvec(turn), moved)
