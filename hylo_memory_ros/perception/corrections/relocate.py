"""Relocation of landmarks after a map correction.

Keyframes move to their corrected poses, and sightings with them. Every landmark is estimated again from
its sightings. Landmarks whose sightings now coincide are merged into the written one, else the oldest;
sightings of one landmark that no longer coincide become landmarks of their own. A motion of the whole
map changes no grouping.

Keyframes are regrouped in their order like messages: the same gates and the same one-to-one assignment
as for detections. Between two poses of a corrected path the trajectory is less certain than at them,
like a Brownian bridge, by a share of the correction there. Repeated sightings then show where the robot
really was, so grouping and alignment alternate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryItem, MemoryKind, Pose
from hylo_memory_ros.model.pose import MAX_COORDINATE_M
from hylo_memory_ros.perception.corrections.trajectory import (
    BrownianBridge,
    Correction,
    CorrectionUncertainty,
)
from hylo_memory_ros.perception.ingestion.observation import Scan, digest32
from hylo_memory_ros.perception.map.landmark import KEY_DIGITS, NEVER, create_item, landmark_key
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.data_association import NONE, assign_landmarks
from hylo_memory_ros.perception.tracking.fusion import locate_sightings, reestimate
from hylo_memory_ros.perception.tracking.gating import find_candidates
from hylo_memory_ros.perception.tracking.sym3 import DIAGONAL, inverse, times
from hylo_memory_ros.perception.tracking.update import apply_covariance_floor
from hylo_memory_ros.storage.corrections import PlacedStatement
from hylo_memory_ros.transforms import Transform
from hylo_memory_ros.transforms.geometry import Quaternion, Vector

Rows = NDArray[np.int64]

_SOURCE = 'correction'


@dataclass(slots=True)
class Relocation:
    """Result of a relocation."""

    landmarks: LandmarkMap
    settings: LandmarkSettings
    correction: Correction
    follows: bool = False
    """Whether statements move with their sightings, and not only with the map."""
    merged: dict[str, str] = field(default_factory=dict)
    """Key of the survivor by the key of the landmark merged into it."""
    split: list[str] = field(default_factory=list)
    """Keys of the landmarks that were begun."""
    gone: frozenset[str] = frozenset()
    """Keys of written landmarks that were merged."""
    items: Sequence[MemoryItem] = ()
    """Statements of landmarks that are written for the first time."""

    def move(self, placed: Sequence[PlacedStatement]) -> list[Pose]:
        """Return the new pose of each statement: that of a landmark follows its sightings."""
        poses = move_poses(placed, self.correction)
        return [self._of_landmark(one, pose) for one, pose in zip(placed, poses, strict=True)]

    def _of_landmark(self, placed: PlacedStatement, pose: Pose) -> Pose:
        if not self.follows or placed.kind != MemoryKind.SPATIAL.value or placed.key is None:
            return pose
        row = self.landmarks.row_of(placed.key)
        if row is None or not self._follows_sightings(row, placed.valid_from_ns):
            return pose
        fused = apply_covariance_floor(self.landmarks.fused(row), self.settings)
        item = create_item(
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
        """Return whether a statement is the newest of a landmark with sightings."""
        state = self.landmarks.state[row]
        return bool(
            state['slot'] >= 0
            and state['written_ns'] == valid_from_ns
            and not (state['pinned'] or state['held'])
        )


def relocate(
    landmarks: LandmarkMap,
    correction: Correction,
    settings: LandmarkSettings,
    earlier: Sequence[BrownianBridge] = (),
) -> Relocation:
    """Move the keyframes of a map, and estimate its landmarks again from their sightings.

    Parameters
    ----------
    landmarks : LandmarkMap
        All landmarks of the map as they are stored; changed in place.
    earlier : sequence of BrownianBridge
        How sure earlier corrections left the trajectory.
    """
    done = Relocation(landmarks, settings, correction)
    frames = landmarks.keyframes.columns
    stamps = frames['stamp_ns'].copy()
    _move_keyframes(landmarks, correction)
    bridge = correction.bridge
    done.follows = bridge is not None
    if bridge is not None and len(stamps):
        doubt = bridge.at(stamps)
        for other in earlier:
            doubt = doubt.or_wider(other.at(stamps))
        _regroup(done, doubt)
    _move_the_others(landmarks, correction)
    for row in _rows_with_sightings(landmarks).tolist():
        reestimate(row, landmarks, settings)
        if done.follows and landmarks.state['written_ns'][row] != NEVER:
            # The corrected statement is at the new mean.
            landmarks.state['written'][row] = landmarks.state['mean'][row]
    done.items = _first_items(done)
    return done


def _move_keyframes(landmarks: LandmarkMap, correction: Correction) -> None:
    frames = landmarks.keyframes.columns
    if not len(frames):
        return
    motions = correction.at(frames['stamp_ns'].copy())
    positions = motions.positions(frames['position'].copy())
    rotations = motions.orientations(frames['rotation'].copy())
    rows = np.arange(len(frames))
    moved = (positions != frames['position']).any(axis=1) | (rotations != frames['rotation']).any(axis=1)
    landmarks.keyframes.replace_poses(rows[moved], positions[moved], rotations[moved])


def _rows_with_sightings(landmarks: LandmarkMap) -> Rows:
    state = landmarks.state[: len(landmarks.keys)]
    follows = state['live'] & (state['slot'] >= 0) & ~state['pinned'] & ~state['held']
    return np.flatnonzero(follows)


def _move_the_others(landmarks: LandmarkMap, correction: Correction) -> None:
    """Move landmarks without sightings, and all orientations, by the correction at their last stamp."""
    state = landmarks.state
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
    landmarks.place(rows)


def _regroup(done: Relocation, doubt: CorrectionUncertainty) -> None:
    landmarks, settings = done.landmarks, done.settings
    slots = _free_slots(landmarks)
    if not len(slots):
        return
    seen = landmarks.sightings.state
    rows = _row_of_number(landmarks)
    owners = np.array([rows[number] for number in seen['landmark'][slots].tolist()])
    positions, covariances = locate_sightings(slots, landmarks, settings)
    gates = {digest32(source.name.encode()): source.gate_m for source in settings.inputs}
    widest = max(gates.values(), default=1.0)
    sources = landmarks.state['source'][owners].tolist()
    columns = SightingColumns(
        keyframes=seen['keyframe'][slots] - 1,
        positions=positions,
        covariances=covariances,
        labels=[landmarks.labels[row] for row in owners.tolist()],
        gates_m=np.array([gates.get(source, widest) for source in sources]),
        dof=2 if not seen['mean'][slots][:, 2].any() else 3,
    )
    bases = landmarks.keyframes.columns['position']
    groups = regroup(columns, bases, doubt.take(columns.keyframes), settings)
    _give_names(done, slots, owners, groups)


def _free_slots(landmarks: LandmarkMap) -> Rows:
    """Return the sightings that may change their landmark, by keyframe and landmark."""
    seen, state = landmarks.sightings.state, landmarks.state
    rows = np.flatnonzero(
        state['live'] & ~state['has_instance'] & ~state['pinned'] & ~state['held']
        & (state['merged_into'] == 0) & (state['forgotten_ns'] == NEVER)
    )  # fmt: skip
    slots = landmarks.sightings.slots()
    slots = slots[np.isin(seen['landmark'][slots], state['number'][rows])]
    order = np.lexsort((seen['origin'][slots], seen['landmark'][slots], seen['keyframe'][slots]))
    return slots[order]


def _row_of_number(landmarks: LandmarkMap) -> dict[int, int]:
    live = np.flatnonzero(landmarks.state['live'])
    return dict(zip(landmarks.state['number'][live].tolist(), live.tolist(), strict=True))


def _give_names(done: Relocation, slots: Rows, owners: Rows, groups: Rows) -> None:
    """Give each landmark to the group with most of its detections, and begin others."""
    landmarks = done.landmarks
    n = landmarks.sightings.state['n'][slots]
    shares: dict[int, dict[int, int]] = {}
    for owner, group, count in zip(owners.tolist(), groups.tolist(), n.tolist(), strict=True):
        here = shares.setdefault(owner, {})
        here[group] = here.get(group, 0) + count
    candidates: dict[int, list[int]] = {}
    for owner, here in shares.items():
        best = min(here, key=lambda group: (-here[group], group))
        candidates.setdefault(best, []).append(owner)
    counts = _Counts(landmarks, shares)
    stays: dict[int, int] = {}
    for group in range(int(groups.max()) + 1):
        rows = sorted(candidates.get(group, ()), key=lambda row: _age(landmarks, row))
        stays[group] = rows[0] if rows else _begin(done, slots[groups == group], owners[groups == group][0])
    for group, row in stays.items():
        counts.give(group, row, slots[groups == group])
    for group, row in stays.items():
        landmarks.sightings.give(slots[groups == group], int(landmarks.state['number'][row]))
    end_ns = int(landmarks.keyframes.columns['stamp_ns'].max())
    gone: list[str] = []
    for group, rows in candidates.items():
        for row in rows:
            if row != stays[group]:
                done.merged[landmarks.keys[row]] = landmarks.keys[stays[group]]
                landmarks.merge(row, stays[group], max(end_ns, int(landmarks.state['last_ns'][row])))
                gone += [landmarks.keys[row]] if landmarks.state['written_ns'][row] != NEVER else []
    done.gone = frozenset(gone)
    for row in stays.values():
        of_row = landmarks.sightings.of(int(landmarks.state['number'][row]))
        landmarks.state['slot'][row] = of_row[-1] if len(of_row) else -1
        landmarks.state['rivals'][row] = landmarks.state['rivalry'][row] = 0
        landmarks.state['dirty'][row] = True


def _age(landmarks: LandmarkMap, row: int) -> tuple[bool, int, int]:
    state = landmarks.state[row]
    return bool(state['written_ns'] == NEVER), int(state['first_ns']), int(state['number'])


def _begin(done: Relocation, slots: Rows, owner: int) -> int:
    """Begin a landmark that is split off another one."""
    landmarks = done.landmarks
    first = landmarks.sightings.state[slots[0]]
    label, index, digits = landmarks.labels[owner], int(first['keyframe']), KEY_DIGITS
    key = landmark_key(label, landmarks.keys[owner], int(first['first_ns']), int(first['origin']), index)
    while key in landmarks:
        digits += 1
        key = landmark_key(
            label, landmarks.keys[owner], int(first['first_ns']), int(first['origin']), index, digits
        )
    row = landmarks.add(key, label)
    state = landmarks.state
    for name in ('source', 'extent', 'score', 'existence', 'stale'):
        state[name][row] = state[name][owner]
    done.split.append(key)
    return row


class _Counts:
    """Distribution of the counts of landmarks over the groups of their sightings."""

    def __init__(self, landmarks: LandmarkMap, shares: Mapping[int, Mapping[int, int]]) -> None:
        self._landmarks = landmarks
        self._parts: dict[int, list[tuple[int, float]]] = {}
        for owner, here in shares.items():
            total = sum(here.values())
            for group, count in here.items():
                self._parts.setdefault(group, []).append((owner, count / total))
        self._before = landmarks.state.copy()
        self._scores = [dict(scores) for scores in landmarks.scores]

    def give(self, group: int, row: int, slots: Rows) -> None:
        """Set the counts of a group's landmark from those of the former landmarks."""
        state, before, parts = self._landmarks.state, self._before, self._parts[group]
        state['observations'][row] = max(1, round(sum(before['observations'][o] * part for o, part in parts)))
        scores: dict[str, float] = {}
        for owner, part in parts:
            for label, score in self._scores[owner].items():
                scores[label] = scores.get(label, 0.0) + score * part
        self._landmarks.scores[row] = scores
        whole = [owner for owner, part in parts if part == 1.0]
        seen = self._landmarks.sightings.state
        for name, of, choose in (
            ('first_ns', 'first_ns', min), ('since_ns', 'first_ns', min), ('last_ns', 'last_ns', max),
        ):  # fmt: skip
            stamps = [int(choose(seen[of][slots])), *(int(before[name][owner]) for owner in whole)]
            state[name][row] = choose(stamps)


