"""Statements changed by map corrections, and their versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.identity import statement_of
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.engine.database import chunks, insert_rows
from hylo_memory_ros.storage.schema import corrected, spatial
from hylo_memory_ros.storage.statements.mapper import POSE_NAMES, pose_of
from hylo_memory_ros.storage.statements.timeline_repository import Evidence, Timelines


class CorrectedStatement(NamedTuple):
    """Content of an assertion from now on."""

    content: bytes | None
    """None: nothing."""
    element: bytes | None
    spatial_id: int | None
    correction_seq: int | None
    """Whose pose it is; None: what was first asserted."""


class CorrectedVersions(NamedTuple):
    """One assertion that says something else from now on."""

    assertion_id: int
    identity_id: int
    id: str
    was_corrected: bool
    says: CorrectedStatement


def restate(txn: Changeset, timelines: Timelines, changes: Sequence[CorrectedVersions]) -> int:
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
    by_identity: dict[int, list[CorrectedVersions]] = {}
    for change in changes:
        by_identity.setdefault(change.identity_id, []).append(change)
    for identity_id, those in by_identity.items():
        timelines.correct(identity_id, {change.assertion_id: _evidence(change) for change in those})
    timelines.save()
    for row in txn.added:
        txn.note(timelines.evidence[row.assertion_id].id, timelines[row.identity_id].key, 'CORRECT')
    return len(txn.added)


def _evidence(change: CorrectedVersions) -> tuple[bytes, Evidence] | None:
    if change.says.content is None or change.says.element is None:
        return None
    return change.says.content, Evidence(change.id, change.says.element, change.says.spatial_id)


def repeat_corrections(txn: Changeset, repeated: Mapping[int, tuple[int, MemoryItem]]) -> None:
    """Let repeated statements say what those say that they repeat, corrections of the past included.

    Parameters
    ----------
    repeated : mapping of int to (int, MemoryItem)
        The assertion that was corrected, and the new item, by the new assertion.
    """
    rows = []
    for assertion_id, (like, item) in repeated.items():
        for row in txn.connection.execute(_all_of, {'id': like}).mappings():
            moved = item.model_copy(update={'pose': pose_of([row[name] for name in POSE_NAMES])})
            element = (
                None if row['element'] is None else statement_of(moved, txn.config.identity_scope).element
            )
            said = {column.name: row[column.name] for column in corrected.columns}
            rows.append({**said, 'assertion_id': assertion_id, 'element': element})
    insert_rows(txn.connection, corrected, rows)


def corrected_among(connection: sa.Connection, assertion_ids: Collection[int]) -> set[int]:
    """Return which assertions say something else than what was first asserted."""
    found: set[int] = set()
    for part in chunks(assertion_ids):
        found.update(connection.execute(_are_corrected, {'ids': part}).scalars())
    return found


_all_of = (
    sa.select(corrected, *(spatial.c[name] for name in POSE_NAMES))
    .outerjoin(spatial, spatial.c.spatial_id == corrected.c.spatial_id)
    .where(corrected.c.assertion_id == sa.bindparam('id'))
)
_are_corrected = sa.select(corrected.c.assertion_id).where(
    corrected.c.assertion_id.in_(sa.bindparam('ids', expanding=True)), corrected.c.to_seq.is_(None)
)
_end_said = (
    corrected.update()
    .where(corrected.c.assertion_id == sa.bindparam('id'), corrected.c.to_seq.is_(None))
    .values(to_seq=sa.bindparam('end'))
)
