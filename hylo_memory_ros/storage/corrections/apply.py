"""Corrections: a map moved under what was remembered, which changes belief and not the world.

What every assertion of the map says is put where it belongs now, closed and hidden ones too, so
that whatever is written later still meets a timeline that follows from its points. Coordinates
before are kept, and a reversal puts those back: no inverse motion gives the same bits.
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
from hylo_memory_ros.storage.corrections.records import Moved, begin_correction
from hylo_memory_ros.storage.engine.database import insert_rows
from hylo_memory_ros.storage.schema import assertion, corrected, identity, spatial
from hylo_memory_ros.storage.statements.corrected_statements import (
    CorrectedStatement,
    CorrectedVersions,
    restate,
)
from hylo_memory_ros.storage.statements.mapper import ASSERTION_COLUMNS, item_of, spatial_row
from hylo_memory_ros.storage.statements.timeline_repository import Timelines, effective, says_now

__all__ = ['Edit', 'Placed', 'correct_assertions']


class Placed(NamedTuple):
    """A statement that has a place, as a correction sees it."""

    key: str | None
    kind: str
    valid_from_ns: int
    pose: Pose


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


class _Entry(NamedTuple):
    """An assertion that a correction may move."""

    assertion_id: int
    identity_id: int
    was_corrected: bool
    item: MemoryItem

    def saying(self, says: CorrectedStatement) -> CorrectedVersions:
        return CorrectedVersions(
            self.assertion_id, self.identity_id, str(self.item.id), self.was_corrected, says
        )


def correct_assertions(txn: Changeset, edit: Edit, identity_scope: Sequence[str]) -> Moved:
    """Put all that was asserted in a map where it belongs now, in one recorded event.

    Each version moves as a whole: who repeated a statement moves with the one that speaks for it,
    so that every interval stays what it was.
    """
    correction_id = begin_correction(txn, edit.map_id, edit.frame_id, edit.kind, edit.detail)
    txn.archive.restore_map(edit.map_id)
    entries = {entry.assertion_id: entry for entry in _entries(txn.connection, edit)}
    timelines = Timelines(txn)
    timelines.load({entry.identity_id: 0 for entry in entries.values()})
    gone = {number: entry for number, entry in entries.items() if _is_merged(entry.item, edit)}
    staying = {number: entry for number, entry in entries.items() if number not in gone}
    changes = [entry.saying(CorrectedStatement(None, None, None, txn.sequence)) for entry in gone.values()]
    changes += _moved(txn, edit, staying, timelines, identity_scope)
    moved = restate(txn, timelines, changes)
    names = {entry.item.key: str(entry.item.id) for entry in gone.values()}
    for key, item_id in names.items():
        txn.note(item_id, key, 'MERGE')
    return Moved(correction_id, moved, max(edit.merges, len(names)), edit.splits)


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
    txn: Changeset,
    edit: Edit,
    entries: Mapping[int, _Entry],
    timelines: Timelines,
    identity_scope: Sequence[str],
) -> list[CorrectedVersions]:
    speakers = _speakers(entries, timelines)
    speaking = sorted(set(speakers.values()))
    poses = dict(zip(speaking, edit.move([_placed(entries[one].item) for one in speaking]), strict=True))
    changes: list[CorrectedVersions] = []
    places: list[dict[str, Any]] = []
    for number, entry in entries.items():
        assert entry.item.pose is not None
        pose = poses[speakers[number]].model_copy(update={'stamp_ns': entry.item.pose.stamp_ns})
        if pose == entry.item.pose:
            continue
        statement = statement_of(entry.item.model_copy(update={'pose': pose}), identity_scope)
        spatial_id = txn.next_id('spatial')
        places.append({'spatial_id': spatial_id, **spatial_row(pose, edit.map_id)})
        changes.append(
            entry.saying(CorrectedStatement(statement.content, statement.element, spatial_id, txn.sequence))
        )
    insert_rows(txn.connection, spatial, places)
    return changes


def _placed(item: MemoryItem) -> Placed:
    assert item.pose is not None
    assert item.valid_from_ns is not None
    return Placed(item.key, item.kind.value, item.valid_from_ns, item.pose)


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
