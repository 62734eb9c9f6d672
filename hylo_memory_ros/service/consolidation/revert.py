"""Reversal of a consolidation, newest slice first: one transaction for each that it made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import Reversion
from hylo_memory_ros.service.background_throttle import BackgroundThrottle
from hylo_memory_ros.storage import CommitResult, Store
from hylo_memory_ros.storage.consolidation.repository import (
    ConsolidationRecord,
    ConsolidationRepository,
    SummaryGroup,
    name_of,
)

__all__ = ['ConsolidationReversal']


class ConsolidationReversal:
    """The reversal of one consolidation.

    Parameters
    ----------
    store : Store
    record : ConsolidationRecord
        The consolidation to revert.
    changing, follow, throttle
        As for a `ConsolidationRun`.
    actor : str
        Author of the request.
    """

    def __init__(
        self,
        store: Store,
        record: ConsolidationRecord,
        changing: Callable[[], AbstractContextManager[Any]],
        follow: Callable[[CommitResult | None], None],
        throttle: BackgroundThrottle,
        actor: str,
    ) -> None:
        self._store = store
        self._record = record
        self._changing = changing
        self._follow = follow
        self._throttle = throttle
        self._actor = actor

    def execute(self) -> Reversion:
        """Revert it; see `ConsolidationHandler.revert_consolidation`."""
        with self._store.read() as view:
            left = self._groups_left(view.consolidations)
        kept: dict[str, str] = {}
        restored: list[str] = []
        withdrawn: list[str] = []
        beneath: set[int] = set()
        for _, groups in groupby(reversed(left), key=lambda group: group.sequence):
            with self._changing():
                with self._store.begin('revert', actor=self._actor) as uow:
                    uow.consolidations.mark_reverted(self._record.number, uow.recorded_at_ns)
                    back = uow.consolidations.revert(list(groups), beneath)
                self._follow(uow.result)
            restored += back.restored
            withdrawn += back.withdrawn
            kept |= back.kept
            beneath.update(back.beneath)
            self._throttle.give_way()
        # A summary of which another one was made holds again, and goes next.
        gone = set(withdrawn)
        return Reversion(
            self._record.name,
            tuple(item_id for item_id in restored if item_id not in gone),
            tuple(withdrawn),
            kept,
            self._store.reader.digest(),
            self._store.sequence,
        )

    def _groups_left(self, consolidations: ConsolidationRepository) -> list[SummaryGroup]:
        """Return the groups that no reversal has reverted yet, an interrupted one included.

        Raises
        ------
        InvalidRequestError
            It was reverted before, or one of its summaries was consolidated again.
        """
        left = [group for group in consolidations.groups(self._record.number) if not group.reverted]
        if self._record.reverted_ns is not None and not left:
            raise InvalidRequestError(
                f'consolidation_id: {self._record.name!r} was reverted before', field='consolidation_id'
            )
        self._refuse_replaced(consolidations, left)
        return left

    def _refuse_replaced(
        self, consolidations: ConsolidationRepository, groups: Sequence[SummaryGroup]
    ) -> None:
        standing = consolidations.replacements([group.summary for group in groups])
        others = {number for those in standing.values() for number, _ in those} - {self._record.number}
        if again := sorted(others):
            names = ', '.join(map(name_of, again))
            raise InvalidRequestError(
                f'consolidation_id: what {self._record.name!r} made was consolidated again by {names}: '
                'revert that first',
                field='consolidation_id',
                again=list(map(name_of, again)),
            )
