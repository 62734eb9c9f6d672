"""Database: reader and writer gates, transactions, and translation of SQLite errors.

Threads: `writing` serializes on one lock and one connection. `reading` takes a connection
of its own from a pool; in memory, where there is just one, it takes the writer's lock.
"""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.pool import StaticPool

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import (
    DamagedFileError,
    ReadOnlyError,
    StoreBusyError,
    StoreError,
    StoreFullError,
)
from hylo_memory_ros.storage.engine.connection import (
    CUT_WAIT_MS,
    connected,
    cut_log,
    index_of,
    inode_of,
    log_of,
    made_safe,
    pool_of,
    rewrite,
)


class Admittance:
    """Counts those who read; one who has come in may come in again before leaving."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside: dict[int, int] = {}
        self._shut = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Be counted as a reader; while nobody may come in, wait."""
        me = threading.get_ident()
        with self._condition:
            while self._shut and me not in self._inside:
                self._condition.wait()
            self._inside[me] = self._inside.get(me, 0) + 1
        try:
            yield
        finally:
            with self._condition:
                self._inside[me] -= 1
                if not self._inside[me]:
                    del self._inside[me]
                    self._condition.notify_all()

    @contextmanager
    def shut(self, timeout_s: float) -> Iterator[bool]:
        """Let nobody in, and wait for those inside to leave; False: somebody stayed.

        Parameters
        ----------
        timeout_s : float
            How long to wait for them, on the steady clock.
        """
        me = threading.get_ident()
        with self._condition:
            self._shut = True
        try:
            with self._condition:
                alone = self._condition.wait_for(lambda: not self._inside.keys() - {me}, timeout_s)
            yield alone
        finally:
            with self._condition:
                self._shut = False
                self._condition.notify_all()


_READERS = 4


