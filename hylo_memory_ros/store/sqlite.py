"""The store over SQLite: one file, one writer, many readers.

Threads: every method may be called from any thread. Writes serialise on the database's
lock; `epoch` and `sequence` are replaced whole under it.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ClockError, ConfigurationError, DamagedFileError, StoreError
from hylo_memory_ros.model import MemoryItem, Removal, WriteResult
from hylo_memory_ros.skills import Thresholds
from hylo_memory_ros.store import history
from hylo_memory_ros.store.asking import Asked
from hylo_memory_ros.store.checking import verify_database
from hylo_memory_ros.store.cold.cooling import CoolingStore
from hylo_memory_ros.store.cold.reaching import everything
from hylo_memory_ros.store.cold.storage import ColdStorage
from hylo_memory_ros.store.consolidating import ConsolidatingStore
from hylo_memory_ros.store.copies import KEPT, note_copies, noted_copies
from hylo_memory_ros.store.correction import Edit, correct_assertions
from hylo_memory_ros.store.correction_record import Moved
from hylo_memory_ros.store.database import Database, log_of, translated
from hylo_memory_ros.store.ending import Ending, end_versions
from hylo_memory_ros.store.episodes import EpisodeStore
from hylo_memory_ros.store.erasing import ErasingStore, any_remains
from hylo_memory_ros.store.files import (
    APPLICATION_ID,
    check_file,
    copy_database,
    make_file,
    migrate,
    path_of,
    swap_file,
)
from hylo_memory_ros.store.judged import JudgedStore
from hylo_memory_ros.store.lock import FileLock
from hylo_memory_ros.store.migrations import upgrade
from hylo_memory_ros.store.port import Within
from hylo_memory_ros.store.reader import SqliteReader
from hylo_memory_ros.store.removal import (
    Matched,
    forget_versions,
    keep_audit,
    matched_versions,
    retract_versions,
)
from hylo_memory_ros.store.reversal import Reversal, revert
from hylo_memory_ros.store.transaction import Committed, Transaction, get_state, put_state
from hylo_memory_ros.store.writing import (
    answer_of_request,
    check_items,
    check_stamps,
    keep_answer,
    resolved,
    write_items,
)

__all__ = ['SqliteStore']

logger = logging.getLogger(__name__)
T = TypeVar('T')

_EXPIRE_EVERY = 256


class SqliteStore(ErasingStore, EpisodeStore, JudgedStore, CoolingStore, ConsolidatingStore, SqliteReader):
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
        self._cold = ColdStorage(self._db, config, self._announce)
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
                upgrade(connection)
        if not self._read_only:
            self.side_write(self._first_state, durable=True)
        with self._db.reading() as connection:
            self.epoch = get_state(connection, 'epoch', b'').decode()
            self._check_scope(connection, self.path)
            self.sequence, self._highest_ns = history.last_transaction(connection)
            remains = any_remains(connection)
        self._check_clock()
        self._cold.open()
        if remains and not self._read_only:
            self._erase_remains()

    def _first_state(self, connection: sa.Connection) -> None:
        if not get_state(connection, 'epoch', b''):
            put_state(connection, 'epoch', uuid.uuid4().hex.encode())
            put_state(connection, 'identity_scope', json.dumps(self._config.identity_scope).encode())

    def _check_scope(self, connection: sa.Connection, path: Path | None) -> None:
        scope = tuple(json.loads(get_state(connection, 'identity_scope', b'[]')))
        if scope != self._config.identity_scope:
            raise ConfigurationError(
                f'identity_scope: {list(self._config.identity_scope)}, but {path} was made with '
                f'{list(scope)}; who may supersede whom cannot change afterwards'
            )

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

    def clock_ns(self) -> int:
        """Return the service clock, which may lie behind the highest time seen."""
        return self._clock()

    def now_ns(self) -> int:
        """Return the highest service time seen."""
        self._highest_ns = max(self._highest_ns, self._clock())
        return self._highest_ns

    def _transact(
        self,
        op: str,
        actor: str,
        act: Callable[[Transaction], T],
        *,
        durable: bool = True,
        dry_run: bool = False,
        within: Within | None = None,
        references: bool = True,
    ) -> tuple[T, Committed | None]:
        self._announce()
        with self._db.writing(durable=durable, references=references) as connection:
            returning = self._cold.returning(connection)
            txn = Transaction(connection, self.now_ns(), op, actor, returning)
            result = act(txn)
            if within is not None:
                within(connection, txn.sequence)
            committed = txn.finish()
            if txn.sequence % _EXPIRE_EVERY == 0:
                history.expire_changes(connection, txn.sequence - self._config.event_retention)
            if dry_run or result == 0:  # a removal that found nothing leaves nothing
                transaction = connection.get_transaction()
                assert transaction is not None
                transaction.rollback()
                return result, None
        if durable and self._file_lock is not None:
            self._file_lock.promise(txn.sequence)
        self.sequence, self._highest_ns = txn.sequence, max(self._highest_ns, txn.recorded_at_ns)
        self._cold.settle(returning)
        self._cut_log()
        return result, committed

    def _announce(self) -> None:
        if self._file_lock is not None:
            self._file_lock.note_commits()

    def side_write(self, within: Callable[[sa.Connection], None], *, durable: bool = False) -> None:
        """Change side tables in a transaction that takes no sequence."""
        self._announce()
        with self._db.writing(durable=durable) as connection:
            within(connection)
        self._side_writes += 1

    def write(
        self,
        items: Sequence[MemoryItem],
        *,
        request_id: str | None = None,
        actor: str = '',
        dry_run: bool = False,
        durable: bool = True,
        within: Within | None = None,
    ) -> tuple[WriteResult, Committed | None]:
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

        def act(txn: Transaction) -> WriteResult:
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
        self, asked: Asked, among: Sequence[int] | None, *, reason: str, actor: str, dry_run: bool
    ) -> tuple[Removal, Committed | None]:
        """End what matches at the service time."""
        return self._remove('forget', asked, among, forget_versions, reason, actor, dry_run)

    def retract(
        self, asked: Asked, among: Sequence[int] | None, *, reason: str, actor: str, dry_run: bool
    ) -> tuple[Removal, Committed | None]:
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
    ) -> tuple[Removal, Committed | None]:
        """End what holds at the stated world times."""

        def act(txn: Transaction) -> Removal:
            matched = end_versions(txn, endings, kind)
            ids = [one.id for one in matched]
            asked = json.dumps({'end': endings, 'kind': kind}, ensure_ascii=False)
            keep_audit(txn, reason, asked, ids, len(matched))
            return Removal(len(matched), ids, txn.sequence)

        removal, committed = self._transact('end', actor, act, durable=durable, dry_run=dry_run)
        return removal or Removal(0, sequence=self.sequence), committed

    def correct(
        self, prepare: Callable[[sa.Connection], Edit | Reversal], *, actor: str, dry_run: bool
    ) -> tuple[Moved, Committed | None]:
        """Move what was asserted in a map, or take that back, in one recorded event."""

        def act(txn: Transaction) -> Moved:
            plan = prepare(txn.connection)
            if isinstance(plan, Reversal):
                moved = revert(txn, plan)
            else:
                moved = correct_assertions(txn, plan, self._config.identity_scope)
                ready = [resolved(item, txn.recorded_at_ns) for item in plan.items]
                write_items(txn, ready, self._config.identity_scope)
            if plan.within is not None:
                plan.within(txn.connection, txn.sequence)
            return moved

        return self._transact('correct', actor, act, dry_run=dry_run)

    def _remove(
        self,
        op: str,
        asked: Asked,
        among: Sequence[int] | None,
        remove: Callable[[Transaction, Sequence[Matched]], None],
        reason: str,
        actor: str,
        dry_run: bool,
    ) -> tuple[Removal, Committed | None]:
        def act(txn: Transaction) -> Removal:
            # The clock may have gone on since the question was made.
            now = replace(asked, at_ns=txn.recorded_at_ns) if asked.world == 'unended' else asked
            matched = matched_versions(txn.connection, txn.cold.matching(now, among))
            remove(txn, matched)
            ids = [one.id for one in matched]
            # Skills of every status are meant, whatever was asked.
            query = asked.query.model_dump_json(exclude_defaults=True, exclude={'skill_status'})
            keep_audit(txn, reason, query, ids, len(matched))
            return Removal(len(matched), ids, txn.sequence)

        removal, committed = self._transact(op, actor, act, dry_run=dry_run)
        return removal or Removal(0, sequence=self.sequence), committed

    def _free_name(self, stamp_ns: int) -> Path:
        """Return a name that no file kept by a restore has, also not one of the same time."""
        assert self.path is not None
        names = (self.path.with_name(f'{self.path.name}{KEPT}{stamp}') for stamp in count(stamp_ns))
        return next(name for name in names if not name.exists())

    def restore(self, source: Path, ready: Callable[[sa.Connection], None] | None = None) -> Committed:
        """Put a verified copy in the place of the whole memory, and begin a new epoch."""
        check_file(source, writable=False)
        epoch, copies = _new_epoch(), self.side_read(noted_copies)
        candidate = Database(source, self._config, read_only=True)
        cold = ColdStorage(candidate, self._config.model_copy(update={'cold_path': ''}), self._announce)
        try:
            cold.open()
            with cold.reading(everything) as halves:
                connection = halves.hot
                self._check_scope(connection, source)
                report = verify_database(connection, self._config.identity_scope, *halves.all[1:])
                if not report.ok:
                    raise DamagedFileError(
                        f'restore from {source}: {"; ".join(report.problems)}', path=str(source)
                    )
                if ready is not None:
                    ready(connection)
                raw: Any = connection.connection.dbapi_connection
                self._replace(raw, epoch, cold.complete)
        finally:
            cold.close()
            candidate.close()

        def act(txn: Transaction) -> None:
            put_state(txn.connection, 'epoch', epoch)
            note_copies(txn.connection, copies)

        _, committed = self._transact('restore', '', act)
        assert committed is not None
        self.epoch = epoch.decode()
        self._look_for_episodes()
        self._side_writes += 1
        return committed

    def _replace(self, source: Any, epoch: bytes, complete: Callable[[sqlite3.Connection], None]) -> None:
        if self.path is None:
            with self._db.exclusively() as raw:
                source.backup(raw)
                complete(raw)
            return
        incoming = self.path.with_name(f'.{self.path.name}.restored')
        incoming.unlink(missing_ok=True)
        copy_database(source, incoming, complete)
        migrate(incoming)
        # Renamed before the swap: at no moment does the old name stand for the other history.
        with translated(incoming), closing(sqlite3.connect(incoming)) as raw, raw:
            raw.execute("UPDATE state SET value = ? WHERE name = 'epoch'", (epoch,))
        kept = self._free_name(self.now_ns())
        with self._cold.replaced(incoming, kept), self._db.closed():
            if self._file_lock is not None:
                self._file_lock.note_checkpoint()
            swap_file(self.path, incoming, kept)
        logger.info('restored %s; the memory before is kept as %s', self.path, kept)

    def add_map(self, map_id: str) -> None:
        """Remember a map."""
        self.side_write(lambda connection: _insert_map(connection, map_id))

    def close(self) -> None:
        """Close the store; safe to repeat."""
        try:
            self._cold.close()
            self._db.close_readers()
            if self._db.checkpoint() and self._file_lock is not None:
                self._file_lock.note_checkpoint()
        except StoreError:
            logger.warning(
                '%s keeps its write-ahead log: the next opening reads it', self.path, exc_info=True
            )
        finally:
            self._cold.close()
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


def _new_epoch() -> bytes:
    return uuid.uuid4().hex.encode()


def _insert_map(connection: sa.Connection, map_id: str) -> None:
    connection.execute(
        sa.text('INSERT OR IGNORE INTO known_map (map_id) VALUES (:map_id)'), {'map_id': map_id}
    )