def _first_items(done: Relocation) -> list[MemoryItem]:
    """Return the statements of landmarks that are confirmed by the relocation."""
    landmarks, settings = done.landmarks, done.settings
    state = landmarks.state
    changed = {*done.split, *done.merged.values()}
    items = []
    names = {digest32(source.name.encode()): source.name for source in settings.inputs}
    for key in sorted(changed):
        row = landmarks.row_of(key)
        if row is None or state['written_ns'][row] != NEVER or state['n'][row] < settings.confirm_n:
            continue
        since_ns, last_ns = int(state['since_ns'][row]), int(state['last_ns'][row])
        state['written_ns'][row], state['written'][row] = since_ns, state['mean'][row]
        state['written_rotation'][row] = state['rotation'][row]
        items.append(
            create_item(
                apply_covariance_floor(landmarks.fused(row), settings),
                frame_id=settings.global_frame,
                map_id=landmarks.map_id,
                source=names.get(int(state['source'][row]), _SOURCE),
                valid_from_ns=since_ns,
                stamp_ns=last_ns,
            )
        )
    return items


def move_poses(placed: Sequence[PlacedStatement], correction: Correction) -> list[Pose]:
    """Return the new pose of each statement, moved by the correction at its stamp.

    The stamp is that of the pose, else the time from which the statement is valid.

    Raises
    ------
    InvalidRequestError
        If something would be moved beyond all coordinates.
    """
    if not placed:
        return []
    stamps = np.array([_stamp(one) for one in placed], dtype=np.int64)
    motions = correction.at(stamps)
    positions = motions.positions(np.array([one.pose.position for one in placed]))
    turns = motions.rotation.as_quat().reshape(-1, 4).tolist()
    return [
        _moved(one, (x, y, z), (qx, qy, qz, qw))
        for one, (x, y, z), (qx, qy, qz, qw) in zip(placed, positions.tolist(), turns, strict=True)
    ]


