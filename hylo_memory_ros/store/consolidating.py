"""What a store does with consolidations: it tells what may become one, makes it so, and takes it back.

Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.store.condensing import Group, Slice, condense_groups
from hylo_memory_ros.store.consolidable import Consolidable, amount_at_hand, consolidable
from hylo_memory_ros.store.consolidation import begin_record
from hylo_memory_ros.store.reinstating import Back, revert_groups
from hylo_memory_ros.store.sizes import Held
from hylo_memory_ros.store.standing import Stood
from hylo_memory_ros.store.transacting import TransactingStore
from hylo_memory_ros.store.transaction import Committed, Transaction

__all__ = ['ConsolidatingStore']


class ConsolidatingStore(TransactingStore):
    """What a store over SQLite does with consolidations; see `port.Store`."""

    def amount(self, kinds: Collection[str], scope: Mapping[str, str] | None) -> Held:
        """Return how much of some kinds is at hand, perhaps only of one scope."""
        with self._db.reading() as connection:
            return amount_at_hand(connection, kinds, scope, holding=self.path is None)

    def consolidable(
        self,
        before_ns: int,
        limit: int,
        *,
        now_ns: int,
        scope: Mapping[str, str] | None,
        after: tuple[int, int],
        open_episode: str,
    ) -> list[Consolidable]:
        """Return happenings that hold now, oldest first; see `consolidable.consolidable`."""
        with self._db.reading() as connection:
            return consolidable(
                connection,
                before_ns,
                limit,
                now_ns=now_ns,
                scope=scope,
                after=after,
                open_episode=open_episode,
            )

    def condense(
        self, groups: Sequence[Group], number: int | None, *, asked: Mapping[str, Any], actor: str
    ) -> tuple[int | None, Slice, Committed | None]:
        """Let one statement stand for each group, in one recorded event.

        Parameters
        ----------
        groups : sequence of Group
            All of one episode.
        number : int, optional
            The consolidation; none: it begins with this.
        asked : mapping
            What the record of a new one tells.

        Returns
        -------
        tuple
            The number of the consolidation, what was done, and what follows from it; without anything
            done, nothing is recorded.
        """

        def act(txn: Transaction) -> tuple[int, Slice]:
            this = (
                begin_record(txn.connection, txn.recorded_at_ns, actor, asked) if number is None else number
            )
            done = condense_groups(txn, this, groups, self._config.identity_scope)
            if not done.done:
                raise _NothingDoneError(done)
            return this, done

        try:
            (this, done), committed = self._transact('consolidate', actor, act, durable=False)
        except _NothingDoneError as nothing:
            return number, nothing.slice, None
        return this, done, committed

    def revert_groups(
        self,
        groups: Sequence[Stood],
        *,
        beneath: Collection[int],
        within: Callable[[sa.Connection, int], None],
        actor: str,
    ) -> tuple[Back, Committed | None]:
        """Let what summaries stand for hold again, and withdraw them, in one recorded event."""

        def act(txn: Transaction) -> Back:
            within(txn.connection, txn.recorded_at_ns)
            return revert_groups(txn, groups, beneath)

        return self._transact('revert', actor, act, durable=True)


class _NothingDoneError(Exception):
    def __init__(self, done: Slice) -> None:
        super().__init__()
        self.slice = done
