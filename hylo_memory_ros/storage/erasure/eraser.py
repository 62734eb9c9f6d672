"""Eraser: runs purges, and rewrites pages, logs and unfinished files.

Threads: any; purges serialize on the database's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from hylo_memory_ros.errors import StoreError
from hylo_memory_ros.model import Removal
from hylo_memory_ros.storage.backup import copies_beside, copies_since, remove_unfinished
from hylo_memory_ros.storage.changeset import Changeset, CommitResult
from hylo_memory_ros.storage.consolidation.repository import summaries_over, versions_of_identities
from hylo_memory_ros.storage.engine.connection import log_of
from hylo_memory_ros.storage.erasure.erase import first_said, purge_identities, purged_of
from hylo_memory_ros.storage.erasure.references import EpisodeErasure
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.statements.removal import Matched, keep_audit, matched_versions
from hylo_memory_ros.storage.transaction_manager import TransactionManager

logger = logging.getLogger(__name__)

# Set by a purge until nothing of it is left in any page or log.
_REMAINS = 'purge_remains'


class _Scope(NamedTuple):
    """Request of a purge."""

    identity_ids: list[int]
    """Identities of what matches, of the summaries over it, and of what episodes keep of it."""
    episodes: EpisodeErasure
    matched: list[Matched]
    """Their versions."""
    first: int
    """Transaction that brought the first of what matches; 0: nothing does."""


class Eraser:
    """Deletion for good of statements, of every record of them, and of their remains in files.

    Parameters
    ----------
    transactions : TransactionManager
        The memory.
    """

    def __init__(self, transactions: TransactionManager) -> None:
        self._transactions = transactions

    def purge(
        self,
        asked: QuerySpec,
        among: Sequence[int] | None,
        unstored: Sequence[str] = (),
        *,
        reason: str,
        actor: str,
        dry_run: bool,
    ) -> tuple[Removal, CommitResult | None]:
        """Delete the identities of what matches, and from every record what is named beside.

        Parameters
        ----------
        unstored : sequence of str
            Ids of what goes too, but was in no file; they are counted.
        """
        memory = self._transactions
        with memory.begin('purge', actor=actor, dry_run=dry_run, references=False) as uow:
            txn = uow.changeset
            scope = _scope(txn, matched_versions(txn.connection, txn.archive.match(asked, among)))
            copies = copies_since(uow.state, scope.first)
            if not dry_run:
                purge_identities(txn, scope.identity_ids, unstored)
                scope.episodes.apply()
            ids = list(dict.fromkeys((*(one.id for one in scope.matched), *unstored)))
            keep_audit(txn, reason, None, None, len(ids))
            uow.state.put(_REMAINS, b'1')
            if not ids:
                uow.discard()
        if not ids:
            return Removal(0, sequence=memory.sequence), None
        if memory.path is not None and memory.archive.file is not None:
            copies += [*copies_beside(memory.path), *copies_beside(memory.archive.file.path)]
        if uow.result is not None:
            copies += self._erase_remains()
        return Removal(len(ids), ids, uow.sequence, sorted(set(copies))), uow.result

    def finish_interrupted(self) -> None:
        """Erase the remains of a purge that was interrupted before it reached every file."""
        with self._transactions.read() as view:
            remains = view.state.get(_REMAINS)
        if remains:
            self._erase_remains()

    def _erase_remains(self) -> list[str]:
        """Let nothing that was purged be left in a file of this memory; return those that it may still be in.

        What cannot be done now is done when the memory is opened again.
        """
        memory = self._transactions
        if memory.path is None:
            return []
        unreached = memory.archive.erase_remains()
        try:
            remove_unfinished(memory.path)
            memory.database.rewrite()
        except (StoreError, OSError):
            logger.warning('%s may still hold parts of what was purged', memory.path, exc_info=True)
            unreached.append(str(memory.path))
        memory.log_holds_erased = not memory.database.checkpoint()
        if memory.log_holds_erased:
            unreached.append(str(log_of(memory.path)))
        if not unreached:
            with memory.begin_unnumbered(durable=True) as uow:
                uow.state.put(_REMAINS, b'')
        return unreached


def _scope(txn: Changeset, matched: list[Matched]) -> _Scope:
    connection = txn.connection
    identity_ids = sorted({one.identity_id for one in matched})
    while True:
        # Their past goes too, wherever the query found them.
        txn.archive.restore(identity_ids)
        episodes = EpisodeErasure(txn, purged_of(connection, identity_ids))
        # The words of a summary are those of what it replaces, also of events about that.
        summaries = summaries_over(connection, [*identity_ids, *episodes.identity_ids])
        if not summaries:
            break
        txn.archive.restore(summaries)
        identity_ids += summaries
        matched += matched_versions(connection, versions_of_identities(connection, summaries))
    txn.archive.restore(episodes.identity_ids)
    matched += matched_versions(connection, versions_of_identities(connection, episodes.identity_ids))
    first = first_said(connection, identity_ids)
    return _Scope([*identity_ids, *episodes.identity_ids], episodes, matched, first)