def _moved(one: PlacedStatement, position: Vector, rotation: Quaternion) -> Pose:
    pose = one.pose
    if not max(map(abs, position)) <= MAX_COORDINATE_M:
        raise InvalidRequestError(
            f'new_from_old: moves {one.key or one.kind!r} from {pose.position} to {position}, '
            f'beyond {MAX_COORDINATE_M:g} m',
            field='new_from_old',
        )
    values: dict[str, Any] = {'frame_id': pose.frame_id, 'position': position, 'stamp_ns': pose.stamp_ns}
    if pose.orientation is not None or pose.covariance is not None:
        new_from_old = Transform((0.0, 0.0, 0.0), rotation)
        values['orientation'] = pose.orientation and new_from_old.orientation(pose.orientation)
        values['covariance'] = pose.covariance and new_from_old.covariance(pose.covariance)
    return Pose(**values)


def _stamp(one: PlacedStatement) -> int:
    return one.valid_from_ns if one.pose.stamp_ns is None else one.pose.stamp_ns


Array = NDArray[np.float64]

# Iterations of alignment and regrouping.
_ROUNDS = 3
# The uncertainty of a keyframe widens its gate by this many standard deviations, up to this factor.
_DOUBT_SIGMAS = 2.0
_WIDEST = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class SightingColumns:
    """Sightings by keyframe, column by column."""

    keyframes: Rows
    """Row of the keyframe of each, ascending."""
    positions: Array
    """Metres, in the global frame, shape (n, 3)."""
    covariances: Array
    """Covariances of detections and localization, m^2, shape (n, 6)."""
    labels: list[str]
    """Label of each."""
    gates_m: Array
    """Largest distance to its landmark, metres, shape (n,)."""
    dof: int
    """Degrees of freedom of a position."""

    def __len__(self) -> int:
        return len(self.keyframes)


