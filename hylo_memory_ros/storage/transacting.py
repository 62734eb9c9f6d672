"""Transactions of a store over SQLite: one writer, a sequence for each, and what follows a commit.

Threads: every method may be called from any thread. Writes serialise on the database's lock; `epoch` and
`sequence` are replaced whole under it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.storage.archive.archive import Archive
from hylo_memory_ros.storage.changeset import Changeset, CommitResult
from hylo_memory_ros.storage.engine.database import Database
from hylo_memory_ros.storage.engine.file_lock import FileLock
from hylo_memory_ros.storage.engine.state import get_state
from hylo_memory_ros.storage.ports import Within
from hylo_memory_ros.storage.reader import SqliteReader
from hylo_memory_ros.storage.statements import history
from hylo_memory_ros.storage.unit_of_work import UnitOfWork, UnnumberedUnitOfWork

__all__ = ['TransactingStore']

T = TypeVar('T')

_EXPIRE_EVERY = 256


class TransactingStore(SqliteReader):
    """What changes a database, one transaction after the other; see `port.Store`."""

    path: Path | None
    epoch: str
    sequence: int
    _config: MemoryConfig
    _clock: Callable[[], int]
    _highest_ns: int
    _read_only: bool
    _db: Database
    _archive: Archive
    _file_lock: FileLock | None
    _is_only_writer: bool
    _side_writes = 0
    # Somebody reads what was purged: its bytes stay in the log until a later commit can cut it.
    _log_tells = False

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
        act: Callable[[Changeset], T],
        *,
        durable: bool = True,
        dry_run: bool = False,
        within: Within | None = None,
        references: bool = True,
    ) -> tuple[T, CommitResult | None]:
        with self.begin(op, actor=actor, durable=durable, dry_run=dry_run, references=references) as uow:
            result = act(uow.changeset)
            if within is not None:
                within(uow)
            if result == 0:  # a removal that found nothing leaves nothing
                uow.discard()
        return result, uow.result

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
        self._announce()
        with self._db.writing(durable=durable, references=references) as connection:
            restorer = self._archive.restorer(connection)
            changeset = Changeset(connection, self.now_ns(), op, actor, restorer)
            uow = UnitOfWork(changeset, self._config)
            yield uow
            result = changeset.finish()
            if changeset.sequence % _EXPIRE_EVERY == 0:
                history.expire_changes(connection, changeset.sequence - self._config.event_retention)
            if dry_run or uow.discarded:
                transaction = connection.get_transaction()
                assert transaction is not None
                transaction.rollback()
                return
        uow.result = result
        if durable and self._file_lock is not None:
            self._file_lock.promise(changeset.sequence)
        self.sequence = changeset.sequence
        self._highest_ns = max(self._highest_ns, changeset.recorded_at_ns)
        self._archive.settle(restorer)
        self._cut_log()

    @contextmanager
    def begin_unnumbered(self, *, durable: bool = False) -> Iterator[UnnumberedUnitOfWork]:
        """Begin a transaction that takes no sequence, for statistics, ledger and records."""
        self._announce()
        with self._db.writing(durable=durable) as connection:
            yield UnnumberedUnitOfWork(connection)
        self._side_writes += 1

    def _announce(self) -> None:
        if self._file_lock is not None:
            self._file_lock.note_commits()

    def side_write(self, within: Callable[[sa.Connection], None], *, durable: bool = False) -> None:
        """Change side tables in a transaction that takes no sequence."""
        self._announce()
        with self._db.writing(durable=durable) as connection:
            within(connection)
        self._side_writes += 1

    def _check_scope(self, connection: sa.Connection, path: Path | None) -> None:
        scope = tuple(json.loads(get_state(connection, 'identity_scope', b'[]')))
        if scope != self._config.identity_scope:
            raise ConfigurationError(
                f'identity_scope: {list(self._config.identity_scope)}, but {path} was made with '
                f'{list(scope)}; who may supersede whom cannot change afterwards'
            )

    def _cut_log(self) -> None:
        """Cut a log that somebody still read when something was purged."""
        if self._log_tells:
            self._log_tells = not self._db.checkpoint(wait_ms=0)
