"""Tables of the main file, one module a concept.

Times are integer nanoseconds, digests are 32 bytes, lists and objects are JSON.

Reading order: an accepted write is an `assertion` of an `identity`, with its place in `spatial`. What
follows from all assertions and forgets of an identity are its `version` rows: a stretch of world time, and
the transactions between which it was believed. Only ``to_seq``, ``withdrawn_seq``, the counts of repetitions
and the counters in `state` ever change in place. A `correction` moves what was asserted: the contents of an
assertion since then are its row in `corrected`.
"""

from __future__ import annotations

from functools import cache

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

from hylo_memory_ros.storage.schema.base import metadata
from hylo_memory_ros.storage.schema.consolidation import (
    ROW_BYTES,
    SIZE,
    STATEMENT_BYTES,
    TRIGGERS,
    archived,
    consolidated,
    consolidation,
    held,
)
from hylo_memory_ros.storage.schema.episodes import (
    SUBJECT_SEPARATOR,
    episode,
    episode_retrieval,
    feedback,
    helpfulness,
    receipt,
    registered,
)
from hylo_memory_ros.storage.schema.landmarks import (
    association_receipt,
    erase_landmarks,
    keyframe,
    landmark,
    ledger_assignment,
    ledger_block,
    ledger_input,
    sighting,
)
from hylo_memory_ros.storage.schema.statements import (
    FULL_TEXT,
    FULL_TEXT_TABLES,
    SUMMARY_TEXT,
    assertion,
    corrected,
    correction,
    embedding,
    forgetting,
    identity,
    spatial,
    tag,
    text_index_of,
    version,
)
from hylo_memory_ros.storage.schema.transactions import (
    audit,
    change,
    known_map,
    request,
    skill_transition,
    state,
    txn,
)

__all__ = [
    'FULL_TEXT',
    'FULL_TEXT_TABLES',
    'ROW_BYTES',
    'SIZE',
    'STATEMENT_BYTES',
    'SUBJECT_SEPARATOR',
    'SUMMARY_TEXT',
    'TRIGGERS',
    'archived',
    'assertion',
    'association_receipt',
    'audit',
    'change',
    'consolidated',
    'consolidation',
    'corrected',
    'correction',
    'create_schema',
    'embedding',
    'episode',
    'episode_retrieval',
    'erase_landmarks',
    'feedback',
    'forgetting',
    'held',
    'helpfulness',
    'identity',
    'keyframe',
    'known_map',
    'landmark',
    'ledger_assignment',
    'ledger_block',
    'ledger_input',
    'metadata',
    'receipt',
    'registered',
    'request',
    'sighting',
    'skill_transition',
    'spatial',
    'state',
    'tag',
    'text_index_of',
    'txn',
    'version',
]


@cache
def _definitions() -> tuple[str, ...]:
    elements: list[sa.schema.ExecutableDDLElement] = []
    for table in metadata.sorted_tables:
        elements.append(sa.schema.CreateTable(table))
        elements += map(sa.schema.CreateIndex, sorted(table.indexes, key=lambda index: str(index.name)))
    compiled = (str(element.compile(dialect=sqlite_dialect())) for element in elements)
    return (*compiled, *TRIGGERS, *FULL_TEXT_TABLES)


def create_schema(connection: sa.Connection) -> None:
    """Create every table, index, trigger and full-text index in an empty database."""
    for definition in _definitions():
        connection.exec_driver_sql(definition)
