"""Landmarks after a correction was taken back, when more was seen since it was made.

Keyframes of before go back where they were, sightings of before to the landmarks that they were
of, and those that were merged are landmarks again. What was seen since stays with the landmark
that it was given to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hylo_memory_ros.perception.map.columns import NEVER, unpacked
from hylo_memory_ros.perception.map.keyframes import Keyframes
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.fusion import refuse

__all__ = ['take_back']

Columns = Mapping[str, Sequence[Any]]


def take_back(
    book: LandmarkMap, landmarks: Columns, keyframes: Columns, sightings: Columns, settings: LandmarkSettings
) -> frozenset[str]:
    """Undo in a book what a correction did; return the keys of landmarks that it began and that stay.

    Parameters
    ----------
    book : LandmarkMap
        As it is now; changed in place.
    landmarks, keyframes, sightings : mapping
        As they were before the correction, column by column.
    """
    _restore_keyframes(book, Keyframes(settings, keyframes))
    before = dict(zip(landmarks['number'], range(len(landmarks['number'])), strict=True))
    _restore_merged(book, landmarks, before)
    _restore_sightings(book, sightings)
    stays = _remove_begun(book, set(before))
    for row in np.flatnonzero(book.state['live'] & (book.state['slot'] >= 0)).tolist():
        if not (book.state['pinned'][row] or book.state['held'][row]):
            refuse(row, book, settings)
    return stays


def _restore_keyframes(book: LandmarkMap, former: Keyframes) -> None:
    columns = former.columns
    rows = columns['number'] - 1
    book.keyframes.replace_poses(rows, columns['position'], columns['rotation'])


def _restore_merged(book: LandmarkMap, landmarks: Columns, before: Mapping[int, int]) -> None:
    """Let landmarks be again what they were, those that proved to be others since too."""
    states = unpacked(landmarks)
    now = np.flatnonzero(book.state['live'])
    for row, number in zip(now.tolist(), book.state['number'][now].tolist(), strict=True):
        place = before.get(number)
        if place is None:
            continue
        former = states[place]
        if book.state['merged_into'][row] and not former['merged_into']:
            kept = {name: book.state[name][row] for name in ('cell', 'placed', 'slot', 'saved')}
            book.state[row] = former
            for name, value in kept.items():
                book.state[name][row] = value
            book.scores[row] = json.loads(landmarks['labels'][place])
        elif book.state['written_ns'][row] == former['written_ns'] != NEVER:
            book.state['written'][row] = former['written']
        for name in ('mean', 'rotation', 'flipped', 'written_rotation'):
            # What sightings do not tell anew.
            book.state[name][row] = former[name]
        book.state['dirty'][row] = True
    book.place(now)


def _restore_sightings(book: LandmarkMap, sightings: Columns) -> None:
    owner = {
        (keyframe, origin): landmark
        for landmark, keyframe, origin in zip(
            sightings['landmark'], sightings['keyframe'], sightings['origin'], strict=True
        )
    }
    known = set(book.state['number'][book.state['live']].tolist())
    seen = book.sightings.state
    moves: dict[int, list[int]] = {}
    for slot in book.sightings.slots().tolist():
        landmark = owner.get((int(seen['keyframe'][slot]), int(seen['origin'][slot])))
        if landmark is not None and landmark in known and landmark != seen['landmark'][slot]:
            moves.setdefault(landmark, []).append(slot)
    for landmark, slots in moves.items():
        book.sightings.give(np.array(slots), landmark)
    for row in np.flatnonzero(book.state['live']).tolist():
        book.state['slot'][row] = book.sightings.newest(int(book.state['number'][row]))


def _remove_begun(book: LandmarkMap, before: set[int]) -> frozenset[str]:
    stays = []
    for row in np.flatnonzero(book.state['live']).tolist():
        state = book.state[row]
        if int(state['number']) in before or state['merged_into']:
            continue
        if state['slot'] >= 0 or state['has_instance']:
            stays.append(book.keys[row])
        else:
            book.remove(row)
    return frozenset(stays)
