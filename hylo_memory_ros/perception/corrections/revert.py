"""Restoration of landmarks after a correction was reverted and more was seen since.

Earlier keyframes and sightings return to their former poses and landmarks, and merged landmarks are
restored. Later sightings stay with the landmark that they were given to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hylo_memory_ros.perception.map.landmark import NEVER, unpack_states
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.map.sightings import Keyframes
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.fusion import reestimate

Columns = Mapping[str, Sequence[Any]]


def restore_landmarks(
    landmarks: LandmarkMap,
    former_landmarks: Columns,
    keyframes: Columns,
    sightings: Columns,
    settings: LandmarkSettings,
) -> frozenset[str]:
    """Undo a correction in a map; return the keys of landmarks that it began and that stay.

    Parameters
    ----------
    landmarks : LandmarkMap
        As it is now; changed in place.
    former_landmarks, keyframes, sightings : mapping
        As they were before the correction, column by column.
    """
    _restore_keyframes(landmarks, Keyframes(settings, keyframes))
    before = dict(zip(former_landmarks['number'], range(len(former_landmarks['number'])), strict=True))
    _restore_merged(landmarks, former_landmarks, before)
    _restore_sightings(landmarks, sightings)
    stays = _remove_begun(landmarks, set(before))
    for row in np.flatnonzero(landmarks.state['live'] & (landmarks.state['slot'] >= 0)).tolist():
        if not (landmarks.state['pinned'][row] or landmarks.state['held'][row]):
            reestimate(row, landmarks, settings)
    return stays


def _restore_keyframes(landmarks: LandmarkMap, former: Keyframes) -> None:
    columns = former.columns
    rows = columns['number'] - 1
    landmarks.keyframes.replace_poses(rows, columns['position'], columns['rotation'])


def _restore_merged(landmarks: LandmarkMap, former_landmarks: Columns, before: Mapping[int, int]) -> None:
    """Restore the former state of landmarks, including those merged since."""
    states = unpack_states(former_landmarks)
    now = np.flatnonzero(landmarks.state['live'])
    for row, number in zip(now.tolist(), landmarks.state['number'][now].tolist(), strict=True):
        place = before.get(number)
        if place is None:
            continue
        former = states[place]
        if landmarks.state['merged_into'][row] and not former['merged_into']:
            kept = {name: landmarks.state[name][row] for name in ('cell', 'placed', 'slot', 'saved')}
            landmarks.state[row] = former
            for name, value in kept.items():
                landmarks.state[name][row] = value
            landmarks.scores[row] = json.loads(former_landmarks['labels'][place])
        elif landmarks.state['written_ns'][row] == former['written_ns'] != NEVER:
            landmarks.state['written'][row] = former['written']
        for name in ('mean', 'rotation', 'flipped', 'written_rotation'):
            # Not determined by sightings.
            landmarks.state[name][row] = former[name]
        landmarks.state['dirty'][row] = True
    landmarks.place(now)


def _restore_sightings(landmarks: LandmarkMap, sightings: Columns) -> None:
    owner = {
        (keyframe, origin): landmark
        for landmark, keyframe, origin in zip(
            sightings['landmark'], sightings['keyframe'], sightings['origin'], strict=True
        )
    }
    known = set(landmarks.state['number'][landmarks.state['live']].tolist())
    seen = landmarks.sightings.state
    moves: dict[int, list[int]] = {}
    for slot in landmarks.sightings.slots().tolist():
        landmark = owner.get((int(seen['keyframe'][slot]), int(seen['origin'][slot])))
        if landmark is not None and landmark in known and landmark != seen['landmark'][slot]:
            moves.setdefault(landmark, []).append(slot)
    for landmark, slots in moves.items():
        landmarks.sightings.give(np.array(slots), landmark)
    for row in np.flatnonzero(landmarks.state['live']).tolist():
        landmarks.state['slot'][row] = landmarks.sightings.newest(int(landmarks.state['number'][row]))


def _remove_begun(landmarks: LandmarkMap, before: set[int]) -> frozenset[str]:
    stays = []
    for row in np.flatnonzero(landmarks.state['live']).tolist():
        state = landmarks.state[row]
        if int(state['number']) in before or state['merged_into']:
            continue
        if state['slot'] >= 0 or state['has_instance']:
            stays.append(landmarks.keys[row])
        else:
            landmarks.remove(row)
    return frozenset(stays)
