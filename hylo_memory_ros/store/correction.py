"""Corrections: a map moved under what was remembered, which changes belief and not the world.

What every assertion of the map says is put where it belongs now, closed and hidden ones too, so
that whatever is written later still meets a timeline that follows from its points. Coordinates
before are kept, and a reversal puts those back: no inverse motion gives the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.identity import statement_of
from hylo_memory_ros.model import MemoryItem, MemoryKind, Pose
from hylo_memory_ros.store.database import insert_rows
from hylo_memory_ros.store.landmark import landmark
from hylo_memory_ros.store.rows import ITEM_COLUMNS, item_of, spatial_row
from hylo_memory_ros.store.schema import assertion, corrected, correction, identity, spatial, version
from hylo_memory_ros.store.timeline import span_at
from hylo_memory_ros.store.timelines import Evidence, Timelines, effective, says_now
from hylo_memory_ros.store.transaction import Transaction, chunks

__all__ = [
    'Edit',
    'Moved',
    'Placed',
    'Reversal',
    'Stored',
    'correct_assertions',
    'corrected_among',
    'details_of',
    'is_newest',
    'keep_undo',
    'repeat_corrections',
    'revert',
    'stored_correction',
]


class Placed(NamedTuple):
    """A statement that has a place, as a correction sees it."""

    key: str | None
    kind: str
    valid_from_ns: int
    pose: Pose


class Stored(NamedTuple):
    """A correction that was made."""

    sequence: int
    correction_id: str
    map_id: str
    frame_id: str
    kind: str
    reverts: int | None
    undo: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """What one correction does to the statements of a map."""

    map_id: str
    """The map."""
    frame_id: str
    """Only poses in this frame move."""
    kind: str
    """``rigid`` or ``path``."""
    detail: Mapping[str, Any]
    """What was asked for."""
    move: Callable[[Sequence[Placed]], Sequence[Pose]]
    """Gives each statement its new pose."""
    merged: frozenset[str] = frozenset()
    """Keys that say nothing any more: another landmark speaks for them."""
    items: Sequence[MemoryItem] = ()
    """Statements that it brings, such as those of landmarks that were split off."""
    merges: int = 0
    """How many landmarks proved to be others, those that nothing was said of too."""
    splits: int = 0
    """How many landmarks were begun."""
    within: Callable[[sa.Connection, int], None] | None = None
    """Stores side tables in the same transaction."""


@dataclass(frozen=True, slots=True, eq=False)
class Reversal:
    """What takes a correction back."""

    former: Stored
    """The correction."""
    kept_keys: frozenset[str] = frozenset()
    """Landmarks that stay as they are, those that it began too."""
    within: Callable[[sa.Connection, int], None] | None = None
    """Stores side tables in the same transaction."""
    remark: str = ''
    """What there is to say of it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What a correction or its reversal changed."""

    correction_id: str
    moved: int = 0
    """Versions with another pose."""
    merged: int = 0
    """Keys that say nothing any more."""
    split: int = 0
    """Keys that were begun."""
    remark: str = ''
    """What there is to say of it."""


class _Says(NamedTuple):
    """What an assertion says from now on."""

    content: bytes | None
    """None: nothing."""
    element: bytes | None
    spatial_id: int | None
    correction_seq: int | None
    """Whose pose it is; None: what was first asserted."""


class _Change(NamedTuple):
    """One assertion that says something else from now on."""

    assertion_id: int
    identity_id: int
    id: str
    was_corrected: bool
    says: _Says


class _Entry(NamedTuple):
    """An assertion that a correction may move."""

    assertion_id: int
    identity_id: int
    was_corrected: bool
    item: MemoryItem

    def saying(self, says: _Says) -> _Change:
        return _Change(self.assertion_id, self.identity_id, str(self.item.id), self.was_corrected, says)


def correct_assertions(txn: Transaction, edit: Edit, identity_scope: Sequence[str]) -> Moved:
    """Put all that was asserted in a map where it belongs now, in one recorded event.

    Each version moves as a whole: who repeated a statement moves with the one that speaks for it,
    so that every interval stays what it was.
    """
    correction_id = _begin(txn, edit.map_id, edit.frame_id, edit.kind, edit.detail)
    entries = {entry.assertion_id: entry for entry in _entries(txn.connection, edit)}
    timelines = Timelines(txn)
    timelines.load({entry.identity_id: 0 for entry in entries.values()})
    gone = {number: entry for number, entry in entries.items() if _is_merged(entry.item, edit)}
    staying = {number: entry for number, entry in entries.items() if number not in gone}
    changes = [entry.saying(_Says(None, None, None, txn.sequence)) for entry in gone.values()]
    changes += _moved(txn, edit, staying, timelines, identity_scope)
    moved = _apply(txn, timelines, changes)
    names = {entry.item.key: str(entry.item.id) for entry in gone.values()}
    for key, item_id in names.items():
        txn.note(item_id, key, 'MERGE')
    return Moved(correction_id, moved, max(edit.merges, len(names)), edit.splits)


def revert(txn: Transaction, reversal: Reversal) -> Moved:
    """Put back the coordinates that a correction replaced, where they were not replaced again.

    Landmarks that it began say nothing from now on, but for those that stay.
    """
    former = reversal.former
    detail = {'correction_id': former.correction_id}
    correction_id = _begin(txn, former.map_id, former.frame_id, 'reversal', detail, former.sequence)
    found = txn.connection.execute(_made_by, {'seq': former.sequence}).all()
    rows = [row for row in found if row.to_seq is None and row.key not in reversal.kept_keys]
    before = {
        row.assertion_id: _Says(*row[1:])
        for part in chunks(row.assertion_id for row in rows)
        for row in txn.connection.execute(_said_before, {'ids': part, 'seq': former.sequence})
    }
    changes = [
        _Change(
            row.assertion_id,
            row.identity_id,
            row.id,
            True,
            before.get(row.assertion_id) or _Says(row.content_digest, row.element, row.spatial_id, None),
        )
        for row in rows
    ]
    begun = [
        row
        for row in txn.connection.execute(_begun_by, {'seq': former.sequence})
        if row.key not in reversal.kept_keys
    ]
    nothing = _Says(None, None, None, txn.sequence)
    changes += [
        _Change(row.assertion_id, row.identity_id, row.id, bool(row.was_corrected), nothing) for row in begun
    ]
    timelines = Timelines(txn)
    timelines.load({change.identity_id: 0 for change in changes})
    moved = _apply(txn, timelines, changes)
    for row in begun:
        txn.note(row.id, row.key, 'RETRACT')
    again = {row.assertion_id for row in found if row.to_seq is None}
    left = len({row.assertion_id for row in found}) - len(again)
    remarks = [reversal.remark] if reversal.remark else []
    if left:
        remarks.append(f'{left} statements were moved again since, and stay where that put them')
    return Moved(correction_id, moved, remark='; '.join(remarks))


def repeat_corrections(txn: Transaction, repeated: Mapping[int, int]) -> None:
    """Let repeated statements say what those say that they repeat, corrections of the past included.

    Parameters
    ----------
    repeated : mapping of int to int
        The assertion that was corrected, by the new one.
    """
    rows = []
    for assertion_id, like in repeated.items():
        said = txn.connection.execute(_all_of, {'id': like}).mappings()
        rows += [{**row, 'assertion_id': assertion_id} for row in said]
    insert_rows(txn.connection, corrected, rows)


def corrected_among(connection: sa.Connection, assertion_ids: Collection[int]) -> set[int]:
    """Return which assertions say something else than what was first asserted."""
    found: set[int] = set()
    for part in chunks(assertion_ids):
        found.update(connection.execute(_are_corrected, {'ids': part}).scalars())
    return found


def keep_undo(connection: sa.Connection, sequence: int, undo: bytes, after: bytes, most: int) -> None:
    """Keep the landmark state before a correction, and let those of older ones go.

    Parameters
    ----------
    undo, after : bytes
        The state before, and a digest of the state that the correction left.
    most : int
        How many are kept.
    """
    connection.execute(_keep_undo, {'seq': sequence, 'undo_': undo, 'after_': after})
    connection.execute(_expire_undo, {'most': most})


def stored_correction(connection: sa.Connection, correction_id: str) -> Stored:
    """Return a correction that can be taken back.

    Raises
    ------
    NotFoundError
        There is none of this name.
    InvalidRequestError
        It is a reversal itself, or was taken back before.
    """
    row = connection.execute(_stored, {'name': correction_id}).one_or_none()
    if row is None:
        raise NotFoundError(f'revert_id: {correction_id!r} names no correction', field='revert_id')
    if row.reverts is not None:
        raise InvalidRequestError(
            f'revert_id: {correction_id!r} is a reversal; make the correction again instead',
            field='revert_id',
        )
    if (by := connection.execute(_reverted, {'seq': row.sequence}).scalar()) is not None:
        raise InvalidRequestError(
            f'revert_id: {correction_id!r} was taken back before, by {by!r}', field='revert_id'
        )
    return Stored(*row)


def is_newest(connection: sa.Connection, former: Stored) -> bool:
    """Return whether no later correction of the map still stands."""
    return connection.execute(_standing, {'map': former.map_id, 'seq': former.sequence}).first() is None


def details_of(connection: sa.Connection, map_id: str, kind: str) -> list[dict[str, Any]]:
    """Return what was asked for by the corrections of a map that were not taken back, in their order."""
    rows = connection.execute(_details, {'map': map_id, 'kind': kind}).scalars()
    return [json.loads(row) for row in rows]


def _begin(
    txn: Transaction,
    map_id: str,
    frame_id: str,
    kind: str,
    detail: Mapping[str, Any],
    reverts: int | None = None,
) -> str:
    text = json.dumps(detail, sort_keys=True)
    named = f'{txn.sequence} {txn.recorded_at_ns} {map_id} {kind} {text}'
    correction_id = f'correction/{sha256(named.encode()).hexdigest()[:16]}'
    row = {
        'sequence': txn.sequence,
        'correction_id': correction_id,
        'map_id': map_id,
        'frame_id': frame_id,
        'kind': kind,
        'detail': text,
        'reverts': reverts,
        'undo': None,
        'after': None,
    }
    txn.connection.execute(correction.insert(), row)
    return correction_id


def _is_merged(item: MemoryItem, edit: Edit) -> bool:
    return item.kind is MemoryKind.SPATIAL and item.key in edit.merged


def _entries(connection: sa.Connection, edit: Edit) -> list[_Entry]:
    rows = connection.execute(_assertions, {'map': edit.map_id, 'frame': edit.frame_id})
    return [
        _Entry(row.assertion_id, row.identity_id, bool(row.was_corrected), item_of(row[:_WIDTH]))
        for row in rows
    ]


def _speakers(entries: Mapping[int, _Entry], timelines: Timelines) -> dict[int, int]:
    """Return who speaks for each assertion: itself when it is hidden."""
    speakers = {number: number for number in entries}
    for identity_id in {entry.identity_id for entry in entries.values()}:
        held = timelines[identity_id]
        spans = held.spans()
        for point in held.points:
            if point.assertion_id not in entries:
                continue
            span = span_at(spans, point.valid_from_ns)
            if span is not None and span.content == point.content:
                speakers[point.assertion_id] = span.assertion_id
    return speakers


def _moved(
    txn: Transaction,
    edit: Edit,
    entries: Mapping[int, _Entry],
    timelines: Timelines,
    identity_scope: Sequence[str],
) -> list[_Change]:
    speakers = _speakers(entries, timelines)
    speaking = sorted(set(speakers.values()))
    poses = dict(zip(speaking, edit.move([_placed(entries[one].item) for one in speaking]), strict=True))
    changes: list[_Change] = []
    places: list[dict[str, Any]] = []
    for number, entry in entries.items():
        assert entry.item.pose is not None
        pose = poses[speakers[number]].model_copy(update={'stamp_ns': entry.item.pose.stamp_ns})
        if pose == entry.item.pose:
            continue
        statement = statement_of(entry.item.model_copy(update={'pose': pose}), identity_scope)
        spatial_id = txn.next_id('spatial')
        places.append({'spatial_id': spatial_id, **spatial_row(pose, edit.map_id)})
        changes.append(entry.saying(_Says(statement.content, statement.element, spatial_id, txn.sequence)))
    insert_rows(txn.connection, spatial, places)
    return changes


def _placed(item: MemoryItem) -> Placed:
    assert item.pose is not None
    assert item.valid_from_ns is not None
    return Placed(item.key, item.kind.value, item.valid_from_ns, item.pose)


def _apply(txn: Transaction, timelines: Timelines, changes: Sequence[_Change]) -> int:
    """Store what assertions say from now on, and the versions that follow; return how many are new."""
    connection, sequence = txn.connection, txn.sequence
    ended = [{'id': change.assertion_id, 'end': sequence} for change in changes if change.was_corrected]
    if ended:
        connection.execute(_end_said, ended)
    begun = [
        {
            'assertion_id': change.assertion_id,
            'from_seq': sequence,
            'to_seq': None,
            'correction_seq': change.says.correction_seq,
            'content_digest': change.says.content,
            'element': change.says.element,
            'spatial_id': change.says.spatial_id,
        }
        for change in changes
        if change.says.correction_seq is not None
    ]
    insert_rows(connection, corrected, begun)
    by_identity: dict[int, list[_Change]] = {}
    for change in changes:
        by_identity.setdefault(change.identity_id, []).append(change)
    for identity_id, those in by_identity.items():
        timelines.correct(identity_id, {change.assertion_id: _evidence(change) for change in those})
    timelines.save()
    for row in txn.added:
        txn.note(timelines.evidence[row.assertion_id].id, timelines[row.identity_id].key, 'CORRECT')
    return len(txn.added)


def _evidence(change: _Change) -> tuple[bytes, Evidence] | None:
    if change.says.content is None or change.says.element is None:
        return None
    return change.says.content, Evidence(change.id, change.says.element, change.says.spatial_id)


# The columns of an item, of an assertion instead of a version.
_OF_ASSERTION: Mapping[str, Any] = {
    'version_row': assertion.c.assertion_id,
    'valid_from_ns': assertion.c.valid_from_ns,
    'from_seq': assertion.c.sequence,
    'kind': identity.c.kind,
}
_COLUMNS = [
    _OF_ASSERTION.get(column.name, sa.null()) if column.table is version
    else sa.null() if column.table is landmark
    else column
    for column in ITEM_COLUMNS
]  # fmt: skip
_WIDTH = len(ITEM_COLUMNS)
_place = sa.case(
    (corrected.c.assertion_id.is_not(None), corrected.c.spatial_id), else_=assertion.c.spatial_id
)
_assertions = (
    sa.select(
        *(column.label(f'c{place}') for place, column in enumerate(_COLUMNS)),
        assertion.c.assertion_id,
        assertion.c.identity_id,
        corrected.c.assertion_id.is_not(None).label('was_corrected'),
    )
    .select_from(
        assertion.join(identity, identity.c.identity_id == assertion.c.identity_id)
        .outerjoin(corrected, says_now)
        .join(spatial, spatial.c.spatial_id == effective('spatial_id').element)
    )
    .where(
        assertion.c.map_id == sa.bindparam('map'),
        spatial.c.frame_id == sa.bindparam('frame'),
        assertion.c.withdrawn_seq.is_(None),
    )
    .order_by(assertion.c.assertion_id)
)
_made_by = (
    sa.select(
        corrected.c.to_seq,
        assertion.c.assertion_id,
        assertion.c.identity_id,
        assertion.c.id,
        assertion.c.content_digest,
        assertion.c.element,
        assertion.c.spatial_id,
        identity.c.key,
    )
    .join(assertion, assertion.c.assertion_id == corrected.c.assertion_id)
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .where(
        corrected.c.correction_seq == sa.bindparam('seq'),
        assertion.c.withdrawn_seq.is_(None),
    )
    .order_by(assertion.c.assertion_id)
)
_said_before = sa.select(
    corrected.c.assertion_id,
    corrected.c.content_digest,
    corrected.c.element,
    corrected.c.spatial_id,
    corrected.c.correction_seq,
).where(
    corrected.c.assertion_id.in_(sa.bindparam('ids', expanding=True)),
    corrected.c.to_seq == sa.bindparam('seq'),
)
_begun_by = (
    sa.select(
        assertion.c.assertion_id,
        assertion.c.identity_id,
        assertion.c.id,
        identity.c.key,
        corrected.c.assertion_id.is_not(None).label('was_corrected'),
    )
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .outerjoin(corrected, says_now)
    .where(assertion.c.sequence == sa.bindparam('seq'), assertion.c.withdrawn_seq.is_(None))
)
_all_of = sa.select(corrected).where(corrected.c.assertion_id == sa.bindparam('id'))
_keep_undo = (
    correction.update()
    .where(correction.c.sequence == sa.bindparam('seq'))
    .values(undo=sa.bindparam('undo_'), after=sa.bindparam('after_'))
)
_newest = (
    sa.select(correction.c.sequence)
    .where(correction.c.undo.is_not(None))
    .order_by(correction.c.sequence.desc())
    .limit(sa.bindparam('most', type_=sa.Integer))
)
_expire_undo = correction.update().where(correction.c.sequence.not_in(_newest)).values(undo=None)
_are_corrected = sa.select(corrected.c.assertion_id).where(
    corrected.c.assertion_id.in_(sa.bindparam('ids', expanding=True)), corrected.c.to_seq.is_(None)
)
_end_said = (
    corrected.update()
    .where(corrected.c.assertion_id == sa.bindparam('id'), corrected.c.to_seq.is_(None))
    .values(to_seq=sa.bindparam('end'))
)
_stored = sa.select(*(correction.c[name] for name in Stored._fields)).where(
    correction.c.correction_id == sa.bindparam('name')
)
_later = correction.alias('later')
_details = (
    sa.select(correction.c.detail)
    .outerjoin(_later, _later.c.reverts == correction.c.sequence)
    .where(
        correction.c.map_id == sa.bindparam('map'),
        correction.c.kind == sa.bindparam('kind'),
        _later.c.sequence.is_(None),
    )
    .order_by(correction.c.sequence)
)
_standing = (
    sa.select(correction.c.sequence)
    .outerjoin(_later, _later.c.reverts == correction.c.sequence)
    .where(
        correction.c.map_id == sa.bindparam('map'),
        correction.c.sequence > sa.bindparam('seq'),
        correction.c.reverts.is_(None),
        _later.c.sequence.is_(None),
    )
)
_reverted = sa.select(correction.c.correction_id).where(correction.c.reverts == sa.bindparam('seq'))
