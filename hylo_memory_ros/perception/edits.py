"""Edits of landmarks by hand: pin, hold, correct, merge, split, delete."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import MemoryItem, MemoryKind, MemoryQuery, Pose
from hylo_memory_ros.perception.ingestion.observation import Message, digest32
from hylo_memory_ros.perception.map.landmark import NEVER, LandmarkEnding, normalize_label
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.port import MemoryPort
from hylo_memory_ros.perception.receipts import Receipt, deletion_receipt, edit_receipt
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.data_association import AssociationResult
from hylo_memory_ros.perception.tracking.fusion import locate_sightings, reestimate
from hylo_memory_ros.perception.tracking.merging import merge_landmarks
from hylo_memory_ros.perception.tracking.sym3 import inverse, times
from hylo_memory_ros.perception.tracking.update import LandmarkUpdater

Rows = NDArray[np.int64]

EditOp = Literal['pin', 'unpin', 'correct', 'split', 'merge', 'attach', 'detach', 'delete']
"""Operations on landmarks."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A request to change landmarks."""

    op: EditOp
    """The operation."""
    keys: Sequence[str]
    """Keys of the landmarks."""
    at_ns: int
    """Time from which the edit holds, nanoseconds."""
    position: tuple[float, float, float] | None = None
    """For ``correct`` and ``detach``: the new position, metres, in the global frame."""
    sigma_m: float = 0.01
    """Standard deviation of the position on each axis, metres."""
    label: str = ''
    """For ``correct``: the new label; empty: unchanged."""
    frame_id: str = ''
    """For ``attach``: frame that the landmark is held in; empty: unknown."""
    actor: str = ''
    """Person or process that requested the edit."""


@dataclass(slots=True)
class Edited:
    """Result of an edit."""

    keys: list[str]
    """Keys of the remaining landmarks: the survivor of a merge, all parts of a split."""
    items: list[MemoryItem] = field(default_factory=list)
    """Statements to be written."""
    endings: list[LandmarkEnding] = field(default_factory=list)
    """Items to be ended."""
    receipts: list[Receipt] = field(default_factory=list)
    """Receipts of the edit."""


def edit(request: Edit, landmarks: LandmarkMap, settings: LandmarkSettings) -> Edited:
    """Apply an edit to the landmarks of a map.

    ``pin`` fixes place and label; ``attach`` marks a thing as held, so that neither detections nor
    misses change it until ``detach``; ``correct`` gives it another place or label; ``merge`` joins
    landmarks into the oldest of them; ``split`` undoes merges, or separates sightings of two places;
    ``delete`` ends a landmark.

    Raises
    ------
    NotFoundError
        If a key names no landmark of the map; nothing is changed then.
    InvalidRequestError
        If the request is inconsistent.
    """
    if request.op not in _OPS:
        raise InvalidRequestError(f'op: expected one of {sorted(_OPS)}, got {request.op!r}', field='op')
    if not request.keys:
        raise InvalidRequestError('keys: expected at least one key, got none', field='keys')
    if len(set(request.keys)) < len(request.keys):
        raise InvalidRequestError(f'keys: expected different keys, got {list(request.keys)}', field='keys')
    rows = [_row_of(key, landmarks) for key in request.keys]
    edited = _OPS[request.op](request, rows, landmarks, settings)
    named = sorted({*request.keys, *edited.keys})
    edited.receipts.append(
        edit_receipt(request.op, named, request.at_ns, landmarks, request.actor, left=edited.keys)
    )
    return edited


def _row_of(key: str, landmarks: LandmarkMap) -> int:
    row = landmarks.row_of(key)
    if row is None or landmarks.state['forgotten_ns'][row] != NEVER:
        raise NotFoundError(f'key: no landmark {key!r} in the map {landmarks.map_id!r}', field='key')
    return row


def _pin(request: Edit, rows: list[int], landmarks: LandmarkMap, _: LandmarkSettings) -> Edited:
    landmarks.state['pinned'][rows] = request.op == 'pin'
    landmarks.state['dirty'][rows] = True
    return Edited(list(request.keys))


def _attach(request: Edit, rows: list[int], landmarks: LandmarkMap, _: LandmarkSettings) -> Edited:
    for row in rows:
        landmarks.hold(row, request.frame_id)
    return Edited(list(request.keys))


def _detach(request: Edit, rows: list[int], landmarks: LandmarkMap, settings: LandmarkSettings) -> Edited:
    if request.position is not None and len(rows) > 1:
        raise InvalidRequestError(f'detach: expected one key with a position, got {len(rows)}', field='keys')
    for row in rows:
        landmarks.let_go(row)
    if request.position is not None:
        return _correct(request, rows, landmarks, settings)
    return Edited(list(request.keys))


