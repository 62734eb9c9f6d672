"""Map corrections in the tables: application, reversal, and the landmark state that undoes them.

All assertions of the map are moved, closed and hidden ones too, so that later statements still meet
a timeline that follows from its points. The former coordinates are kept, and a reversal restores
those: an inverse motion would not give the same bits.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.identity import statement_of
from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import MemoryItem, MemoryKind, Pose
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.engine.database import chunks, insert_rows
from hylo_memory_ros.storage.schema import (
    assertion,
    corrected,
    correction,
    identity,
    keyframe,
    landmark,
    sighting,
    spatial,
)
from hylo_memory_ros.storage.statements.corrected_statements import (
    CorrectedStatement,
    CorrectedVersions,
    restate,
)
from hylo_memory_ros.storage.statements.mapper import effective, says_now, spatial_row
from hylo_memory_ros.storage.statements.merged_statements import load_statements
from hylo_memory_ros.storage.statements.timeline_repository import Timelines
from hylo_memory_ros.storage.statements.writer import StatementWriter


class PlacedStatement(NamedTuple):
    """A statement with a pose."""

    key: str | None
    """Key of its item."""
    kind: str
    """Kind of its item."""
    valid_from_ns: int
    """Start of its validity, nanoseconds."""
    pose: Pose
    """Its pose."""


@dataclass(frozen=True, slots=True, eq=False)
class CorrectionPlan:
    """Changes that one correction makes to the statements of a map."""

    map_id: str
    """The map."""
    frame_id: str
    """Only poses in this frame move."""
    kind: str
    """``rigid`` or ``path``."""
    detail: Mapping[str, Any]
    """The request, JSON."""
    move: Callable[[Sequence[PlacedStatement]], Sequence[Pose]]
    """Returns the new pose of each statement."""
    merged: frozenset[str] = frozenset()
    """Keys of landmarks that were merged into others."""
    items: Sequence[MemoryItem] = ()
    """New statements, such as those of landmarks that were split off."""
    merges: int = 0
    """Number of merged landmarks, unwritten ones included."""
    splits: int = 0
    """Number of landmarks that were begun."""


class StoredCorrection(NamedTuple):
    """Record of a correction."""

    sequence: int
    correction_id: str
    map_id: str
    frame_id: str
    kind: str
    reverts: int | None
    undo: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class ReversalPlan:
    """Reversal of a correction."""

    former: StoredCorrection
    """The correction."""
    kept_keys: frozenset[str] = frozenset()
    """Keys of landmarks that stay unchanged, including those that the correction began."""
    remark: str = ''
    """Remark for the caller."""


@dataclass(frozen=True, slots=True)
class CorrectionSummary:
    """Changes that a correction or its reversal made."""

    correction_id: str
    moved: int = 0
    """Versions with another pose."""
    merged: int = 0
    """Keys that were merged into others."""
    split: int = 0
    """Keys that were begun."""
    remark: str = ''
    """Remark for the caller."""


class _Entry(NamedTuple):
    """An assertion that a correction may move."""

    assertion_id: int
    identity_id: int
    was_corrected: bool
    item: MemoryItem

    def corrected(self, statement: CorrectedStatement) -> CorrectedVersions:
        return CorrectedVersions(
            self.assertion_id, self.identity_id, str(self.item.id), self.was_corrected, statement
        )


def correct_assertions(txn: Changeset, plan: CorrectionPlan) -> tuple[int, int]:
    """Move all assertions of a map; return the number of moved versions and of merged keys.

    Each version moves as a whole: a repeated statement moves with the one that it repeats, so that
    every interval stays the same.
    """
    txn.archive.restore_map(plan.map_id)
    entries = {entry.assertion_id: entry for entry in _entries(txn.connection, plan)}
    timelines = Timelines(txn)
    timelines.load({entry.identity_id: 0 for entry in entries.values()})
    gone = {number: entry for number, entry in entries.items() if _is_merged(entry.item, plan)}
    staying = {number: entry for number, entry in entries.items() if number not in gone}
    changes = [entry.corrected(CorrectedStatement(None, None, None, txn.sequence)) for entry in gone.values()]
    changes += _moved(txn, plan, staying, timelines)
    moved = restate(txn, timelines, changes)
    names = {entry.item.key: str(entry.item.id) for entry in gone.values()}
    for key, item_id in names.items():
        txn.note(item_id, key, 'MERGE')
    return moved, len(names)


def _is_merged(item: MemoryItem, plan: CorrectionPlan) -> bool:
    return item.kind is MemoryKind.SPATIAL and item.key in plan.merged


def _entries(connection: sa.Connection, plan: CorrectionPlan) -> list[_Entry]:
    rows = connection.execute(_assertions, {'map': plan.map_id, 'frame': plan.frame_id}).all()
    items = load_statements(connection, [row.assertion_id for row in rows])
    return [
        _Entry(row.assertion_id, row.identity_id, bool(row.was_corrected), items[row.assertion_id])
        for row in rows
    ]


def _repeated(entries: Mapping[int, _Entry], timelines: Timelines) -> dict[int, int]:
    """Return the assertion whose statement each one repeats: itself when it is hidden."""
    repeated = {number: number for number in entries}
    for identity_id in {entry.identity_id for entry in entries.values()}:
        held = timelines[identity_id]
        for span, numbers in held.runs():
            repeated.update(dict.fromkeys(entries.keys() & set(numbers), span.assertion_id))
        repeated.update({merge.assertion_id: base for base, merge in held.merges.items()})
    return repeated


def _moved(
    txn: Changeset,
    plan: CorrectionPlan,
    entries: Mapping[int, _Entry],
    timelines: Timelines,
) -> list[CorrectedVersions]:
    repeated = _repeated(entries, timelines)
    poses = dict(zip(entries, plan.move([_placed(entry.item) for entry in entries.values()]), strict=True))
    changes: list[CorrectedVersions] = []
    places: list[dict[str, Any]] = []
    for number, entry in entries.items():
        assert entry.item.pose is not None
        of_itself = {'stamp_ns': entry.item.pose.stamp_ns, 'covariance': poses[number].covariance}
        pose = poses[repeated[number]].model_copy(update=of_itself)
        if pose == entry.item.pose:
            continue
        statement = statement_of(entry.item.model_copy(update={'pose': pose}), txn.config.identity_scope)
        spatial_id = txn.next_id('spatial')
        places.append({'spatial_id': spatial_id, **spatial_row(pose, plan.map_id)})
        changes.append(
            entry.corrected(
                CorrectedStatement(statement.content, statement.element, spatial_id, txn.sequence)
            )
        )
    insert_rows(txn.connection, spatial, places)
    return changes


def _placed(item: MemoryItem) -> PlacedStatement:
    assert item.pose is not None
    assert item.valid_from_ns is not None
    return PlacedStatement(item.key, item.kind.value, item.valid_from_ns, item.pose)


_assertions = (
    sa.select(
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


def revert_assertions(txn: Changeset, plan: ReversalPlan) -> tuple[int, int]:
    """Restore the coordinates that a correction replaced, unless they were replaced again.

    Returns
    -------
    tuple
        Number of restored versions, and of statements that stay because they were moved again.
    """
    former = plan.former
    txn.archive.restore_corrected(former.sequence)
    found = txn.connection.execute(_made_by, {'seq': former.sequence}).all()
    rows = [row for row in found if row.to_seq is None and row.key not in plan.kept_keys]
    before = {
        row.assertion_id: CorrectedStatement(*row[1:])
        for part in chunks(row.assertion_id for row in rows)
        for row in txn.connection.execute(_said_before, {'ids': part, 'seq': former.sequence})
    }
    changes = [
        CorrectedVersions(
            row.assertion_id,
            row.identity_id,
            row.id,
            True,
            before.get(row.assertion_id)
            or CorrectedStatement(row.content_digest, row.element, row.spatial_id, None),
        )
        for row in rows
    ]
    begun = [
        row
        for row in txn.connection.execute(_begun_by, {'seq': former.sequence})
        if row.key not in plan.kept_keys
    ]
    nothing = CorrectedStatement(None, None, None, txn.sequence)
    changes += [
        CorrectedVersions(row.assertion_id, row.identity_id, row.id, bool(row.was_corrected), nothing)
        for row in begun
    ]
    timelines = Timelines(txn)
    timelines.load({change.identity_id: 0 for change in changes})
    moved = restate(txn, timelines, changes)
    for row in begun:
        txn.note(row.id, row.key, 'RETRACT')
    again = {row.assertion_id for row in found if row.to_seq is None}
    left = len({row.assertion_id for row in found}) - len(again)
    return moved, left


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
    .where(
        assertion.c.sequence == sa.bindparam('seq'),
        assertion.c.withdrawn_seq.is_(None),
        assertion.c.base_id.is_(None),
    )
)

Columns = Mapping[str, Sequence[Any]]

_TABLES: tuple[sa.Table, ...] = (landmark, keyframe, sighting)


class CorrectionRepository:
    """Records of map corrections, with the landmark state that undoes them."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def load(self, correction_id: str) -> StoredCorrection:
        """Return a correction that can be reverted.

        Raises
        ------
        NotFoundError
            There is no correction of this name.
        InvalidRequestError
            It is a reversal itself, or was reverted before.
        """
        row = self._connection.execute(_stored, {'name': correction_id}).one_or_none()
        if row is None:
            raise NotFoundError(f'revert_id: {correction_id!r} names no correction', field='revert_id')
        if row.reverts is not None:
            raise InvalidRequestError(
                f'revert_id: {correction_id!r} is a reversal; make the correction again instead',
                field='revert_id',
            )
        if (by := self._connection.execute(_reverted, {'seq': row.sequence}).scalar()) is not None:
            raise InvalidRequestError(
                f'revert_id: {correction_id!r} was taken back before, by {by!r}', field='revert_id'
            )
        return StoredCorrection(*row)

    def is_newest(self, former: StoredCorrection) -> bool:
        """Return whether no later correction of the map is in force."""
        newer = {'map': former.map_id, 'seq': former.sequence}
        return self._connection.execute(_in_force, newer).first() is None

    def details(self, map_id: str, kind: str) -> list[dict[str, Any]]:
        """Return the requests of the corrections of a map that are in force, in their order."""
        rows = self._connection.execute(_details, {'map': map_id, 'kind': kind}).scalars()
        return [json.loads(row) for row in rows]

    def dump_landmarks(self, map_id: str) -> bytes:
        """Return landmarks, keyframes and sightings of a map, packed."""
        state = {
            table.name: [list(row) for row in self._connection.execute(_rows(table, map_id))]
            for table in _TABLES
        }
        return zlib.compress(json.dumps(state, default=_as_hex).encode(), 1)

    @staticmethod
    def digest(state: bytes) -> bytes:
        """Return the digest of a packed state."""
        return sha256(zlib.decompress(state)).digest()

    @staticmethod
    def unpack_landmarks(state: bytes) -> tuple[Columns, Columns, Columns]:
        """Return landmarks, keyframes and sightings of a packed state, each column by column."""
        rows = _unpacked(state)
        landmarks, keyframes, sightings = (
            dict(zip(table.columns.keys(), zip(*rows[table.name], strict=True), strict=True))
            if rows[table.name]
            else dict.fromkeys(table.columns.keys(), ())
            for table in _TABLES
        )
        return landmarks, keyframes, sightings


