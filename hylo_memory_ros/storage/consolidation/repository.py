"""Records of consolidations, and the lineage between summaries and the statements they replace."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.consolidation import records
from hylo_memory_ros.storage.consolidation.records import ConsolidationRecord, Stood
from hylo_memory_ros.storage.consolidation.revert import Back, revert_groups
from hylo_memory_ros.storage.consolidation.summaries import Group, Slice, condense_groups

__all__ = ['ConsolidationRepository', 'ConsolidationWriter']


class ConsolidationRepository:
    """Records of consolidations, and summary lineage."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def load(self, name: str) -> ConsolidationRecord:
        """Return the record of a consolidation; `NotFoundError`: there is none of this name."""
        return records.record_named(self._connection, name)

    def load_all(self) -> list[ConsolidationRecord]:
        """Return the records of all consolidations, in order."""
        return records.records(self._connection)

    def end(self, number: int, report: Mapping[str, Any]) -> None:
        """Record what a consolidation did."""
        records.end_record(self._connection, number, report)

    def end_interrupted(self, last: int) -> None:
        """Record that consolidations up to a number have ended, interrupted ones too."""
        records.end_interrupted(self._connection, last)

    def mark_reverted(self, number: int, stamp_ns: int) -> None:
        """Record that a consolidation was reverted, or is being."""
        records.mark_reverted(self._connection, number, stamp_ns)

    def count_reverted(self) -> int:
        """Return how many consolidations were reverted."""
        return records.reverted_so_far(self._connection)

    def groups(self, number: int) -> list[Stood]:
        """Return the groups of a consolidation, in the order of their transactions."""
        return records.groups_of(self._connection, number)

    def standing_for(self, identity_ids: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        """Return what replaces identities now: (consolidation, identity of the summary), by identity."""
        return records.standing_for(self._connection, identity_ids)

    def summaries_among(self, identity_ids: Sequence[int]) -> set[int]:
        """Return which identities are those of summaries."""
        return records.summaries_among(self._connection, identity_ids)


class ConsolidationWriter(ConsolidationRepository):
    """Consolidations made and reverted in a numbered transaction."""

    def __init__(self, changeset: Changeset, config: MemoryConfig) -> None:
        super().__init__(changeset.connection)
        self._changeset = changeset
        self._config = config

    def begin(self, request: Mapping[str, Any]) -> int:
        """Record that a consolidation begins; return its number."""
        changeset = self._changeset
        return records.begin_record(self._connection, changeset.recorded_at_ns, changeset.actor, request)

    def summarize(self, number: int, groups: Sequence[Group]) -> Slice:
        """Replace each group by its summary; all groups are of one episode."""
        return condense_groups(self._changeset, number, groups, self._config.identity_scope)

    def revert(self, groups: Sequence[Stood], beneath: Collection[int] = ()) -> Back:
        """Let the members of groups hold again, and withdraw their summaries."""
        return revert_groups(self._changeset, groups, beneath)
