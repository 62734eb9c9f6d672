"""What people change of landmarks by hand: pinned, held, corrected, merged, split, deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import MemoryItem, Pose
from hylo_memory_ros.model.pose import MAX_COORDINATE_M
from hylo_memory_ros.perception.corrections.trajectory import Correction
from hylo_memory_ros.perception.existence.receipts import deletion_receipt
from hylo_memory_ros.perception.ingestion.observation import Message, digest32
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.landmark import sound_label
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.receipts import Receipt, edit_receipt
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.data_association import Ending, Outcome
from hylo_memory_ros.perception.tracking.fusion import located, refuse
from hylo_memory_ros.perception.tracking.merging import join
from hylo_memory_ros.perception.tracking.sym3 import inverse, times
from hylo_memory_ros.perception.tracking.update import Update
from hylo_memory_ros.storage.corrections.apply import Placed
from hylo_memory_ros.transforms import Transform
from hylo_memory_ros.transforms.geometry import Quaternion, Vector

__all__ = ['Edit', 'EditOp', 'Edited', 'delete', 'edit', 'moved_poses']

Rows = NDArray[np.int64]

EditOp = Literal['pin', 'unpin', 'correct', 'split', 'merge', 'attach', 'detach', 'delete']
"""What can be done to landmarks by hand."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A request to change landmarks."""

    op: EditOp
    """What to do."""
    keys: Sequence[str]
    """Keys of the landmarks."""
    at_ns: int
    """When it was so, nanoseconds."""
    position: tuple[float, float, float] | None = None
    """For ``correct`` and ``detach``: where it is, metres, in the global frame."""
    sigma_m: float = 0.01
    """How sure that is: standard deviation on each axis, metres."""
    label: str = ''
    """For ``correct``: its class; empty: as it was."""
    frame_id: str = ''
    """For ``attach``: frame that it is held in; empty: unknown."""
    actor: str = ''
    """Who asked."""


@dataclass(slots=True)
class Edited:
    """What an edit did."""

    keys: list[str]
    """Landmarks that it left: of a merge the one that remains, of a split all parts."""
    items: list[MemoryItem] = field(default_factory=list)
    """Statements to be written."""
    endings: list[Ending] = field(default_factory=list)
    """Items to be ended."""
    receipts: list[Receipt] = field(default_factory=list)
    """The receipt of it."""


def edit(request: Edit, book: LandmarkMap, settings: LandmarkSettings) -> Edited:
    """Change landmarks of a map as asked.

    ``pin`` fixes place and label; ``attach`` says that a thing is held, so that neither what is
    seen nor what is not seen changes it, until ``detach``; ``correct`` puts it elsewhere, or
    gives it another label; ``merge`` says that all are one, of which the oldest remains; ``split``
    undoes merges, or parts what was seen in two places; ``delete`` ends it.

    Raises
    ------
    NotFoundError
        If a key is that of no landmark of the map; nothing is changed then.
    InvalidRequestError
        If the request has no meaning.
    """
    if request.op not in _OPS:
        raise InvalidRequestError(f'op: {request.op!r} is none of {sorted(_OPS)}', field='op')
    if not request.keys:
        raise InvalidRequestError('keys: none are given', field='keys')
    if len(set(request.keys)) < len(request.keys):
        raise InvalidRequestError(f'keys: one is given twice in {list(request.keys)}', field='keys')
    rows = [_row_of(key, book) for key in request.keys]
    edited = _OPS[request.op](request, rows, book, settings)
    named = sorted({*request.keys, *edited.keys})
    edited.receipts.append(
        edit_receipt(request.op, named, request.at_ns, book, request.actor, left=edited.keys)
    )
    return edited


def _row_of(key: str, book: LandmarkMap) -> int:
    row = book.row_of(key)
    if row is None or book.state['forgotten_ns'][row] != NEVER:
        raise NotFoundError(f'key: there is no landmark {key!r} in the map {book.map_id!r}', field='key')
    return row


def _pin(request: Edit, rows: list[int], book: LandmarkMap, _: LandmarkSettings) -> Edited:
    book.state['pinned'][rows] = request.op == 'pin'
    book.state['dirty'][rows] = True
    return Edited(list(request.keys))


