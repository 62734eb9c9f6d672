"""Writer of consolidations and their reversals in a unit of work."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.consolidation.repository import ConsolidationRepository, SummaryGroup
from hylo_memory_ros.storage.consolidation.revert import RevertResult, revert_groups
from hylo_memory_ros.storage.consolidation.summaries import Group, SummarizeResult, summarize_groups
from hylo_memory_ros.storage.schema import consolidation

__all__ = ['ConsolidationWriter']


class ConsolidationWriter(ConsolidationRepository):
    """Consolidations made and reverted in a numbered transaction."""

    def __init__(self, changeset: Changeset, config: MemoryConfig) -> None:
        super().__init__(changeset.connection)
        self._changeset = changeset
        self._config = config

    def begin(self, request: Mapping[str, Any]) -> int:
        """Record that a consolidation begins; return its number."""
        changeset = self._changeset
        row = {
            'begun_ns': changeset.recorded_at_ns,
            'actor': changeset.actor,
            'asked': json.dumps(request, sort_keys=True),
        }
        added = consolidation.insert().values(row).returning(consolidation.c.number)
        return int(self._connection.execute(added).scalar_one())

    def summarize(self, number: int, groups: Sequence[Group]) -> SummarizeResult:
        """Replace each group by its summary; all groups are of one episode."""
        return summarize_groups(self._changeset, number, groups, self._config.identity_scope)

    def revert(self, groups: Sequence[SummaryGroup], beneath: Collection[int] = ()) -> RevertResult:
        """Let the members of groups hold again, and withdraw their summaries."""
        return revert_groups(self._changeset, groups, beneath)
