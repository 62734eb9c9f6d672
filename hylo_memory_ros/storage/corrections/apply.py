"""Application and reversal of map corrections: they change belief, not the world.

All assertions of the map are moved, closed and hidden ones too, so that later statements still meet
a timeline that follows from its points. The former coordinates are kept, and a reversal restores
those: an inverse motion would not give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.identity import statement_of
from hylo_memory_ros.domain.timeline import span_at
from hylo_memory_ros.model import MemoryItem, MemoryKind, Pose
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.engine.database import chunks, insert_rows
from hylo_memory_ros.storage.schema import assertion, corrected, identity, spatial
from hylo_memory_ros.storage.statements.corrected_statements import (
    CorrectedStatement,
    CorrectedVersions,
    restate,
)
from hylo_memory_ros.storage.statements.mapper import ASSERTION_COLUMNS, item_of, spatial_row
from hylo_memory_ros.storage.statements.timeline_repository import Timelines, effective, says_now

__all__ = [
    'CorrectionPlan',
    'CorrectionSummary',
    'PlacedStatement',
    'ReversalPlan',
    'StoredCorrection',
    'correct_assertions',
    'revert_assertions',
]


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


def correct_assertions(
    txn: Changeset, plan: CorrectionPlan, identity_scope: Sequence[str]
) -> tuple[int, int]:
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
    changes += _moved(txn, plan, staying, timelines, identity_scope)
    moved = restate(txn, timelines, changes)
    names = {entry.item.key: str(entry.item.id) for entry in gone.values()}
    for key, item_id in names.items():
        txn.note(item_id, key, 'MERGE')
    return moved, len(names)


def _is_merged(item: MemoryItem, plan: CorrectionPlan) -> bool:
    return item.kind is MemoryKind.SPATIAL and item.key in plan.merged


def _entries(connection: sa.Connection, plan: CorrectionPlan) -> list[_Entry]:
    rows = connection.execute(_assertions, {'map': plan.map_id, 'frame': plan.frame_id})
    return [
        _Entry(row.assertion_id, row.identity_id, bool(row.was_corrected), item_of(row[:_WIDTH]))
        for row in rows
    ]


def _repeated(entries: Mapping[int, _Entry], timelines: Timelines) -> dict[int, int]:
    """Return the assertion whose statement each one repeats: itself when it is hidden."""
    repeated = {number: number for number in entries}
    for identity_id in {entry.identity_id for entry in entries.values()}:
        held = timelines[identity_id]
        spans = held.spans()
        for point in held.points:
            if point.assertion_id not in entries:
                continue
            span = span_at(spans, point.valid_from_ns)
            if span is not None and span.content == point.content:
                repeated[point.assertion_id] = span.assertion_id
    return repeated


def _moved(
    txn: Changeset,
    plan: CorrectionPlan,
    entries: Mapping[int, _Entry],
    timelines: Timelines,
    identity_scope: Sequence[str],
) -> list[CorrectedVersions]:
    repeated = _repeated(entries, timelines)
    distinct = sorted(set(repeated.values()))
    poses = dict(zip(distinct, plan.move([_placed(entries[one].item) for one in distinct]), strict=True))
    changes: list[CorrectedVersions] = []
    places: list[dict[str, Any]] = []
    for number, entry in entries.items():
        assert entry.item.pose is not None
        pose = poses[repeated[number]].model_copy(update={'stamp_ns': entry.item.pose.stamp_ns})
        if pose == entry.item.pose:
            continue
        statement = statement_of(entry.item.model_copy(update={'pose': pose}), identity_scope)
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


_WIDTH = len(ASSERTION_COLUMNS)
_assertions = (
    sa.select(
        *(column.label(f'c{place}') for place, column in enumerate(ASSERTION_COLUMNS)),
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
    .where(assertion.c.sequence == sa.bindparam('seq'), assertion.c.withdrawn_seq.is_(None))
)