def _correct(request: Edit, rows: list[int], landmarks: LandmarkMap, settings: LandmarkSettings) -> Edited:
    if request.position is None and not request.label:
        raise InvalidRequestError('correct: expected a position or a label, got neither', field='pose')
    if len(rows) > 1:
        raise InvalidRequestError(f'correct: expected one key, got {len(rows)}', field='keys')
    state, (row,) = landmarks.state, rows
    if request.label:
        label = normalize_label(request.label)
        if label is None:
            raise InvalidRequestError(f'label: expected a valid label, got {request.label!r}', field='label')
        landmarks.labels[row], landmarks.scores[row] = label, {label: float(settings.confirm_n)}
    if request.position is not None:
        landmarks.restart(row)
        information = np.array([[1.0, 0.0, 0.0, 1.0, 0.0, 1.0]]) / request.sigma_m**2
        position = np.array([request.position])
        state['prior_information'][row] = information
        state['prior_vector'][row] = times(information, position)
        state['mean'][row], state['covariance'][row] = position, inverse(information)
        # A manual correction is confirmed at once and holds from its own time.
        state['n'][row], state['since_ns'][row] = settings.confirm_n, request.at_ns
        state['existence'][row], state['stale'][row] = 0.0, False
        landmarks.place(np.array(rows))
    return Edited(list(request.keys), [_stated(row, request, landmarks, settings)])


def _merge(request: Edit, rows: list[int], landmarks: LandmarkMap, settings: LandmarkSettings) -> Edited:
    if len(rows) < 2:
        raise InvalidRequestError(f'merge: expected two keys or more, got {len(rows)}', field='keys')
    kept, *others = sorted(rows, key=lambda row: int(landmarks.state['number'][row]))
    endings = [merge_landmarks(gone, kept, request.at_ns, landmarks, settings) for gone in others]
    edited = Edited([landmarks.keys[kept]], endings=[ending for ending in endings if ending])
    if landmarks.state['n'][kept] >= settings.confirm_n:
        edited.items.append(_stated(kept, request, landmarks, settings))
    return edited


def _split(request: Edit, rows: list[int], landmarks: LandmarkMap, settings: LandmarkSettings) -> Edited:
    edited = Edited(list(request.keys))
    for row in rows:
        parts = _parts(row, landmarks, settings)
        if not parts:
            raise InvalidRequestError(
                f'split: {landmarks.keys[row]!r} has no sightings that could be separated', field='keys'
            )
        for slots, number in parts:
            edited.keys.append(_part(row, slots, number, request.at_ns, landmarks))
        for key in (landmarks.keys[row], *edited.keys[-len(parts) :]):
            part = landmarks.row_of(key)
            assert part is not None
            reestimate(part, landmarks, settings)
            if landmarks.state['n'][part] >= settings.confirm_n:
                edited.items.append(_stated(part, request, landmarks, settings))
    return edited


def _parts(row: int, landmarks: LandmarkMap, settings: LandmarkSettings) -> list[tuple[Rows, int]]:
    """Return the sightings of each part that is split off, with the number of its landmark; 0: a new one."""
    number = int(landmarks.state['number'][row])
    slots = landmarks.sightings.of(number)
    origin = landmarks.sightings.state['origin'][slots]
    others = sorted(set(origin.tolist()) - {number})
    if others:
        return [(slots[origin == other], other) for other in others]
    if len(slots) < 2:
        return []
    positions, _ = locate_sightings(slots, landmarks, settings)
    if (positions == positions[0]).all():
        return []
    # Start from the two that are furthest apart, so that the result depends on the sightings alone.
    spread = ((positions[:, None] - positions[None]) ** 2).sum(axis=2)
    first, second = np.unravel_index(np.argmax(spread), spread.shape)
    _, side = kmeans2(positions, positions[[first, second]], minit='matrix')
    # The newer part leaves, so that the key stays with the original landmark.
    leaving = side != side[0]
    return [(slots[leaving], 0)] if leaving.any() else []


def _part(row: int, slots: Rows, number: int, at_ns: int, landmarks: LandmarkMap) -> str:
    """Move sightings to the landmark that they began with, or to a new one; return its key."""
    key = landmarks.revived_key(number) if number else None
    if key is None:
        base, count = landmarks.keys[row], 2
        while f'{base}~{count}' in landmarks:
            count += 1
        key = f'{base}~{count}'
    part = landmarks.begin_part(key, row, number)
    state, seen = landmarks.state, landmarks.sightings.state
    landmarks.sightings.give(slots, int(state['number'][part]))
    state['first_ns'][part] = seen['first_ns'][slots].min()
    # The item of a merged landmark was ended, so a restored one holds from now on.
    state['since_ns'][part] = at_ns if number else state['first_ns'][part]
    state['last_ns'][part] = seen['last_ns'][slots].max()
    state['observations'][part] = seen['n'][slots].sum()
    return key


def _delete(request: Edit, rows: list[int], landmarks: LandmarkMap, _: LandmarkSettings) -> Edited:
    edited = Edited([])
    for row in rows:
        written_ns = int(landmarks.state['written_ns'][row])
        if written_ns != NEVER:
            edited.endings.append(
                LandmarkEnding(
                    landmarks.keys[row], max(request.at_ns, written_ns), landmarks.map_id, 'deleted by hand'
                )
            )
        landmarks.forget(row, request.at_ns)
    return edited