def _attach(request: Edit, rows: list[int], book: LandmarkMap, _: LandmarkSettings) -> Edited:
    for row in rows:
        book.hold(row, request.frame_id)
    return Edited(list(request.keys))


def _detach(request: Edit, rows: list[int], book: LandmarkMap, settings: LandmarkSettings) -> Edited:
    if request.position is not None and len(rows) > 1:
        raise InvalidRequestError(
            f'detach: {len(rows)} keys are given with a place, it takes one', field='keys'
        )
    for row in rows:
        book.let_go(row)
    if request.position is not None:
        return _correct(request, rows, book, settings)
    return Edited(list(request.keys))


def _correct(request: Edit, rows: list[int], book: LandmarkMap, settings: LandmarkSettings) -> Edited:
    if request.position is None and not request.label:
        raise InvalidRequestError('correct: neither a position nor a label is given', field='pose')
    if len(rows) > 1:
        raise InvalidRequestError(f'correct: {len(rows)} keys are given, it takes one', field='keys')
    state, (row,) = book.state, rows
    if request.label:
        label = sound_label(request.label)
        if label is None:
            raise InvalidRequestError(f'label: {request.label!r} is none', field='label')
        book.labels[row], book.scores[row] = label, {label: float(settings.confirm_n)}
    if request.position is not None:
        book.restart(row)
        information = np.array([[1.0, 0.0, 0.0, 1.0, 0.0, 1.0]]) / request.sigma_m**2
        position = np.array([request.position])
        state['prior_information'][row] = information
        state['prior_vector'][row] = times(information, position)
        state['mean'][row], state['covariance'][row] = position, inverse(information)
        # What somebody says is confirmed, and holds from when it was said.
        state['n'][row], state['since_ns'][row] = settings.confirm_n, request.at_ns
        state['existence'][row], state['stale'][row] = 0.0, False
        book.place(np.array(rows))
    return Edited(list(request.keys), [_stated(row, request, book, settings)])


def _merge(request: Edit, rows: list[int], book: LandmarkMap, settings: LandmarkSettings) -> Edited:
    if len(rows) < 2:
        raise InvalidRequestError('merge: it takes two keys or more', field='keys')
    kept, *others = sorted(rows, key=lambda row: int(book.state['number'][row]))
    endings = [join(gone, kept, request.at_ns, book, settings) for gone in others]
    edited = Edited([book.keys[kept]], endings=[ending for ending in endings if ending])
    if book.state['n'][kept] >= settings.confirm_n:
        edited.items.append(_stated(kept, request, book, settings))
    return edited


def _split(request: Edit, rows: list[int], book: LandmarkMap, settings: LandmarkSettings) -> Edited:
    edited = Edited(list(request.keys))
    for row in rows:
        parts = _parts(row, book, settings)
        if not parts:
            raise InvalidRequestError(
                f'split: of {book.keys[row]!r} nothing is kept that could be parted', field='keys'
            )
        for slots, number in parts:
            edited.keys.append(_part(row, slots, number, request.at_ns, book))
        for key in (book.keys[row], *edited.keys[-len(parts) :]):
            part = book.row_of(key)
            assert part is not None
            refuse(part, book, settings)
            if book.state['n'][part] >= settings.confirm_n:
                edited.items.append(_stated(part, request, book, settings))
    return edited


def _parts(row: int, book: LandmarkMap, settings: LandmarkSettings) -> list[tuple[Rows, int]]:
    """Return the sightings that become another landmark each, and its number; 0: a new one."""
    number = int(book.state['number'][row])
    slots = book.sightings.of(number)
    origin = book.sightings.state['origin'][slots]
    others = sorted(set(origin.tolist()) - {number})
    if others:
        return [(slots[origin == other], other) for other in others]
    if len(slots) < 2:
        return []
    positions, _ = located(slots, book, settings)
    if (positions == positions[0]).all():
        return []
    # From the two that are furthest apart, so that the outcome follows from the sightings alone.
    spread = ((positions[:, None] - positions[None]) ** 2).sum(axis=2)
    first, second = np.unravel_index(np.argmax(spread), spread.shape)
    _, side = kmeans2(positions, positions[[first, second]], minit='matrix')
    # The newer part leaves: the key stays with what was there first.
    leaving = side != side[0]
    return [(slots[leaving], 0)] if leaving.any() else []