class CorrectionWriter(CorrectionRepository):
    """Corrections of maps in a numbered transaction."""

    def __init__(self, changeset: Changeset) -> None:
        super().__init__(changeset.connection)
        self._changeset = changeset

    def apply(self, plan: CorrectionPlan) -> CorrectionSummary:
        """Move the statements of a map, and store the new statements of a plan."""
        correction_id = self._begin(plan.map_id, plan.frame_id, plan.kind, plan.detail)
        moved, names = correct_assertions(self._changeset, plan)
        StatementWriter(self._changeset).write(plan.items, trusted=True)
        return CorrectionSummary(correction_id, moved, max(plan.merges, names), plan.splits)

    def revert(self, plan: ReversalPlan) -> CorrectionSummary:
        """Restore the coordinates that a correction replaced."""
        former = plan.former
        detail = {'correction_id': former.correction_id}
        correction_id = self._begin(former.map_id, former.frame_id, 'reversal', detail, former.sequence)
        moved, left = revert_assertions(self._changeset, plan)
        remarks = [plan.remark] if plan.remark else []
        if left:
            remarks.append(f'{left} statements were moved again since, and stay where that put them')
        return CorrectionSummary(correction_id, moved, remark='; '.join(remarks))

    def keep_undo(self, map_id: str, undo: bytes, most: int) -> None:
        """Keep the landmark state before this correction, and drop those of older ones.

        Parameters
        ----------
        map_id : str
            The map.
        undo : bytes
            The packed state before; that of now is known by its digest.
        most : int
            Number of states that are kept.
        """
        after = self.digest(self.dump_landmarks(map_id))
        values = {'seq': self._changeset.sequence, 'undo_': undo, 'after_': after}
        self._connection.execute(_keep_undo, values)
        self._connection.execute(_expire_undo, {'most': most})

    def restore_landmarks(self, map_id: str, state: bytes) -> None:
        """Replace landmarks, keyframes and sightings of a map by a packed state."""
        rows = _unpacked(state)
        numbers = sa.select(landmark.c.number).where(landmark.c.map_id == map_id)
        self._connection.execute(sa.delete(sighting).where(sighting.c.landmark.in_(numbers)))
        self._connection.execute(sa.delete(keyframe).where(keyframe.c.map_id == map_id))
        self._connection.execute(sa.delete(landmark).where(landmark.c.map_id == map_id))
        for table in _TABLES:
            names = table.columns.keys()
            values = [dict(zip(names, row, strict=True)) for row in rows[table.name]]
            if values:
                self._connection.execute(sa.insert(table), values)

    def _begin(
        self, map_id: str, frame_id: str, kind: str, detail: Mapping[str, Any], reverts: int | None = None
    ) -> str:
        """Record a correction or a reversal, and return its name."""
        changeset = self._changeset
        text = json.dumps(detail, sort_keys=True)
        named = f'{changeset.sequence} {changeset.recorded_at_ns} {map_id} {kind} {text}'
        correction_id = f'correction/{sha256(named.encode()).hexdigest()[:16]}'
        row = {
            'sequence': changeset.sequence,
            'correction_id': correction_id,
            'map_id': map_id,
            'frame_id': frame_id,
            'kind': kind,
            'detail': text,
            'reverts': reverts,
            'undo': None,
            'after': None,
        }
        self._connection.execute(correction.insert(), row)
        return correction_id


def _rows(table: sa.Table, map_id: str) -> sa.Select[Any]:
    query = sa.select(table).order_by(*table.primary_key.columns)
    if table is sighting:
        numbers = sa.select(landmark.c.number).where(landmark.c.map_id == map_id)
        return query.where(sighting.c.landmark.in_(numbers))
    return query.where(table.c.map_id == map_id)


def _unpacked(state: bytes) -> dict[str, list[list[Any]]]:
    found: dict[str, list[list[Any]]] = json.loads(zlib.decompress(state), object_hook=_from_hex)
    return found


def _as_hex(value: bytes) -> dict[str, str]:
    return {'hex': value.hex()}


def _from_hex(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value['hex']) if value.keys() == {'hex'} else value


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
_stored = sa.select(*(correction.c[name] for name in StoredCorrection._fields)).where(
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
_in_force = (
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
