"""Keyframes: poses of the robot's base that sightings refer to, for one map.

A keyframe is valid from its stamp until that of the next one. A new one begins when the base has moved
or turned far enough, or has rested long enough, whether or not anything was seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.transforms import Transform

__all__ = ['KEYFRAME', 'TURN_DEG', 'Keyframes', 'StoredKeyframe']

KEYFRAME = np.dtype([('number', 'i8'), ('stamp_ns', 'i8'), ('position', 'f8', 3), ('rotation', 'f8', 4)])
"""Number (from 1), stamp, and ``global_from_base``: position (m) and unit quaternion x y z w."""

TURN_DEG = 15.0
"""Turn of the base after which a new keyframe begins, degrees."""

_FIRST_CAPACITY = 64
_POSE = np.dtype('<f8')


class StoredKeyframe(NamedTuple):
    """Stored row of a keyframe."""

    number: int
    """Its number within the map."""
    stamp_ns: int
    """Start of its validity, nanoseconds."""
    pose: bytes
    """Seven float64: x y z, metres, and the quaternion x y z w."""


class Keyframes:
    """The keyframes of one map, by number; the number of a row is the row plus one.

    Parameters
    ----------
    settings : LandmarkSettings
        How far is far enough.
    stored : mapping
        What was saved, column by column.

    Examples
    --------
    >>> frames = Keyframes(LandmarkSettings())
    >>> [frames.advance(stamp, Transform((x, 0.0, 0.0))) for stamp, x in ((10, 0.0), (20, 0.1), (30, 0.7))]
    [1, 1, 2]
    >>> frames.at(25), frames.at(5)
    (0, -1)
    """

    def __init__(self, settings: LandmarkSettings, stored: Mapping[str, Sequence[Any]] | None = None) -> None:
        self._distance_m = settings.keyframe_distance_m
        self._turn_rad = math.radians(TURN_DEG)
        self._rest_ns = round(settings.keyframe_rest_s * 1e9)
        self._rows = np.zeros(_FIRST_CAPACITY, KEYFRAME)
        self._count = 0
        self._dirty: set[int] = set()
        if stored and len(stored['number']):
            self._load(stored)

    def __len__(self) -> int:
        return self._count

    @property
    def columns(self) -> NDArray[np.void]:
        """Return one row of `KEYFRAME` each, by stamp; a view."""
        return self._rows[: self._count]

    def at(self, stamp_ns: int) -> int:
        """Return the row of the keyframe valid at a stamp; -1: none."""
        return int(np.searchsorted(self.columns['stamp_ns'], stamp_ns, side='right')) - 1

    def pose(self, row: int) -> Transform:
        """Return ``global_from_base`` of a row."""
        x, y, z = self._rows['position'][row].tolist()
        qx, qy, qz, qw = self._rows['rotation'][row].tolist()
        return Transform((x, y, z), (qx, qy, qz, qw), stamp_ns=int(self._rows['stamp_ns'][row]))

    def advance(self, stamp_ns: int, global_from_base: Transform) -> int:
        """Return the number of the valid keyframe; a new one begins if it is due."""
        if not self._count or self._is_due(stamp_ns, global_from_base):
            self._append(stamp_ns, global_from_base)
        return self._count

    def mark(self, stamp_ns: int, global_from_base: Transform) -> None:
        """Begin a keyframe if the base moved since the last one, so that the trajectory reaches to it."""
        if not self._count or stamp_ns <= int(self._rows['stamp_ns'][self._count - 1]):
            return
        last = self.pose(self._count - 1)
        if (last.translation, last.rotation) != (global_from_base.translation, global_from_base.rotation):
            self._append(stamp_ns, global_from_base)

    def replace_poses(self, rows: NDArray[np.int64], positions: Any, rotations: Any) -> None:
        """Replace the poses of keyframes after a correction."""
        self._rows['position'][rows] = positions
        self._rows['rotation'][rows] = rotations
        self._dirty.update(rows.tolist())

    def take_changes(self) -> list[StoredKeyframe]:
        """Return the changes since the last call, to be stored."""
        rows, self._dirty = sorted(self._dirty), set()
        return [self._stored(row) for row in rows]

    def put_back(self, changes: Sequence[StoredKeyframe]) -> None:
        """Restore changes that could not be stored."""
        self._dirty.update(change.number - 1 for change in changes)

    def _is_due(self, stamp_ns: int, pose: Transform) -> bool:
        last = self._rows[self._count - 1]
        if stamp_ns - int(last['stamp_ns']) >= self._rest_ns:
            return True
        if math.dist(pose.translation, last['position'].tolist()) >= self._distance_m:
            return True
        cosine = sum(a * b for a, b in zip(pose.rotation, last['rotation'].tolist(), strict=True))
        return 2.0 * math.acos(min(1.0, abs(cosine))) >= self._turn_rad

    def _append(self, stamp_ns: int, pose: Transform) -> None:
        row = self._count
        if row == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._rows[row] = (row + 1, stamp_ns, pose.translation, pose.rotation)
        self._count += 1
        self._dirty.add(row)

    def _stored(self, row: int) -> StoredKeyframe:
        state = self._rows[row]
        pose = np.array((*state['position'], *state['rotation']), dtype=_POSE).tobytes()
        return StoredKeyframe(int(state['number']), int(state['stamp_ns']), pose)

    def _load(self, stored: Mapping[str, Sequence[Any]]) -> None:
        self._count = len(stored['number'])
        self._rows = np.zeros(max(self._count, _FIRST_CAPACITY), KEYFRAME)
        rows = self.columns
        rows['number'], rows['stamp_ns'] = stored['number'], stored['stamp_ns']
        poses = np.frombuffer(b''.join(stored['pose']), dtype=_POSE).reshape(-1, 7)
        rows['position'], rows['rotation'] = poses[:, :3], poses[:, 3:]
