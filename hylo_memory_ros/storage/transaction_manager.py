"""Transaction manager: opens, checks and migrates the file, and numbers its transactions.

Threads: every method may be called from any thread. Writes serialize on the database's lock; `epoch` and
`sequence` are replaced whole under it.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ClockError, ConfigurationError, DamagedFileError, StoreError
from hylo_memory_ros.storage.archive.archive import Archive
from hylo_memory_ros.storage.archive.restorer import Restorer
from hylo_memory_ros.storage.changeset import ArchivedRows, Changeset
from hylo_memory_ros.storage.engine.connection import log_of
from hylo_memory_ros.storage.engine.database import Database
from hylo_memory_ros.storage.engine.file_lock import FileLock
from hylo_memory_ros.storage.engine.files import APPLICATION_ID, check_file, make_file, migrate, path_of
from hylo_memory_ros.storage.engine.state import get_state
from hylo_memory_ros.storage.migrations import create
from hylo_memory_ros.storage.query.select import matching_rows
from hylo_memory_ros.storage.statements import history
from hylo_memory_ros.storage.unit_of_work import ReadView, UnitOfWork, UnnumberedUnitOfWork

logger = logging.getLogger(__name__)

_EXPIRE_EVERY = 256


def new_epoch() -> bytes:
    """Return the name of a history that begins."""
    return uuid.uuid4().hex.encode()


class TransactionManager:
    """Database, archive, file lock and clock of a memory, and the transactions over them.

    Parameters
    ----------
    url, config, clock, read_only, exclusive
        As in `SqliteStore`.

    Attributes
    ----------
    epoch : str
        Name of the history.
    sequence : int
        Number of the newest transaction.
    unnumbered : int
        How many transactions without a number were committed since the memory was opened.
    log_holds_erased : bool
        A reader of an older state kept the log from being cut after a purge; a later commit tries again.
    """

    def __init__(
        self,
        url: str | None,
        config: MemoryConfig,
        clock: Callable[[], int],
        *,
        read_only: bool,
        exclusive: bool,
    ) -> None:
        self.path = path_of(url)
        self.config = config
        self.clock_ns = clock
        self.read_only = read_only
        self.epoch = ''
        self.sequence = 0
        self.unnumbered = 0
        self.log_holds_erased = False
        self._highest_ns = 0
        self.file_lock = self._prepare(exclusive and not read_only)
        self.is_only_writer = self.path is None or self.file_lock is not None
        self.database = Database(self.path, config, read_only=read_only)
        self.archive = Archive(
            self.database, config, self.announce, self.now_ns, is_alone=self.is_only_writer
        )
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _prepare(self, exclusive: bool) -> FileLock | None:
        path = self.path
        if path is None:
            return None
        if self.read_only:
            check_file(path, writable=False)
            return None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise StoreError(f'database {path}: its directory cannot be made: {exc.strerror}') from exc
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

    def _open(self) -> None:
        if self.path is None:
            with self.database.exclusively() as raw:
                raw.execute(f'PRAGMA application_id = {APPLICATION_ID}')
            with self.database.writing() as connection:
                create(connection)
        if not self.read_only:
            with self.begin_unnumbered(durable=True) as uow:
                if not uow.state.get('epoch'):
                    uow.state.put('epoch', new_epoch())
                    uow.state.put('identity_scope', json.dumps(self.config.identity_scope).encode())
        with self.database.reading() as connection:
            self.epoch = get_state(connection, 'epoch', b'').decode()
            self.check_scope(connection, self.path)
            self.sequence, self._highest_ns = history.last_transaction(connection)
        self._check_clock()
        self.archive.open()

    def check_scope(self, connection: sa.Connection, path: Path | None) -> None:
        """Refuse a database whose identities were made with another scope."""
        scope = tuple(json.loads(get_state(connection, 'identity_scope', b'[]')))
        if scope != self.config.identity_scope:
            raise ConfigurationError(
                f'identity_scope: {list(self.config.identity_scope)}, but {path} was created with '
                f'{list(scope)}; it cannot change afterwards: configure that, or use a new file'
            )

    def _check_clock(self) -> None:
        ahead_s = (self._highest_ns - self.clock_ns()) / 1e9
        if ahead_s > self.config.max_clock_step_back_s and not (
            self.config.accept_older_clock or self.read_only
        ):
            raise ClockError(
                f'clock: the last record of {self.path} lies {ahead_s:.0f} s ahead of it, more than '
                f'max_clock_step_back_s {self.config.max_clock_step_back_s:g}; '
                'set accept_older_clock to go on',
                ahead_s=ahead_s,
            )

    def now_ns(self) -> int:
        """Return the highest service time seen."""
        self._highest_ns = max(self._highest_ns, self.clock_ns())
        return self._highest_ns

    def announce(self) -> None:
        """Note in the lock file that commits follow."""
        if self.file_lock is not None:
            self.file_lock.check_held()
            self.file_lock.note_commits()

    @contextmanager
    def read(self) -> Iterator[ReadView]:
        """Open a view of one consistent state, read-only, for the block."""
        with self.database.reading() as connection:
            yield ReadView(connection)

    @contextmanager
    def begin(
        self,
        op: str,
        *,
        actor: str = '',
        durable: bool = True,
        dry_run: bool = False,
        references: bool = True,
    ) -> Iterator[UnitOfWork]:
        """Begin a numbered transaction: commit at a clean end of the block, else roll back.

        Parameters
        ----------
        op, actor : str
            What is done, and for whom.
        durable : bool
            Whether the commit must survive a power cut, or only a killed process.
        dry_run : bool
            Roll back at the end, as `UnitOfWork.discard` does.
        references : bool
            As in `Database.writing`.
        """
        self.announce()
        with self.database.writing(durable=durable, references=references) as connection:
            if self.archive.is_empty:
                rows = ArchivedRows(connection, matching_rows)
            else:
                rows = self.archive.restorer(connection)
            changeset = Changeset(connection, self.config, self.now_ns(), op, actor, rows)
            uow = UnitOfWork(changeset)
            yield uow
            result = changeset.finish()
            if changeset.sequence % _EXPIRE_EVERY == 0:
                history.expire_changes(connection, changeset.sequence - self.config.event_retention)
            if dry_run or changeset.discarded:
                transaction = connection.get_transaction()
                assert transaction is not None
                transaction.rollback()
                return
        uow.result = result
        if durable and self.file_lock is not None:
            self.file_lock.promise(changeset.sequence)
        self.sequence = changeset.sequence
        self._highest_ns = max(self._highest_ns, changeset.recorded_at_ns)
        if isinstance(rows, Restorer):
            self.archive.settle(rows)
        if self.log_holds_erased:
            self.log_holds_erased = not self.database.checkpoint(wait_ms=0)

    @contextmanager
    def begin_unnumbered(self, *, durable: bool = False) -> Iterator[UnnumberedUnitOfWork]:
        """Begin a transaction that takes no sequence, for statistics, ledger and records."""
        self.announce()
        with self.database.writing(durable=durable) as connection:
            yield UnnumberedUnitOfWork(connection)
        self.unnumbered += 1

    def close(self) -> None:
        """Close the memory; safe to repeat."""
        try:
            self.archive.close()
            self.database.close_readers()
            if self.database.checkpoint() and self.file_lock is not None:
                self.file_lock.note_checkpoint()
        except StoreError:
            logger.warning(
                '%s keeps its write-ahead log: the next opening reads it', self.path, exc_info=True
            )
        finally:
            self.database.close()
            if self.file_lock is not None:
                self.file_lock.release()
                self.file_lock = None