def _stated(row: int, request: Edit, landmarks: LandmarkMap, settings: LandmarkSettings) -> MemoryItem:
    return LandmarkUpdater(settings).statement(row, landmarks, source=request.op, stamp_ns=request.at_ns)


_OPS: dict[str, Callable[..., Edited]] = {
    'pin': _pin,
    'unpin': _pin,
    'attach': _attach,
    'detach': _detach,
    'correct': _correct,
    'merge': _merge,
    'split': _split,
    'delete': _delete,
}


def delete(message: Message, landmarks: LandmarkMap) -> AssociationResult:
    """Apply the deletion of a message; return the items that end with it.

    Only instances that this input has begun are deleted; pinned and held ones stay. An instance that is
    added again later begins a new estimate under its name.

    Parameters
    ----------
    message : Message
        A message with a `Deletion`.
    landmarks : LandmarkMap
        Landmarks of the current map.
    """
    deletion = message.deletion
    assert deletion is not None
    state = landmarks.state[: len(landmarks.keys)]
    own = state['live'] & state['has_instance'] & (state['forgotten_ns'] == NEVER)
    own &= (state['source'] == digest32(message.input.encode())) & ~state['pinned'] & ~state['held']
    # A detection newer than the deletion outweighs it.
    own &= state['last_ns'] <= message.stamp_ns
    gone = sorted(
        (row for row in np.flatnonzero(own).tolist() if deletion.covers(landmarks.keys[row])),
        key=landmarks.keys.__getitem__,
    )
    receipts = [deletion_receipt(message, gone, landmarks)] if gone else []
    endings = []
    for row in gone:
        written_ns = int(state['written_ns'][row])
        if written_ns != NEVER:
            endings.append(
                LandmarkEnding(
                    landmarks.keys[row],
                    max(message.stamp_ns, written_ns),
                    landmarks.map_id,
                    f'deleted by {message.input}',
                )
            )
        landmarks.forget(row, message.stamp_ns)
    return AssociationResult(np.zeros(0, dtype=np.int64), (), endings, receipts)


MANUAL_SOURCE = digest32(b'')
"""`source` of a landmark that was written by hand."""


# Written positions are rounded to 1e-6 m, so nearer ones equal the written position.
_SAME_M = 2e-6


def current_item(memory: MemoryPort, key: str, map_id: str) -> MemoryItem | None:
    """Return the current item of a key in a map."""
    return next((hit.item for hit in memory.query(_about(key, map_id, k=1))), None)


def _last(memory: MemoryPort, key: str, map_id: str) -> MemoryItem | None:
    """Return the last item of a key, although it has ended: a merged landmark that is split again."""
    hits = memory.query(_about(key, map_id, k=1000, include_invalidated=True))
    return max((hit.item for hit in hits), key=lambda item: item.valid_from_ns or 0, default=None)


def _about(key: str, map_id: str, **fields: Any) -> MemoryQuery:
    scope = {'map_id': map_id} if map_id else None
    return MemoryQuery(kinds=[MemoryKind.SPATIAL], key=key, scope=scope, include_stale=True, **fields)


def keep_manual_content(
    item: MemoryItem, memory: MemoryPort, landmarks: LandmarkMap, *, relabelled: bool = False
) -> MemoryItem:
    """Return a statement of perception or of an edit that keeps the content of an item written by hand.

    For a landmark that perception began this is the statement itself. For one that was written by hand
    it is the written item at the new place: content, payload and all other fields are kept.

    Parameters
    ----------
    item : MemoryItem
        The statement.
    memory : MemoryPort
        Source of the written item.
    landmarks : LandmarkMap
        Landmarks of the map.
    relabelled : bool
        Whether the label was changed by hand and replaces the written one.
    """
    row = None if item.key is None else landmarks.row_of(item.key)
    if row is None or landmarks.state['source'][row] != MANUAL_SOURCE:
        return item
    written = current_item(memory, str(item.key), landmarks.map_id) or _last(
        memory, str(item.key), landmarks.map_id
    )
    if written is None or written.pose is None or item.pose is None or _is_own(written):
        return item
    changed: dict[str, Any] = {
        'pose': _placed(written.pose, item.pose),
        'valid_from_ns': item.valid_from_ns,
        'valid_from_assumed': False,
        'id': None,
    }
    if relabelled and item.label != written.label:
        changed['label'] = item.label
        if written.content == written.label:
            changed['content'] = item.label
    return written.model_copy(update=changed)


def _placed(written: Pose, given: Pose) -> Pose:
    if math.dist(written.position, given.position) <= _SAME_M:
        return written
    place: dict[str, Any] = {'position': given.position, 'covariance': given.covariance}
    if given.orientation is not None:
        place['orientation'] = given.orientation
    if written.stamp_ns is not None:
        place['stamp_ns'] = given.stamp_ns
    return written.model_copy(update=place)


def _is_own(item: MemoryItem) -> bool:
    return item.source.startswith('hylo_memory_ros/')
