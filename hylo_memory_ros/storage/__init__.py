"""Durable store: tables, timelines and files; the only package that knows the database.

Reading order: `schema`, `changeset` (one numbered transaction), `statements` (timelines in the tables),
`query`, `unit_of_work` (repositories), `transaction_manager`, `reader`, `store` (the whole); then `engine`
(safety of a file). The retrieval engine reads it through the protocol in `ports`.
"""

from __future__ import annotations

from hylo_memory_ros.storage.changeset import CommitResult
from hylo_memory_ros.storage.ports import QuerySource
from hylo_memory_ros.storage.query.select import TOTAL_LIMIT
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.store import SqliteStore
from hylo_memory_ros.storage.working_memory import WorkingMemory

__all__ = [
    'TOTAL_LIMIT',
    'CommitResult',
    'QuerySource',
    'QuerySpec',
    'SqliteStore',
    'WorkingMemory',
]
