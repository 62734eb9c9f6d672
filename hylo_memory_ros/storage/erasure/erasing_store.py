"""Purges of a store over SQLite: rows, then whatever is left of them in pages, logs and unfinished files.

Threads: any; purges serialise on the database's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.errors import StoreError
from hylo_memory_ros.model import Removal
from hylo_memory_ros.storage.changeset import Changeset, CommitResult
from hylo_memory_ros.storage.consolidation.records import summaries_over, versions_of_identities
from hylo_memory_ros.storage.copies import copies_beside, copies_since, note_copies, remove_unfinished
from hylo_memory_ros.storage.engine.connection import log_of
from hylo_memory_ros.storage.engine.files import refuse_place
from hylo_memory_ros.storage.engine.state import get_state, put_state
from hylo_memory_ros.storage.erasure.episodes import EpisodeErasure
from hylo_memory_ros.storage.erasure.erase import first_said, purge_identities, purged_of
from hylo_memory_ros.storage.query.filters import QuerySpec
from hylo_memory_ros.storage.statements.removal import Matched, keep_audit, matched_versions
from hylo_memory_ros.storage.transacting import TransactingStore

__all__ = ['ErasingStore', 'any_remains']

logger = logging.getLogger(__name__)

# Set by a purge until nothing of it is left in any page or log.
_REMAINS = 'purge_remains'


class _Scope(NamedTuple):
    """What a purge deletes."""

    identity_ids: list[int]
    """Identities of what matches, of the summaries over it, and of what episodes keep of it."""
    episodes: EpisodeErasure
    matched: list[Matched]
    """Their versions."""
    first: int
    """Transaction that brought the first of what matches; 0: nothing does."""


class ErasingStore(TransactingStore):
    """What a store over SQLite deletes for good; see `port.Store`."""

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
        """Delete the identities of what matches, for good, and from every record what is named beside."""
        copies: list[str] = []

        def act(txn: Changeset) -> Removal:
            scope = _scope(txn, matched_versions(txn.connection, txn.archive.match(asked, among)))
            copies.extend(copies_since(txn.connection, scope.first))
            if not dry_run:
                purge_identities(txn, scope.identity_ids, unstored)
                scope.episodes.apply()
            ids = list(dict.fromkeys((*(one.id for one in scope.matched), *unstored)))
            keep_audit(txn, reason, None, None, len(ids))
            put_state(txn.connection, _REMAINS, b'1')
            return Removal(len(ids), ids, txn.sequence)

        removal, committed = self._transact('purge', actor, act, dry_run=dry_run, references=False)
        if not removal:
            return Removal(0, sequence=self.sequence), None
        if self.path is not None and self._archive.file is not None:
            copies += [*copies_beside(self.path), *copies_beside(self._archive.file.path)]
        if committed is not None:
            copies += self._erase_remains()
        return Removal(removal, removal.ids, removal.sequence, sorted(set(copies))), committed

    def _erase_remains(self) -> list[str]:
        """Let nothing that was purged be left in a file of this memory; return those that it may still be in.

        What cannot be done now is done when the memory is opened again.
        """
        if self.path is None:
            return []
        unreached = self._archive.erase_remains()
        try:
            remove_unfinished(self.path)
            self._db.rewrite()
        except (StoreError, OSError):
            logger.warning('%s may still hold parts of what was purged', self.path, exc_info=True)
            unreached.append(str(self.path))
        self._log_tells = not self._db.checkpoint()
        if self._log_tells:
            unreached.append(str(log_of(self.path)))
        if not unreached:
            self.side_write(lambda connection: put_state(connection, _REMAINS, b''), durable=True)
        return unreached

    def copy(self, target: Path) -> None:
        """Copy the whole memory to a new file, and remember it for a purge to name."""
        refuse_place(target)
        if not self._read_only:
            noted = {str(target.absolute()): self.sequence}
            try:
                self.side_write(lambda connection: note_copies(connection, noted), durable=True)
            except StoreError:  # what is left of a full disk can still be copied to another
                logger.warning('copy %s is not on record: no purge will name it', target, exc_info=True)
        super().copy(target)


def any_remains(connection: sa.Connection) -> bool:
    """Return whether parts of what was purged may be left in the files."""
    return bool(get_state(connection, _REMAINS, b''))


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
