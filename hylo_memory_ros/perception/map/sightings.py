"""Sightings: a landmark seen from one keyframe, the unit of corrections, merges and splits.

Estimates are relative to the base of the keyframe, so that a corrected trajectory moves its sightings.
At most 64 of a landmark are kept, thinned evenly over all of them: those whose place in the order is a
multiple of a power of two, and the newest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ['SIGHTING', 'SIGHTINGS_MAX', 'SightingChanges', 'Sightings']

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
