"""Store over SQLite: one file, one writer, many readers.

Threads: every method may be called from any thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import MemoryItem, Removal, WriteResult
from hylo_memory_ros.storage.archive.state import everything, nothing
from hylo_memory_ros.storage.backup import Backup
from hylo_memory_ros.storage.changeset import Changeset, CommitResult
from hylo_memory_ros.storage.episodes import named_in
from hylo_memory_ros.storage.erasure.eraser import Eraser
from hylo_memory_ros.storage.ports import Within
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.reader import StatementReader
from hylo_memory_ros.storage.statements.removal import (
    Ending,
    Matched,
    forget_versions,
    keep_audit,
    matched_versions,
    retract_versions,
)
from hylo_memory_ros.storage.statements.writer import check_items
from hylo_memory_ros.storage.transaction_manager import TransactionManager
from hylo_memory_ros.storage.unit_of_work import ReadView, UnitOfWork, UnnumberedUnitOfWork


class SqliteStore:
    """A store in one SQLite file, or in memory; see `ports.Store`.

    Parameters
    ----------
    url : str or None
        ``sqlite:////absolute/path.db``; None or ``sqlite://``: in memory.
    config : MemoryConfig
        Limits.
    clock : callable
        The service clock, nanoseconds.
    read_only : bool
        Read a file that another process may be writing; takes no lock.
    exclusive : bool
        Take the file's lock. Without it several writers share the file, each unaware of
        what the others' mirrors hold.

    Attributes
    ----------
    reader : StatementReader
        Statements, for queries and indexes.
    archive : Archive
        What may be moved to the archive file, and the moves there and back.

    Raises
    ------
    StoreError
        The file is refused: in use, damaged, newer, not writable. It is left untouched.
    ClockError
        Its last record lies far ahead of the clock.
    """

    def __init__(
        self,
        url: str | None,
        config: MemoryConfig,
        clock: Callable[[], int],
        *,
        read_only: bool = False,
        exclusive: bool = True,
    ) -> None:
        self._transactions = TransactionManager(url, config, clock, read_only=read_only, exclusive=exclusive)
        self._config = config
        self.path = self._transactions.path
        self.reader = StatementReader(self._transactions)
        self.archive = self._transactions.archive
        self._backup = Backup(self._transactions)
        self._eraser = Eraser(self._transactions)
        if not read_only:
            try:
                self._eraser.finish_interrupted()
            except BaseException:
                self.close()
                raise

    @property
    def epoch(self) -> str:
        """Name of the history."""
        return self._transactions.epoch

    @property
    def sequence(self) -> int:
        """Number of the newest transaction."""
        return self._transactions.sequence

    def now_ns(self) -> int:
        """Return the highest service time seen."""
        return self._transactions.now_ns()

    def clock_ns(self) -> int:
        """Return the service clock, which may lie behind the highest time seen."""
        return self._transactions.clock_ns()

    def read(self) -> AbstractContextManager[ReadView]:
        """Open a view of one consistent state, read-only, for the block."""
        return self._transactions.read()

    def begin(
        self, op: str, *, actor: str = '', durable: bool = True, dry_run: bool = False
    ) -> AbstractContextManager[UnitOfWork]:
        """Begin a numbered transaction: commit at a clean end of the block, else roll back."""
        return self._transactions.begin(op, actor=actor, durable=durable, dry_run=dry_run)

    def begin_unnumbered(self, *, durable: bool = False) -> AbstractContextManager[UnnumberedUnitOfWork]:
        """Begin a transaction that takes no sequence, for statistics, ledger and records."""
        return self._transactions.begin_unnumbered(durable=durable)

    def write(
        self,
        items: Sequence[MemoryItem],
        *,
        request_id: str | None = None,
        actor: str = '',
        dry_run: bool = False,
        durable: bool = True,
        within: Within | None = None,
    ) -> tuple[WriteResult, CommitResult | None]:
        """Store items in order, all or none; a known request gets its first answer again."""
        check_items(items, self._config)
        if request_id is not None:
            with self.read() as view:
                if (known := view.statements.answer(request_id)) is not None:
                    return known, None
        with self.begin('write', actor=actor, durable=durable, dry_run=dry_run) as uow:
            # Looked up again under the write lock: the same request may have come twice at once.
            known = None if request_id is None else uow.statements.answer(request_id)
            if known is not None:
                uow.discard()
                result = known
            else:
                result = uow.statements.write(items)
                if request_id is not None:
                    uow.statements.keep_answer(request_id, result)
                if within is not None:
                    within(uow)
        return result, uow.result

    def forget(
        self, asked: QuerySpec, among: Sequence[int] | None, *, reason: str, actor: str, dry_run: bool
    ) -> tuple[Removal, CommitResult | None]:
        """End what matches at the service time."""
        return self._remove('forget', asked, among, forget_versions, reason, actor, dry_run)

    def retract(
        self, asked: QuerySpec, among: Sequence[int] | None, *, reason: str, actor: str, dry_run: bool
    ) -> tuple[Removal, CommitResult | None]:
        """Withdraw what matches: it was never true."""
        return self._remove('retract', asked, among, retract_versions, reason, actor, dry_run)

    def _remove(
        self,
        op: str,
        asked: QuerySpec,
        among: Sequence[int] | None,
        remove: Callable[[Changeset, Sequence[Matched]], None],
        reason: str,
        actor: str,
        dry_run: bool,
    ) -> tuple[Removal, CommitResult | None]:
        with self.begin(op, actor=actor, dry_run=dry_run) as uow:
            changeset = uow.changeset
            # The clock may have gone on since the query was resolved.
            now = replace(asked, at_ns=uow.recorded_at_ns) if asked.world == 'unended' else asked
            matched = matched_versions(changeset.connection, changeset.archive.match(now, among))
            remove(changeset, matched)
            ids = [one.id for one in matched]
            # Skills of every status are meant, whatever was asked.
            query = asked.query.model_dump_json(exclude_defaults=True, exclude={'skill_status'})
            keep_audit(changeset, reason, query, ids, len(matched))
            if not matched:
                uow.discard()
        return Removal(len(matched), ids, uow.sequence if matched else self.sequence), uow.result

    def end(
        self,
        endings: Sequence[Ending],
        *,
        kind: str,
        reason: str,
        actor: str,
        dry_run: bool,
        durable: bool = True,
    ) -> tuple[Removal, CommitResult | None]:
        """End what holds at the stated world times."""
        with self.begin('end', actor=actor, durable=durable, dry_run=dry_run) as uow:
            removal = uow.statements.end(endings, kind=kind, reason=reason)
            if not removal:
                uow.discard()
        return removal or Removal(0, sequence=self.sequence), uow.result

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
        return self._eraser.purge(asked, among, unstored, reason=reason, actor=actor, dry_run=dry_run)

    def recall_episode(self, episode_id: str) -> None:
        """Bring back from the archive what was stated in an episode, and what its feed and verdicts name."""
        with self._transactions.archive.reading(everything, nothing) as reader:
            if reader.archive is None:
                return
            names = json.dumps(sorted(named_in(reader.live, episode_id)))
            found = reader.archive.execute(
                _ARCHIVED_OF_EPISODE, {'episode': episode_id, 'names': names}
            ).scalars()
            identity_ids = list(found)
        if identity_ids:
            self.archive.restore(identity_ids, limit=_ALL)

    def copy(self, target: Path) -> None:
        """Copy the whole memory to a new file."""
        self._backup.copy(target)

    def restore(self, source: Path, ready: Callable[[ReadView], None] | None = None) -> CommitResult:
        """Replace the whole memory by a verified copy, and begin a new epoch."""
        return self._backup.restore(source, ready)

    def close(self) -> None:
        """Close the store; safe to repeat."""
        self._transactions.close()


_ALL = 2**63 - 1
_ARCHIVED_OF_EPISODE = sa.text("""
    SELECT DISTINCT identity_id FROM assertion
    WHERE id IN (SELECT value FROM json_each(:names))
    OR sequence IN (SELECT sequence FROM txn WHERE episode != '' AND episode = :episode)
""")
