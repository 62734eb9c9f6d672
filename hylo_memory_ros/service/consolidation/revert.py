"""Taking a consolidation back, slice by slice, newest first: one transaction for each that it made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Reversion
from hylo_memory_ros.service.background_throttle import BackgroundThrottle
from hylo_memory_ros.storage import CommitResult, Store
from hylo_memory_ros.storage.consolidation.records import (
    ConsolidationRecord,
    Stood,
    groups_of,
    mark_reverted,
    name_of,
    standing_for,
)

__all__ = ['ConsolidationReversal']


class ConsolidationReversal:
    """The reversal of one consolidation.

    Parameters
    ----------
    store : Store
    record : ConsolidationRecord
        What is taken back.
    changing, follow, courtesy
        As for a `ConsolidationRun`.
    actor : str
        For whom.
    """

    def __init__(
        self,
        store: Store,
        record: ConsolidationRecord,
        changing: Callable[[], AbstractContextManager[Any]],
        follow: Callable[[CommitResult | None], None],
        courtesy: BackgroundThrottle,
        actor: str,
    ) -> None:
        self._store = store
        self._record = record
        self._changing = changing
        self._follow = follow
        self._courtesy = courtesy
        self._actor = actor

    def reversion(self) -> Reversion:
        """Take it back; see `Consolidating.revert_consolidation`."""
        groups = self._store.side_read(self._looked)
        kept: dict[str, str] = {}
        restored: list[str] = []
        withdrawn: list[str] = []
        beneath: set[int] = set()
        for _, those in groupby(reversed(groups), key=lambda group: group.sequence):
            with self._changing():
                back, committed = self._store.revert_groups(
                    list(those), beneath=beneath, within=self._mark, actor=self._actor
                )
                self._follow(committed)
            restored += back.restored
            withdrawn += back.withdrawn
            kept |= back.kept
            beneath.update(back.beneath)
            self._courtesy.give_way()
        # A summary of which another one was made holds again, and goes next.
        gone = set(withdrawn)
        return Reversion(
            self._record.name,
            tuple(one for one in restored if one not in gone),
            tuple(withdrawn),
            kept,
            self._store.digest(),
            self._store.sequence,
        )

    def _mark(self, connection: sa.Connection, stamp_ns: int) -> None:
        mark_reverted(connection, self._record.number, stamp_ns)

    def _looked(self, connection: sa.Connection) -> list[Stood]:
        """Return what has not been taken back, by an interrupted reversal too.

        Raises
        ------
        InvalidRequestError
            It was taken back before, or is not the last word on what it made.
        """
        groups = groups_of(connection, self._record.number)
        left = [group for group in groups if not group.reverted]
        if self._record.reverted_ns is not None and not left:
            raise InvalidRequestError(
                f'consolidation_id: {self._record.name!r} was reverted before', field='consolidation_id'
            )
        self._refuse_again(connection, left)
        return left

    def _refuse_again(self, connection: sa.Connection, groups: Sequence[Stood]) -> None:
        standing = standing_for(connection, [group.summary for group in groups])
        others = {number for those in standing.values() for number, _ in those} - {self._record.number}
        if again := sorted(others):
            names = ', '.join(map(name_of, again))
            raise InvalidRequestError(
                f'consolidation_id: what {self._record.name!r} made was consolidated again by {names}: '
                'revert that first',
                field='consolidation_id',
                again=list(map(name_of, again)),
            )
