"""The durable store: tables, timelines, files.

Reading order: `schema`, `timeline` (what follows from what was said), `timelines` (the same in
the tables), `transaction`, `writing`, `removal`, `asking`, `history`, `checking`; then
`connection`, `database`, `lock`, `files` (how a file is kept safe); `port` and `sqlite` (the whole).
"""

from __future__ import annotations

from hylo_memory_ros.storage.changeset import CommitResult
from hylo_memory_ros.storage.ports import Store
from hylo_memory_ros.storage.query.select import TOTAL_LIMIT, QuerySpec
from hylo_memory_ros.storage.store import SqliteStore
from hylo_memory_ros.storage.working_memory import WorkingMemory

__all__ = ['TOTAL_LIMIT', 'CommitResult', 'QuerySpec', 'SqliteStore', 'Store', 'WorkingMemory']
