"""Statements as callers of the store see them: lookups by id or time, and writes."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.skills import Thresholds
from hylo_memory_ros.model import MemoryItem, Removal, WriteResult
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.receipts import existing_ids
from hylo_memory_ros.storage.statements import history
from hylo_memory_ros.storage.statements.removal import Ending, end_versions, keep_audit
from hylo_memory_ros.storage.statements.writer import (
    answer_of_request,
    check_stamps,
    keep_answer,
    resolved,
    write_items,
)

__all__ = ['StatementRepository', 'StatementWriter']


class StatementRepository:
    """Statements and the transactions that brought them."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def last_transaction(self) -> tuple[int, int]:
        """Return sequence and service time of the newest transaction; zeros before the first one."""
        return history.last_transaction(self._connection)

    def sequence_at(self, known_at_ns: int) -> int:
        """Return the last sequence recorded at or before a service time."""
        return history.sequence_at(self._connection, known_at_ns)

    def existing_ids(self, ids: Collection[str]) -> set[str]:
        """Return which ids the main file knows."""
        return existing_ids(self._connection, ids)

    def answer(self, request_id: str) -> WriteResult | None:
        """Return the first answer to a write with a request id, or None."""
        return answer_of_request(self._connection, request_id)


class StatementWriter(StatementRepository):
    """Statements written, ended and removed in a numbered transaction."""

    def __init__(self, changeset: Changeset, config: MemoryConfig) -> None:
        super().__init__(changeset.connection)
        self._changeset = changeset
        self._config = config

    def write(self, items: Sequence[MemoryItem], *, trusted: bool = False) -> WriteResult:
        """Store items in order, all or none.

        Parameters
        ----------
        trusted : bool
            The service itself wrote and stamped them: limits on callers' stamps do not apply.
        """
        config = self._config
        ready = [resolved(item, self._changeset.recorded_at_ns) for item in items]
        if not trusted:
            check_stamps(ready, config)
        thresholds = Thresholds(
            config.skill_min_traces, config.skill_min_useful, config.skill_max_misleading_share
        )
        return write_items(self._changeset, ready, config.identity_scope, thresholds)

    def keep_answer(self, request_id: str, result: WriteResult) -> None:
        """Keep the answer for a repeated request, and delete the oldest."""
        keep_answer(self._changeset, request_id, result, self._config.request_retention)

    def end(self, endings: Sequence[Ending], *, kind: str, reason: str) -> Removal:
        """End what holds at the stated world times."""
        matched = end_versions(self._changeset, endings, kind)
        ids = [one.id for one in matched]
        query: Any = {'end': endings, 'kind': kind}
        keep_audit(self._changeset, reason, json.dumps(query, ensure_ascii=False), ids, len(matched))
        return Removal(len(matched), ids, self._changeset.sequence)
