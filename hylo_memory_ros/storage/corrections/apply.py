"""Corrections of a map: changes of belief, not of the world.

All assertions of the map are moved, closed and hidden ones too, so that later statements still meet
a timeline that follows from its points. The former coordinates are kept, and a reversal restores
those: an inverse motion would not give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.identity import statement_of
from hylo_memory_ros.domain.timeline import span_at
from hylo_memory_ros.model import MemoryItem, MemoryKind
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.corrections.plan import CorrectionPlan, PlacedStatement
from hylo_memory_ros.storage.engine.database import insert_rows
from hylo_memory_ros.storage.schema import assertion, corrected, identity, spatial
from hylo_memory_ros.storage.statements.corrected_statements import (
    CorrectedStatement,
    CorrectedVersions,
    restate,
)
from hylo_memory_ros.storage.statements.mapper import ASSERTION_COLUMNS, item_of, spatial_row
from hylo_memory_ros.storage.statements.timeline_repository import Timelines, effective, says_now

__all__ = ['correct_assertions']


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