def regroup(
    seen: SightingColumns, bases: Array, doubt: CorrectionUncertainty, settings: LandmarkSettings
) -> Rows:
    """Return the group of each sighting; groups are numbered from 0 in the order of their first.

    Parameters
    ----------
    bases : ndarray, shape (k, 3)
        Where the robot was at each keyframe, metres.
    doubt : CorrectionUncertainty
        How sure each sighting's keyframe is.
    """
    shift = np.zeros_like(seen.positions)
    sure = np.full(len(seen), 0.0)
    groups = _grouped(seen, shift, doubt.sigma_m, bases, settings)
    if not doubt.sigma_m.any():
        return groups
    for _ in range(_ROUNDS):
        shift, sure = _aligned(seen, groups, doubt)
        groups = _grouped(seen, shift, sure, bases, settings)
    return groups


def _grouped(
    seen: SightingColumns, shift: Array, sigma_m: Array, bases: Array, settings: LandmarkSettings
) -> Rows:
    groups = np.full(len(seen), NONE, dtype=np.int64)
    widest = float(seen.gates_m.max(initial=1.0)) * _WIDEST
    landmarks = LandmarkMap('', widest)
    information: list[Array] = []
    starts = np.flatnonzero(np.diff(seen.keyframes, prepend=-1))
    for rows in np.split(np.arange(len(seen)), starts[1:]):
        scan = _scan(seen, rows, shift, sigma_m, bases)
        everywhere = np.ones(len(rows), dtype=bool)
        found = assign_landmarks(find_candidates(scan, landmarks, settings), everywhere, landmarks)
        for place, row in enumerate(found.tolist()):
            if row == NONE:
                row = found[place] = landmarks.add(f'{len(landmarks):09d}', scan.labels[place])
                information.append(np.zeros(6))
            given = inverse(scan.covariances[place : place + 1])
            known = information[row] + given[0]
            total = inverse(known[None])
            step = scan.positions[place] - landmarks.state['mean'][row]
            landmarks.state['mean'][row] += times(total, times(given, step[None]))[0]
            landmarks.state['covariance'][row] = total[0]
            information[row] = known
        landmarks.place(found)
        groups[rows] = found
    return groups


