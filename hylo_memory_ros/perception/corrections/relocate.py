"""Landmarks after their map moved: keyframes go where they really were, and sightings with them.

Every landmark is made again from its sightings. Where those of two now coincide, they are one, and
the one that is written, or else the oldest, survives; where those of one no longer do, the others
become a landmark of their own. A motion of the whole map changes nothing of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model import MemoryItem, MemoryKind, Pose
from hylo_memory_ros.perception.corrections.regroup import Seen, regrouped
from hylo_memory_ros.perception.corrections.trajectory import (
    BrownianBridge,
    Correction,
    CorrectionUncertainty,
)
from hylo_memory_ros.perception.edits import moved_poses
from hylo_memory_ros.perception.ingestion.observation import digest32
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.landmark import KEY_DIGITS, item_of, landmark_key
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.fusion import located, refuse
from hylo_memory_ros.perception.tracking.update import claimed
from hylo_memory_ros.storage.corrections.apply import Placed

__all__ = ['Relocation', 'relocate']

Rows = NDArray[np.int64]

_SOURCE = 'correction'


@dataclass(slots=True)
class Relocation:
    """What became of the landmarks of a map."""

    book: LandmarkMap
    settings: LandmarkSettings
    correction: Correction
    follows: bool = False
    """Whether statements go where the sightings are, and not only as the map moved."""
    merged: dict[str, str] = field(default_factory=dict)
    """Key of the survivor, by that of the landmark that proved to be it."""
    split: list[str] = field(default_factory=list)
    """Keys of the landmarks that were begun."""
    gone: frozenset[str] = frozenset()
    """Keys of written landmarks that speak no longer."""
    items: Sequence[MemoryItem] = ()
    """Statements of landmarks that are written for the first time."""

    def move(self, placed: Sequence[Placed]) -> list[Pose]:
        """Return the new pose of each statement: that of a landmark follows its sightings."""
        poses = moved_poses(placed, self.correction)
        return [self._of_landmark(one, pose) for one, pose in zip(placed, poses, strict=True)]

    def _of_landmark(self, placed: Placed, pose: Pose) -> Pose:
        if not self.follows or placed.kind != MemoryKind.SPATIAL.value or placed.key is None:
            return pose
        row = self.book.row_of(placed.key)
        if row is None or not self._follows_sightings(row, placed.valid_from_ns):
            return pose
        fused = claimed(self.book.fused(row), self.settings)
        item = item_of(
            fused._replace(orientation=None),
            frame_id=pose.frame_id,
            map_id='',
            source='',
            valid_from_ns=0,
            stamp_ns=pose.stamp_ns or 0,
        )
        assert item.pose is not None
        return item.pose.model_copy(update={'orientation': pose.orientation, 'stamp_ns': pose.stamp_ns})

    def _follows_sightings(self, row: int, valid_from_ns: int) -> bool:
        """Return whether a statement is the newest of a landmark that has sightings."""
        state = self.book.state[row]
        return bool(
            state['slot'] >= 0
            and state['written_ns'] == valid_from_ns
            and not (state['pinned'] or state['held'])
        )


def relocate(
    book: LandmarkMap,
    correction: Correction,
    settings: LandmarkSettings,
    earlier: Sequence[BrownianBridge] = (),
) -> Relocation:
    """Move a map's keyframes, and make its landmarks anew from their sightings.

    Parameters
    ----------
    book : LandmarkMap
        All landmarks of the map as they are stored; changed in place.
    earlier : sequence of BrownianBridge
        How sure earlier corrections left the trajectory.
    """
    done = Relocation(book, settings, correction)
    frames = book.keyframes.columns
    stamps = frames['stamp_ns'].copy()
    _move_keyframes(book, correction)
    bridge = correction.bridge
    done.follows = bridge is not None
    if bridge is not None and len(stamps):
        doubt = bridge.at(stamps)
        for other in earlier:
            doubt = doubt.or_wider(other.at(stamps))
        _regroup(done, doubt)
    _move_the_others(book, correction)
    for row in _rows_with_sightings(book).tolist():
        refuse(row, book, settings)
        if done.follows and book.state['written_ns'][row] != NEVER:
            # What its statement says from now on.
            book.state['written'][row] = book.state['mean'][row]
    done.items = _first_items(done)
    return done


def _move_keyframes(book: LandmarkMap, correction: Correction) -> None:
    frames = book.keyframes.columns
    if not len(frames):
        return
    motions = correction.at(frames['stamp_ns'].copy())
    positions = motions.positions(frames['position'].copy())
    rotations = motions.orientations(frames['rotation'].copy())
    rows = np.arange(len(frames))
    moved = (positions != frames['position']).any(axis=1) | (rotations != frames['rotation']).any(axis=1)
    book.keyframes.replace_poses(rows[moved], positions[moved], rotations[moved])


def _rows_with_sightings(book: LandmarkMap) -> Rows:
    state = book.state[: len(book.keys)]
    follows = state['live'] & (state['slot'] >= 0) & ~state['pinned'] & ~state['held']
    return np.flatnonzero(follows)


def _move_the_others(book: LandmarkMap, correction: Correction) -> None:
    """Move what follows no sighting, and how everything is turned, as the map was when it was last seen."""
    state = book.state
    rows = np.flatnonzero(state['live'])
    if not len(rows):
        return
    motions = correction.at(state['last_ns'][rows])
    state['mean'][rows] = motions.positions(state['mean'][rows])
    written = np.flatnonzero(state['written_ns'][rows] != NEVER)
    state['written'][rows[written]] = motions.take(written).positions(state['written'][rows[written]])
    for name in ('rotation', 'flipped', 'written_rotation'):
        turned = np.flatnonzero((state[name][rows] != 0.0).any(axis=1))
        if len(turned):
            state[name][rows[turned]] = motions.take(turned).orientations(state[name][rows[turned]])
    book.place(rows)


def _regroup(done: Relocation, doubt: CorrectionUncertainty) -> None:
    book, settings = done.book, done.settings
    slots = _free_slots(book)
    if not len(slots):
        return
    seen = book.sightings.state
    rows = _row_of_number(book)
    owners = np.array([rows[number] for number in seen['landmark'][slots].tolist()])
    positions, covariances = located(slots, book, settings)
    gates = {digest32(source.name.encode()): source.gate_m for source in settings.inputs}
    widest = max(gates.values(), default=1.0)
    sources = book.state['source'][owners].tolist()
    columns = Seen(
        keyframes=seen['keyframe'][slots] - 1,
        positions=positions,
        covariances=covariances,
        labels=[book.labels[row] for row in owners.tolist()],
        gates_m=np.array([gates.get(source, widest) for source in sources]),
        dof=2 if not seen['mean'][slots][:, 2].any() else 3,
    )
    bases = book.keyframes.columns['position']
    groups = regrouped(columns, bases, doubt.take(columns.keyframes), settings)
    _give_names(done, slots, owners, groups)


def _free_slots(book: LandmarkMap) -> Rows:
    """Return the sightings that may be given to others, by keyframe and landmark."""
    seen, state = book.sightings.state, book.state
    rows = np.flatnonzero(
        state['live'] & ~state['has_instance'] & ~state['pinned'] & ~state['held']
        & (state['merged_into'] == 0) & (state['forgotten_ns'] == NEVER)
    )  # fmt: skip
    slots = book.sightings.slots()
    slots = slots[np.isin(seen['landmark'][slots], state['number'][rows])]
    order = np.lexsort((seen['origin'][slots], seen['landmark'][slots], seen['keyframe'][slots]))
    return slots[order]


def _row_of_number(book: LandmarkMap) -> dict[int, int]:
    live = np.flatnonzero(book.state['live'])
    return dict(zip(book.state['number'][live].tolist(), live.tolist(), strict=True))


def _give_names(done: Relocation, slots: Rows, owners: Rows, groups: Rows) -> None:
    """Let each landmark be the group that most of its detections are in, and begin others."""
    book = done.book
    n = book.sightings.state['n'][slots]
    shares: dict[int, dict[int, int]] = {}
    for owner, group, count in zip(owners.tolist(), groups.tolist(), n.tolist(), strict=True):
        here = shares.setdefault(owner, {})
        here[group] = here.get(group, 0) + count
    candidates: dict[int, list[int]] = {}
    for owner, here in shares.items():
        best = min(here, key=lambda group: (-here[group], group))
        candidates.setdefault(best, []).append(owner)
    counts = _Counts(book, shares)
    stays: dict[int, int] = {}
    for group in range(int(groups.max()) + 1):
        rows = sorted(candidates.get(group, ()), key=lambda row: _age(book, row))
        stays[group] = rows[0] if rows else _begin(done, slots[groups == group], owners[groups == group][0])
    for group, row in stays.items():
        counts.give(group, row, slots[groups == group])
    for group, row in stays.items():
        book.sightings.give(slots[groups == group], int(book.state['number'][row]))
    end_ns = int(book.keyframes.columns['stamp_ns'].max())
    gone: list[str] = []
    for group, rows in candidates.items():
        for row in rows:
            if row != stays[group]:
                done.merged[book.keys[row]] = book.keys[stays[group]]
                book.merge(row, stays[group], max(end_ns, int(book.state['last_ns'][row])))
                gone += [book.keys[row]] if book.state['written_ns'][row] != NEVER else []
    done.gone = frozenset(gone)
    for row in stays.values():
        of_row = book.sightings.of(int(book.state['number'][row]))
        book.state['slot'][row] = of_row[-1] if len(of_row) else -1
        book.state['rivals'][row] = book.state['rivalry'][row] = 0
        book.state['dirty'][row] = True


def _age(book: LandmarkMap, row: int) -> tuple[bool, int, int]:
    state = book.state[row]
    return bool(state['written_ns'] == NEVER), int(state['first_ns']), int(state['number'])


def _begin(done: Relocation, slots: Rows, owner: int) -> int:
    """Begin a landmark that was split off another one."""
    book = done.book
    first = book.sightings.state[slots[0]]
    label, index, digits = book.labels[owner], int(first['keyframe']), KEY_DIGITS
    key = landmark_key(label, book.keys[owner], int(first['first_ns']), int(first['origin']), index)
    while key in book:
        digits += 1
        key = landmark_key(
            label, book.keys[owner], int(first['first_ns']), int(first['origin']), index, digits
        )
    row = book.add(key, label)
    state = book.state
    for name in ('source', 'extent', 'score', 'existence', 'stale'):
        state[name][row] = state[name][owner]
    done.split.append(key)
    return row


class _Counts:
    """Shares out what was counted of landmarks among the groups that their sightings are in now."""

    def __init__(self, book: LandmarkMap, shares: Mapping[int, Mapping[int, int]]) -> None:
        self._book = book
        self._parts: dict[int, list[tuple[int, float]]] = {}
        for owner, here in shares.items():
            total = sum(here.values())
            for group, count in here.items():
                self._parts.setdefault(group, []).append((owner, count / total))
        self._before = book.state.copy()
        self._scores = [dict(scores) for scores in book.scores]

    def give(self, group: int, row: int, slots: Rows) -> None:
        """Give a group's landmark what was counted of those that its sightings were of."""
        state, before, parts = self._book.state, self._before, self._parts[group]
        state['observations'][row] = max(1, round(sum(before['observations'][o] * part for o, part in parts)))
        scores: dict[str, float] = {}
        for owner, part in parts:
            for label, score in self._scores[owner].items():
                scores[label] = scores.get(label, 0.0) + score * part
        self._book.scores[row] = scores
        whole = [owner for owner, part in parts if part == 1.0]
        seen = self._book.sightings.state
        for name, of, choose in (
            ('first_ns', 'first_ns', min), ('since_ns', 'first_ns', min), ('last_ns', 'last_ns', max),
        ):  # fmt: skip
            stamps = [int(choose(seen[of][slots])), *(int(before[name][owner]) for owner in whole)]
            state[name][row] = choose(stamps)


def _first_items(done: Relocation) -> list[MemoryItem]:
    """Return the statements of landmarks that have enough sightings now to be confirmed."""
    book, settings = done.book, done.settings
    state = book.state
    changed = {*done.split, *done.merged.values()}
    items = []
    names = {digest32(source.name.encode()): source.name for source in settings.inputs}
    for key in sorted(changed):
        row = book.row_of(key)
        if row is None or state['written_ns'][row] != NEVER or state['n'][row] < settings.confirm_n:
            continue
        since_ns, last_ns = int(state['since_ns'][row]), int(state['last_ns'][row])
        state['written_ns'][row], state['written'][row] = since_ns, state['mean'][row]
        state['written_rotation'][row] = state['rotation'][row]
        items.append(
            item_of(
                claimed(book.fused(row), settings),
                frame_id=settings.global_frame,
                map_id=book.map_id,
                source=names.get(int(state['source'][row]), _SOURCE),
                valid_from_ns=since_ns,
                stamp_ns=last_ns,
            )
        )
    return items
