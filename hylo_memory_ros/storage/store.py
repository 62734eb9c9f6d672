"""The store over SQLite: one file, one writer, many readers.

Threads: every method may be called from any thread. Writes serialise on the database's
lock; `epoch` and `sequence` are replaced whole under it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.consolidation.candidate import ConsolidationCandidate
from hylo_memory_ros.domain.skills import Thresholds
from hylo_memory_ros.errors import ClockError, DamagedFileError, StoreError
from hylo_memory_ros.model import Helpfulness, MemoryItem, Removal, WriteResult
from hylo_memory_ros.storage.archive.archive import Archive, ArchiveInfo
from hylo_memory_ros.storage.archive.mover import ArchivedSlice
from hylo_memory_ros.storage.archive.selection import Archivable
from hylo_memory_ros.storage.backup import RestoringStore, new_epoch
from hylo_memory_ros.storage.changeset import Changeset, CommitResult
from hylo_memory_ros.storage.consolidation.candidates import amount_at_hand, consolidable
from hylo_memory_ros.storage.consolidation.records import Stood, begin_record
from hylo_memory_ros.storage.consolidation.revert import Back, revert_groups
from hylo_memory_ros.storage.consolidation.sizes import Held
from hylo_memory_ros.storage.consolidation.summaries import Group, Slice, condense_groups
from hylo_memory_ros.storage.engine.connection import log_of
from hylo_memory_ros.storage.engine.database import Database
from hylo_memory_ros.storage.engine.file_lock import FileLock
from hylo_memory_ros.storage.engine.files import APPLICATION_ID, check_file, make_file, migrate, path_of
from hylo_memory_ros.storage.engine.state import get_state, put_state
from hylo_memory_ros.storage.episodes.episode_store import EpisodeStore
from hylo_memory_ros.storage.erasure.erasing_store import ErasingStore, any_remains
from hylo_memory_ros.storage.feedback.scores import any_helpfulness, helpfulness_of
from hylo_memory_ros.storage.migrations import create
from hylo_memory_ros.storage.ports import Within
from hylo_memory_ros.storage.query.select import QuerySpec
from hylo_memory_ros.storage.statements import history
from hylo_memory_ros.storage.statements.mapper import ItemRow
from hylo_memory_ros.storage.statements.removal import (
    Ending,
    Matched,
    end_versions,
    forget_versions,
    keep_audit,
    matched_versions,
    retract_versions,
)
from hylo_memory_ros.storage.statements.writer import (
    answer_of_request,
    check_items,
    check_stamps,
    keep_answer,
    resolved,
    write_items,
)
from hylo_memory_ros.storage.transacting import TransactingStore

__all__ = ['ArchivingStore', 'ConsolidatingStore', 'JudgedStore', 'SqliteStore']


class ArchivingStore(TransactingStore):
    """Archive operations of a store; a move changes no answer and no hash, and takes no sequence."""

    def archivable(
        self,
        kinds: Collection[str] | None = None,
        scope: Mapping[str, str] | None = None,
        ended_before_ns: int | None = None,
        limit: int = 1000,
        *,
        after: int = 0,
    ) -> list[Archivable]:
        """Return identities with ended statements that may be archived, in order of their number.

        Parameters
        ----------
        kinds, scope : optional
            Only these kinds, and identities of which everything was said in this scope.
        ended_before_ns : int, optional
            Only what had ended at this world time, nanoseconds, or is not believed; none: now.
        limit : int
            Most identities.
        after : int
            Only identities with a greater number: the last one of the call before.
        """
        return self._archive.archivable(
            self._ended(ended_before_ns), limit, kinds=kinds, scope=scope, after=after
        )

    def archivable_ids(self, identity_ids: Sequence[int]) -> dict[int, list[str]]:
        """Return the ids of ended statements that may be archived, by identity."""
        return self._archive.archivable_ids(identity_ids, self._ended(None))

    def archive(
        self, identity_ids: Sequence[int], *, ended_before_ns: int | None = None, limit: int = 128
    ) -> ArchivedSlice:
        """Move ended statements of identities to the archive, as many as one slice takes.

        Parameters
        ----------
        identity_ids : sequence of int
            In this order; those of which nothing may be moved, or not any more, are passed over.
        ended_before_ns : int, optional
            As in `archivable`.
        limit : int
            Most statements; 128 hold the write lock for less than 5 ms on a small computer.

        Returns
        -------
        ArchivedSlice
            What was moved; nothing when there is nothing left, or somebody wrote to it meanwhile.

        Raises
        ------
        UnsupportedError
            The memory has no file.
        StoreError
            The archive file is refused, or cannot be written; nothing has changed.
        """
        return self._archive.move(identity_ids, self._ended(ended_before_ns), limit)

    def restore_archived(self, identity_ids: Sequence[int], *, limit: int = 128) -> ArchivedSlice:
        """Bring archived identities back into the main file, as many as one slice takes.

        Parameters
        ----------
        limit : int
            Most statements, but at least one identity comes back, and always as a whole.
        """
        return self._archive.restore(identity_ids, limit)

    def archive_info(self) -> ArchiveInfo | None:
        """Return the size of the archive; None: there never was one."""
        return self._archive.info()

    def _ended(self, ended_before_ns: int | None) -> int:
        now_ns = self.now_ns()
        return now_ns if ended_before_ns is None else min(ended_before_ns, now_ns)


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
    ) -> list[ConsolidationCandidate]:
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
    ) -> tuple[int | None, Slice, CommitResult | None]:
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

        def act(txn: Changeset) -> tuple[int, Slice]:
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
    ) -> tuple[Back, CommitResult | None]:
        """Let what summaries stand for hold again, and withdraw them, in one recorded event."""

        def act(txn: Changeset) -> Back:
            within(txn.connection, txn.recorded_at_ns)
            return revert_groups(txn, groups, beneath)

        return self._transact('revert', actor, act, durable=True)


class _NothingDoneError(Exception):
    def __init__(self, done: Slice) -> None:
        super().__init__()
        self.slice = done


class JudgedStore(TransactingStore):
    """What a store over SQLite tells of helpfulness; see `port.Store`."""

    _blank_at = -1

    def helpfulness(self, rows: Sequence[ItemRow]) -> dict[int, Helpfulness]:
        """Return what is counted of item rows, by version row; of what nothing is, none."""
        side_writes = self._side_writes
        if not rows or self._blank_at == side_writes:
            return {}
        with self._db.reading() as connection:
            if any_helpfulness(connection):
                return helpfulness_of(connection, rows)
        if self._is_only_writer:
            self._blank_at = side_writes
        return {}


logger = logging.getLogger(__name__)


class SqliteStore(
    RestoringStore, ErasingStore, EpisodeStore, JudgedStore, ArchivingStore, ConsolidatingStore
):
    """A store in one SQLite file, or in memory; see `port.Store`.

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
        self.path = path_of(url)
        self._config = config
        self._clock = clock
        self._read_only = read_only
        self._file_lock = self._prepare(exclusive and not read_only)
        self._is_only_writer = self.path is None or self._file_lock is not None
        self._db = Database(self.path, config, read_only=read_only)
        self._archive = Archive(self._db, config, self._announce)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _prepare(self, exclusive: bool) -> FileLock | None:
        path = self.path
        if path is None:
            return None
        if self._read_only:
            check_file(path, writable=False)
            return None
        self._make_parent(path)
        lock = FileLock(path) if exclusive else None
        try:
            if path.exists():
                check_file(path, promised=lock.promised if lock is not None else 0)
                migrate(path)
            elif log_of(path).exists():
                raise DamagedFileError(
                    f'database {path} is gone, but its log {path}-wal is not', path=str(path)
                )
            else:
                make_file(path)
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        return lock

    @staticmethod
    def _make_parent(path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise StoreError(f'database {path}: its directory cannot be made: {exc.strerror}') from exc

    def _start(self) -> None:
        if self.path is None:
            with self._db.exclusively() as raw:
                raw.execute(f'PRAGMA application_id = {APPLICATION_ID}')
            with self._db.writing() as connection:
                create(connection)
        if not self._read_only:
            self.side_write(self._first_state, durable=True)
        with self._db.reading() as connection:
            self.epoch = get_state(connection, 'epoch', b'').decode()
            self._check_scope(connection, self.path)
            self.sequence, self._highest_ns = history.last_transaction(connection)
            remains = any_remains(connection)
        self._check_clock()
        self._archive.open()
        if remains and not self._read_only:
            self._erase_remains()

    def _first_state(self, connection: sa.Connection) -> None:
        if not get_state(connection, 'epoch', b''):
            put_state(connection, 'epoch', new_epoch())
            put_state(connection, 'identity_scope', json.dumps(self._config.identity_scope).encode())

    def _check_clock(self) -> None:
        ahead_s = (self._highest_ns - self._clock()) / 1e9
        if ahead_s > self._config.max_clock_step_back_s and not (
            self._config.accept_older_clock or self._read_only
        ):
            raise ClockError(
                f'clock: the last record of {self.path} lies {ahead_s:.0f} s ahead of it, more than '
                f'max_clock_step_back_s {self._config.max_clock_step_back_s:g}; '
                'set accept_older_clock to go on',
                ahead_s=ahead_s,
            )

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
            with self._db.reading() as connection:
                if (known := answer_of_request(connection, request_id)) is not None:
                    return known, None

        config = self._config
        thresholds = Thresholds(
            config.skill_min_traces, config.skill_min_useful, config.skill_max_misleading_share
        )

        def act(txn: Changeset) -> WriteResult:
            # Looked up again under the write lock: the same request may have come twice at once.
            if request_id is not None and (known := answer_of_request(txn.connection, request_id)):
                raise _AnsweredBeforeError(known)
            ready = [resolved(item, txn.recorded_at_ns) for item in items]
            check_stamps(ready, self._config)
            result = write_items(txn, ready, self._config.identity_scope, thresholds)
            if request_id is not None:
                keep_answer(txn, request_id, result, self._config.request_retention)
            return result

        try:
            return self._transact('write', actor, act, durable=durable, dry_run=dry_run, within=within)
        except _AnsweredBeforeError as answered:
            return answered.answer, None

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

        def act(txn: Changeset) -> Removal:
            matched = end_versions(txn, endings, kind)
            ids = [one.id for one in matched]
            asked = json.dumps({'end': endings, 'kind': kind}, ensure_ascii=False)
            keep_audit(txn, reason, asked, ids, len(matched))
            return Removal(len(matched), ids, txn.sequence)

        removal, committed = self._transact('end', actor, act, durable=durable, dry_run=dry_run)
        return removal or Removal(0, sequence=self.sequence), committed

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
        def act(txn: Changeset) -> Removal:
            # The clock may have gone on since the question was made.
            now = replace(asked, at_ns=txn.recorded_at_ns) if asked.world == 'unended' else asked
            matched = matched_versions(txn.connection, txn.archive.match(now, among))
            remove(txn, matched)
            ids = [one.id for one in matched]
            # Skills of every status are meant, whatever was asked.
            query = asked.query.model_dump_json(exclude_defaults=True, exclude={'skill_status'})
            keep_audit(txn, reason, query, ids, len(matched))
            return Removal(len(matched), ids, txn.sequence)

        removal, committed = self._transact(op, actor, act, dry_run=dry_run)
        return removal or Removal(0, sequence=self.sequence), committed

    def add_map(self, map_id: str) -> None:
        """Remember a map."""
        self.side_write(lambda connection: _insert_map(connection, map_id))

    def close(self) -> None:
        """Close the store; safe to repeat."""
        try:
            self._archive.close()
            self._db.close_readers()
            if self._db.checkpoint() and self._file_lock is not None:
                self._file_lock.note_checkpoint()
        except StoreError:
            logger.warning(
                '%s keeps its write-ahead log: the next opening reads it', self.path, exc_info=True
            )
        finally:
            self._db.close()
            self._release()

    def _release(self) -> None:
        if self._file_lock is not None:
            self._file_lock.release()
            self._file_lock = None


class _AnsweredBeforeError(Exception):
    def __init__(self, answer: WriteResult) -> None:
        super().__init__()
        self.answer = answer


def _insert_map(connection: sa.Connection, map_id: str) -> None:
    connection.execute(
        sa.text('INSERT OR IGNORE INTO known_map (map_id) VALUES (:map_id)'), {'map_id': map_id}
    )