class Database:
    """One SQLite database: a writer's connection and a pool of readers.

    Parameters
    ----------
    path : Path or None
        The file; None: in memory.
    config : MemoryConfig
        Limits and waiting times.
    read_only : bool
        Open no writer.
    """

    def __init__(self, path: Path | None, config: MemoryConfig, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._config = config
        self._lock = threading.RLock()
        self._admittance = Admittance()
        self._durable = True
        if path is None:
            self._writer = sa.create_engine('sqlite://', creator=self._connect, poolclass=StaticPool)
            self._reader = self._writer
        else:
            self._reader = pool_of(self._connect_reader, _READERS)
            self._writer = sa.create_engine('sqlite://', creator=self._connect, poolclass=StaticPool)
        sa.event.listen(self._writer, 'begin', _begin_immediate)

    def _connect(self) -> sqlite3.Connection:
        if self.path is not None:
            self._inode = inode_of(self.path)
        return self._opened()

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self._opened()
        # What the writer needs to insert into indexes everywhere, a question is hardly faster for (5 % of
        # 100 000 items), and every reader would hold the same pages once more.
        connection.execute('PRAGMA cache_size = -2000')
        connection.execute('PRAGMA query_only = ON')
        return connection

    def _opened(self) -> sqlite3.Connection:
        connection = connected(self.path, 'ro' if self.read_only else 'rw', self._config)
        connection.execute('PRAGMA foreign_keys = ON')
        connection.execute('PRAGMA cache_size = -32000')
        return connection if self.read_only else made_safe(connection, self._config)

    @contextmanager
    def writing(self, *, durable: bool = True, references: bool = True) -> Iterator[sa.Connection]:
        """Hold the write lock for one transaction: commit at a clean end, else roll back.

        Parameters
        ----------
        durable : bool
            Whether the commit must survive a power cut (FULL), or only a killed process (NORMAL).
        references : bool
            Whether each row that is deleted is looked for in every table that may refer to it. Few of
            those have an index for it, so who deletes many checks them all at the end instead.

        Raises
        ------
        StoreBusyError, StoreFullError, ReadOnlyError, DamagedFileError, StoreError
            As SQLite refuses; nothing is stored then.
        """
        if self.read_only:
            raise ReadOnlyError(f'database {self.path} was opened for reading', path=str(self.path))
        with self._lock, translated(self.path), self._writer.connect() as connection:
            self._refuse_moved()
            self._set_durable(connection, durable)
            with self._unchecked(connection, references), connection.begin():
                yield connection

    @staticmethod
    @contextmanager
    def _unchecked(connection: sa.Connection, references: bool) -> Iterator[None]:
        raw: Any = connection.connection.dbapi_connection
        if not references:
            raw.execute('PRAGMA foreign_keys = OFF')
        try:
            yield
        finally:
            if not references:
                raw.execute('PRAGMA foreign_keys = ON')

    def _refuse_moved(self) -> None:
        # SQLite would go on writing to a file that was renamed or deleted under it, unseen by anybody.
        if self.path is not None and inode_of(self.path) != self._inode:
            raise StoreError(
                f'database {self.path} was moved or deleted while it was open', path=str(self.path)
            )

    def _set_durable(self, connection: sa.Connection, durable: bool) -> None:
        if durable != self._durable:
            raw: Any = connection.connection.dbapi_connection
            raw.execute(f'PRAGMA synchronous = {"FULL" if durable else "NORMAL"}')
            self._durable = durable

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Read one consistent state, also through the driver's own connection.

        No read transaction outlives the block.
        """
        if self.path is None:
            with self._lock, translated(None), self._writer.connect() as connection, connection.begin():
                yield connection
            return
        with (
            self._admittance.inside(),
            translated(self.path),
            self._reader.connect() as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def exclusively(self) -> Iterator[sqlite3.Connection]:
        """Hold the write lock without a transaction, with the driver's own connection."""
        with self._lock, translated(self.path), self._writer.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            yield raw

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Hold the write lock with every connection closed, and the file complete without its log.

        Whoever comes to read waits until it is over.

        Raises
        ------
        StoreBusyError
            Somebody who still reads an older state kept the log from being emptied.
        """
        assert self.path is not None
        with self._lock, self._admittance.shut(self._config.busy_timeout_s) as alone:
            self.close_readers()
            if not alone or not self.checkpoint():
                raise StoreBusyError(
                    f'database {self.path}: its log cannot be emptied while somebody reads an older '
                    'state; the call may be repeated',
                    path=str(self.path),
                )
            self.close()
            # Whoever has the file open keeps this log; one that is put in its place begins another.
            log_of(self.path).unlink(missing_ok=True)
            index_of(self.path).unlink(missing_ok=True)
            yield

    def checkpoint(self, wait_ms: int = CUT_WAIT_MS) -> bool:
        """Move every commit from the write-ahead log into the file, as `cut_log` does."""
        if self.path is None or self.read_only:
            return False
        with self.exclusively() as raw:
            return cut_log(raw, self._config, wait_ms)

    def rewrite(self) -> None:
        """Rewrite the whole file, so that nothing deleted is left in it.

        Raises
        ------
        StoreFullError, StoreBusyError
            There is no room for a second time the file, or another process writes; nothing is changed.
        """
        with self.exclusively() as raw:
            rewrite(raw)

    def close_readers(self) -> None:
        """Close the pool of readers, so that a checkpoint can reach the end of the log."""
        self._reader.dispose()

    def close(self) -> None:
        """Close every connection; safe to repeat."""
        self._reader.dispose()
        self._writer.dispose()
        self._durable = True


def _begin_immediate(connection: sa.Connection) -> None:
    # A transaction that reads first and writes later fails at once when another commits
    # between the two, whatever the busy timeout; taking the write lock first waits its turn.
    connection.exec_driver_sql('BEGIN IMMEDIATE')


def store_error(exc: OSError, what: str, path: Path) -> StoreError:
    """Return what the refusal of a file operation means in the error tree of this package."""
    kind: type[StoreError] = StoreError
    if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        kind = StoreFullError
    elif exc.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        kind = ReadOnlyError
    return kind(f'{what}: {exc.strerror}', path=str(path))


@contextmanager
def translated(path: Path | None) -> Iterator[None]:
    """Turn SQLite's refusals into the error tree of this package."""
    try:
        yield
    except sa.exc.DBAPIError as exc:
        raise _meaning(exc.orig, path) from exc
    except sqlite3.Error as exc:
        raise _meaning(exc, path) from exc


@cache
def _insertion(table: sa.Table) -> tuple[str, Callable[[Mapping[str, Any]], tuple[Any, ...]]]:
    return str(table.insert().compile(dialect=sqlite_dialect())), itemgetter(*table.columns.keys())


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that name every column, values ready for SQLite.

    The statement is the table's own, but the rows go to the driver as they are: preparing
    each value again took longer than storing it.
    """
    if rows:
        statement, values = _insertion(table)
        connection.exec_driver_sql(statement, list(map(values, rows)))


def chunks(values: Iterable[Any], size: int = 500) -> Iterator[list[Any]]:
    """Cut values into lists that fit into one SQL statement."""
    values = list(values)
    for start in range(0, len(values), size):
        yield values[start : start + size]


# SQLite's own words for what a robot meets; its extended codes reach Python only from 3.11 on.
_MEANINGS: tuple[tuple[str, type[StoreError], str], ...] = (
    ('is locked', StoreBusyError, 'the lock was not free in time; the call may be repeated'),
    ('disk is full', StoreFullError, 'the disk is full'),
    ('disk I/O error', StoreFullError, 'the disk is full or does not answer'),
    ('readonly database', ReadOnlyError, 'the file cannot be written'),
    ('unable to open', ReadOnlyError, 'the file or its directory cannot be opened for writing'),
    ('malformed', DamagedFileError, 'the file is damaged'),
    ('not a database', DamagedFileError, 'the file is no SQLite database'),
)


def _meaning(error: BaseException | None, path: Path | None) -> StoreError:
    where = f'database {path}' if path else 'database in memory'
    for words, kind, rule in _MEANINGS:
        if words in str(error):
            return kind(f'{where}: {rule} ({error})', path=str(path))
    return StoreError(f'{where}: {error}', path=str(path))
