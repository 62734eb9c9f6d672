"""Sightings of landmarks, and the keyframes (poses of the robot) that they refer to.

Estimates are relative to the base of the keyframe, so that a corrected trajectory moves its sightings.
At most 64 of a landmark are kept, thinned evenly over all of them: those whose place in the order is a
multiple of a power of two, and the newest.

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

SIGHTING = np.dtype(
    [
        ('landmark', 'i8'),
        ('keyframe', 'i8'),
        ('origin', 'i8'),
        ('place', 'i8'),
        ('n', 'i8'),
        ('first_ns', 'i8'),
        ('last_ns', 'i8'),
        ('mean', 'f8', 3),
        ('information', 'f8', 6),
        ('live', '?'),
        ('dirty', '?'),
        ('saved', '?'),
    ]
)
"""Number of the landmark, of the keyframe, and of the landmark that it was first given to; its place
among all sightings of that landmark; detections, first and last stamp (ns); mean (m) and information
(1/m^2, xx xy xz yy yz zz, of the detections alone, without localization), both in the base frame of
the keyframe; and what is needed to store it."""

SIGHTINGS_MAX = 64
"""Largest number of sightings that are kept of one landmark; a merge adds those of the other one."""

_FIRST_CAPACITY = 256
_IDENTITY = ('landmark', 'keyframe', 'origin')
_NUMBERS = (*_IDENTITY, 'place', 'n', 'first_ns', 'last_ns')

Key = tuple[int, int, int]
Slots = NDArray[np.int64]


class SightingChanges(NamedTuple):
    """Unsaved changes of sightings."""

    saved: Sequence[Mapping[str, Any]]
    """Rows to insert or replace."""
    deleted: Sequence[Key]
    """Landmark, keyframe and origin of removed sightings."""
    new: frozenset[Key]
    """Sightings that are saved for the first time."""

    def __bool__(self) -> bool:
        return bool(self.saved or self.deleted)


class Sightings:
    """Sightings of one map in slots; free slots are reused.

    Parameters
    ----------
    stored : mapping
        What was saved, column by column.
    """

    def __init__(self, stored: Mapping[str, Sequence[Any]] | None = None) -> None:
        self.state = np.zeros(_FIRST_CAPACITY, SIGHTING)
        """One row of `SIGHTING` per slot; valid where `live` is set."""
        self._of: dict[int, list[int]] = {}
        self._free: list[int] = []
        self._end = 0
        self._deleted: set[Key] = set()
        if stored and len(stored['landmark']):
            self._load(stored)

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def of(self, landmark: int) -> Slots:
        """Return the slots of a landmark, by keyframe and origin."""
        return np.array(self._of.get(landmark, ()), dtype=np.int64)

    def slots(self) -> Slots:
        """Return all slots in use."""
        return np.flatnonzero(self.state['live'][: self._end])

    def newest(self, landmark: int) -> int:
        """Return the slot of the newest sighting of a landmark, or -1."""
        slots = self._of.get(landmark)
        return slots[-1] if slots else -1

    def begin(self, landmark: int, keyframe: int, stamp_ns: int) -> int:
        """Begin a sighting of a landmark and thin out older ones."""
        before = self.newest(landmark)
        place = 0 if before < 0 else int(self.state['place'][before]) + 1
        slot = self._take_slot()
        state = np.zeros((), SIGHTING)
        state['landmark'], state['keyframe'], state['origin'] = landmark, keyframe, landmark
        state['place'], state['first_ns'], state['last_ns'] = place, stamp_ns, stamp_ns
        state['live'] = state['dirty'] = True
        self.state[slot] = state
        self._of.setdefault(landmark, []).append(slot)
        self._thin(landmark, place)
        return slot

    def give(self, slots: Slots, landmark: int) -> None:
        """Move sightings to another landmark."""
        touched = {landmark}
        for slot in slots.tolist():
            former = int(self.state['landmark'][slot])
            if former != landmark:
                self._leave_row(slot)
                self._of[former].remove(slot)
                self.state['landmark'][slot] = landmark
                self._of.setdefault(landmark, []).append(slot)
                touched.add(former)
        self.state['dirty'][slots] = True
        for number in touched:
            self._sort(number)

    def remove(self, slots: Slots) -> None:
        """Remove sightings."""
        for slot in slots.tolist():
            landmark = int(self.state['landmark'][slot])
            self._leave_row(slot)
            kept = self._of[landmark]
            kept.remove(slot)
            if not kept:
                del self._of[landmark]
            self.state[slot] = np.zeros((), SIGHTING)
            self._free.append(slot)

    def take_changes(self) -> SightingChanges:
        """Return the changes since the last call, to be stored."""
        dirty = np.flatnonzero(self.state['dirty'] & self.state['live'])
        new = frozenset(self._key(slot) for slot in dirty.tolist() if not self.state['saved'][slot])
        saved = [self._stored(slot) for slot in dirty.tolist()]
        gone, self._deleted = self._deleted, set()
        self.state['dirty'] = False
        self.state['saved'][dirty] = True
        return SightingChanges(saved, sorted(gone), new)

    def put_back(self, changes: SightingChanges) -> None:
        """Restore changes that could not be stored."""
        place = {self._key(slot): slot for slot in self.slots().tolist()}
        for row in changes.saved:
            key = row['landmark'], row['keyframe'], row['origin']
            slot = place.get(key)
            if slot is not None:
                self.state['dirty'][slot] = True
                self.state['saved'][slot] &= key not in changes.new
            elif key not in changes.new:
                self._deleted.add(key)
        self._deleted.update(changes.deleted)

    def _thin(self, landmark: int, newest: int) -> None:
        stride = _stride(newest)
        if stride == 1:
            return
        kept = self._of[landmark]
        state = self.state
        # Those that came by a merge are no longer thinned with the others.
        own = [slot for slot in kept[:-1] if int(state['origin'][slot]) == landmark]
        looked_at = own if _stride(newest - 1) != stride else own[-1:]
        over = [slot for slot in looked_at if int(state['place'][slot]) % stride]
        self.remove(np.array(over, dtype=np.int64))

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        if self._end == len(self.state):
            self.state = np.concatenate([self.state, np.zeros_like(self.state)])
        self._end += 1
        return self._end - 1

    def _key(self, slot: int) -> Key:
        landmark, keyframe, origin = (int(self.state[name][slot]) for name in _IDENTITY)
        return landmark, keyframe, origin

    def _leave_row(self, slot: int) -> None:
        if self.state['saved'][slot]:
            self._deleted.add(self._key(slot))
            self.state['saved'][slot] = False

    def _sort(self, landmark: int) -> None:
        slots = self._of.get(landmark)
        if not slots:
            self._of.pop(landmark, None)
            return
        slots.sort(key=lambda slot: (int(self.state['keyframe'][slot]), int(self.state['origin'][slot])))

    def _stored(self, slot: int) -> dict[str, Any]:
        state = self.state[slot]
        estimate = np.array((*state['mean'], *state['information']), dtype='<f8').tobytes()
        return {**{name: int(state[name]) for name in _NUMBERS}, 'estimate': estimate}

    def _load(self, stored: Mapping[str, Sequence[Any]]) -> None:
        self._end = len(stored['landmark'])
        self.state = np.zeros(max(self._end, _FIRST_CAPACITY), SIGHTING)
        rows = self.state[: self._end]
        for name in _NUMBERS:
            rows[name] = stored[name]
        estimate = np.frombuffer(b''.join(stored['estimate']), dtype='<f8').reshape(-1, 9)
        rows['mean'], rows['information'] = estimate[:, :3], estimate[:, 3:]
        rows['live'] = rows['saved'] = True
        for slot, number in enumerate(rows['landmark'].tolist()):
            self._of.setdefault(number, []).append(slot)
        for number in list(self._of):
            self._sort(number)


def _stride(newest: int) -> int:
    """Return the thinning interval for the place of the newest sighting."""
    stride = 1
    while newest // stride >= SIGHTINGS_MAX - 1:
        stride *= 2
    return stride


KEYFRAME = np.dtype([('number', 'i8'), ('stamp_ns', 'i8'), ('position', 'f8', 3), ('rotation', 'f8', 4)])
"""Number (from 1), stamp, and ``global_from_base``: position (m) and unit quaternion x y z w."""

TURN_DEG = 15.0
"""Turn of the base after which a new keyframe begins, degrees."""

_FIRST_CAPACITY_KEYFRAMES = 64
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
        self._rows = np.zeros(_FIRST_CAPACITY_KEYFRAMES, KEYFRAME)
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
        self._rows = np.zeros(max(self._count, _FIRST_CAPACITY_KEYFRAMES), KEYFRAME)
        rows = self.columns
        rows['number'], rows['stamp_ns'] = stored['number'], stored['stamp_ns']
        poses = np.frombuffer(b''.join(stored['pose']), dtype=_POSE).reshape(-1, 7)
        rows['position'], rows['rotation'] = poses[:, :3], poses[:, 3:]
