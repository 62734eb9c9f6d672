"""The durable store: tables, timelines, files.

Reading order: `schema`, `changeset` (one numbered transaction), `statements` (timelines in the tables),
`query`, `unit_of_work` (repositories), `transaction_manager`, `reader`, `store` (the whole);
then `engine` (how a file is kept safe).
"""

from __future__ import annotations

from hylo_memory_ros.storage.changeset import CommitResult
from hylo_memory_ros.storage.ports import IndexSource, QuerySource, StatementSource, Store
from hylo_memory_ros.storage.query.select import TOTAL_LIMIT, QuerySpec
from hylo_memory_ros.storage.store import SqliteStore
from hylo_memory_ros.storage.working_memory import WorkingMemory

__all__ = [
    'TOTAL_LIMIT',
    'CommitResult',
    'IndexSource',
    'QuerySource',
    'QuerySpec',
    'SqliteStore',
    'StatementSource',
    'Store',
    'WorkingMemory',
]