def _part(row: int, slots: Rows, number: int, at_ns: int, book: LandmarkMap) -> str:
    """Give sightings to the landmark that they were first given to, or to a new one; return its key."""
    key = book.revived_key(number) if number else None
    if key is None:
        base, count = book.keys[row], 2
        while f'{base}~{count}' in book:
            count += 1
        key = f'{base}~{count}'
    part = book.begin_part(key, row, number)
    state, seen = book.state, book.sightings.state
    book.sightings.give(slots, int(state['number'][part]))
    state['first_ns'][part] = seen['first_ns'][slots].min()
    # The item of what had been merged was ended: what holds again holds from now on.
    state['since_ns'][part] = at_ns if number else state['first_ns'][part]
    state['last_ns'][part] = seen['last_ns'][slots].max()
    state['observations'][part] = seen['n'][slots].sum()
    return key


def _delete(request: Edit, rows: list[int], book: LandmarkMap, _: LandmarkSettings) -> Edited:
    edited = Edited([])
    for row in rows:
        written_ns = int(book.state['written_ns'][row])
        if written_ns != NEVER:
            edited.endings.append(Ending(book.keys[row], max(request.at_ns, written_ns), 'deleted by hand'))
        book.forget(row, request.at_ns)
    return edited


def _stated(row: int, request: Edit, book: LandmarkMap, settings: LandmarkSettings) -> MemoryItem:
    return Update(settings).statement(row, book, source=request.op, stamp_ns=request.at_ns)


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


def moved_poses(placed: Sequence[Placed], correction: Correction) -> list[Pose]:
    """Return the new pose of each statement, moved as the global frame was at its stamp.

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


def _moved(one: Placed, position: Vector, rotation: Quaternion) -> Pose:
    pose = one.pose
    if not max(map(abs, position)) <= MAX_COORDINATE_M:
        raise InvalidRequestError(
            f'new_from_old: moves {one.key or one.kind!r} from {pose.position} to {position}, '
            'which is no coordinate',
            field='new_from_old',
        )
    values: dict[str, Any] = {'frame_id': pose.frame_id, 'position': position, 'stamp_ns': pose.stamp_ns}
    if pose.orientation is not None or pose.covariance is not None:
        new_from_old = Transform((0.0, 0.0, 0.0), rotation)
        values['orientation'] = pose.orientation and new_from_old.orientation(pose.orientation)
        values['covariance'] = pose.covariance and new_from_old.covariance(pose.covariance)
    return Pose(**values)


def _stamp(one: Placed) -> int:
    return one.valid_from_ns if one.pose.stamp_ns is None else one.pose.stamp_ns


def delete(message: Message, book: LandmarkMap) -> Outcome:
    """Let go what a message says is gone; return the items that end with it.

    Only things that this input has begun, and named, are concerned; those that are pinned or held
    stay. What is added again later begins anew under its name.

    Parameters
    ----------
    message : Message
        One with a `Deletion`.
    book : LandmarkMap
        The landmarks of the current map.
    """
    deletion = message.deletion
    assert deletion is not None
    state = book.state[: len(book.keys)]
    own = state['live'] & state['has_instance'] & (state['forgotten_ns'] == NEVER)
    own &= (state['source'] == digest32(message.input.encode())) & ~state['pinned'] & ~state['held']
    # What was seen later than it was said to be gone is there.
    own &= state['last_ns'] <= message.stamp_ns
    gone = sorted(
        (row for row in np.flatnonzero(own).tolist() if deletion.covers(book.keys[row])),
        key=book.keys.__getitem__,
    )
    receipts = [deletion_receipt(message, gone, book)] if gone else []
    endings = []
    for row in gone:
        written_ns = int(state['written_ns'][row])
        if written_ns != NEVER:
            endings.append(
                Ending(book.keys[row], max(message.stamp_ns, written_ns), f'deleted by {message.input}')
            )
        book.forget(row, message.stamp_ns)
    return Outcome(np.zeros(0, dtype=np.int64), (), endings, receipts)