def _scan(seen: SightingColumns, rows: Rows, shift: Array, sigma_m: Array, bases: Array) -> Scan:
    count = len(rows)
    sigma = float(sigma_m[rows[0]])
    gate_m = float(seen.gates_m[rows].max())
    covariances = seen.covariances[rows].copy()
    covariances[:, DIAGONAL] += sigma * sigma
    base = Transform(tuple(bases[seen.keyframes[rows[0]]].tolist()))
    return Scan(
        input='',
        stamp_ns=0,
        digest=0,
        size=count,
        gate_m=min(gate_m + _DOUBT_SIGMAS * sigma, _WIDEST * gate_m),
        hit_ratio=0.0,
        global_from_sensor=base,
        global_from_base=base,
        indices=np.arange(count),
        labels=[seen.labels[row] for row in rows.tolist()],
        instances=[''] * count,
        positions=seen.positions[rows] + shift[rows],
        covariances=covariances,
        orientations=np.full((count, 4), np.nan),
        axis=None,
        extents=np.full((count, 3), np.nan),
        scores=np.ones(count),
        dof=seen.dof,
    )


def _aligned(seen: SightingColumns, groups: Rows, doubt: CorrectionUncertainty) -> tuple[Array, Array]:
    """Return by how much the others of their groups shift the sightings of each stretch, and how surely.

    Returns
    -------
    shift : ndarray, shape (n, 3)
        Metres; the mean of a Gaussian process that is zero at the poses of the path.
    sigma_m : ndarray, shape (n,)
        What doubt is left, metres.
    """
    shift = np.zeros_like(seen.positions)
    left = doubt.sigma_m.copy()
    variance = seen.covariances[:, DIAGONAL].max(axis=1)
    weight = 1.0 / (variance + doubt.sigma_m**2)
    totals = np.bincount(groups, weight)
    sums = np.stack([np.bincount(groups, weight * seen.positions[:, axis]) for axis in range(3)], axis=1)
    for stretch in np.unique(doubt.stretch[doubt.sigma_m > 0.0]).tolist():
        rows = np.flatnonzero(doubt.stretch == stretch)
        # Sightings of the segment itself are no evidence of its shift.
        own, mine = np.unique(groups[rows], return_inverse=True)
        own_total = np.bincount(mine, weight[rows])
        own_sum = np.stack(
            [np.bincount(mine, weight[rows] * seen.positions[rows, axis]) for axis in range(3)], axis=1
        )
        others = (totals[own] - own_total)[mine]
        known = np.flatnonzero(others > 1e-9 * totals[groups[rows]])
        if not len(known):
            continue
        there = (sums[own] - own_sum)[mine][known] / others[known][:, None]
        residual = there - seen.positions[rows[known]]
        prior = doubt.covariance(rows, rows[known])
        noise = np.diag(variance[rows[known]] + 1.0 / others[known])
        gain = np.linalg.solve(prior[known] + noise, prior.T).T
        shift[rows] = gain @ residual
        explained = np.einsum('ij,ij->i', gain, prior)
        left[rows] = np.sqrt(np.maximum(doubt.sigma_m[rows] ** 2 - explained, 0.0))
    return shift, left
