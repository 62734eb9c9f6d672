"""The cold file: made whole and renamed, opened beside the main file, refused when it is not the one.

Its connections have the main file attached as ``hot``. A name without a schema is then that of the cold file
if it has such a table, else that of the main file, so that one statement asks either file.

Threads: `reading` takes a connection of its own from a pool; `moving` serialises on one.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import DamagedFileError, NewerSchemaError, ReadOnlyError, StoreError
from hylo_memory_ros.storage.archive.schema import COLD_STATE, STAMPED, cold_metadata
from hylo_memory_ros.storage.archive.state import ArchiveState
from hylo_memory_ros.storage.engine.connection import (
    connected,
    cut_log,
    index_of,
    inode_of,
    log_of,
    looking,
    made_safe,
    pool_of,
    rewrite,
    uri_of,
)
from hylo_memory_ros.storage.engine.database import translated
from hylo_memory_ros.storage.engine.files import check_outside, made_whole, sync

__all__ = ['ColdFile', 'ColdState', 'put_state_of', 'state_of']

_APPLICATION_ID = 0x48594C43
"""``HYLC`` in the header of every cold file of this package."""
_VERSION = 1
_READERS = 2
_STATE = f"SELECT value FROM {{schema}}.{COLD_STATE} WHERE name = 'state'"  # noqa: S608
_PUT_STATE = f"INSERT OR REPLACE INTO {COLD_STATE} VALUES ('state', ?)"  # noqa: S608
# What else is there was left over by a move that was interrupted.
_VALID = """
    CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} AS said WHERE said.{stamp} < (
        SELECT before_ns FROM hot.cooled AS c WHERE c.identity_id = said.identity_id
    )
"""


class ColdState(NamedTuple):
    """How far a cold file is; compare `ArchiveState`."""

    id: str
    epoch: str
    """History of the main file that it was made for."""
    moves: int
    returns: int


def state_of(connection: Any, schema: str = 'main') -> ColdState:
    """Return how far a cold file is, from the driver's own connection and the name that it has there."""
    (value,) = connection.execute(_STATE.format(schema=schema)).fetchone()
    return ColdState(**json.loads(value))


def put_state_of(connection: sqlite3.Connection, state: ColdState) -> None:
    """Set how far a cold file is."""
    value = json.dumps(state._asdict()).encode()
    connection.execute(_PUT_STATE, (value,))


class ColdFile:
    """One cold file beside one main file.

    Parameters
    ----------
    path, main : Path
        The two files.
    config : MemoryConfig
        Limits and waiting times.
    read_only : bool
        Never write it.
    """

    def __init__(self, path: Path, main: Path, config: MemoryConfig, *, read_only: bool) -> None:
        self.path = path
        self._main = main
        self._config = config
        self._read_only = read_only
        self._lock = threading.RLock()
        self._mover: sqlite3.Connection | None = None
        self._readers = pool_of(self._connect_reader, _READERS)

    def make(self, mark: ArchiveState, epoch: str) -> None:
        """Make an empty cold file for a memory, whole, and rename it to its place.

        Raises
        ------
        ReadOnlyError, StoreFullError
            Its directory cannot be written, or the disk is full; nothing is left behind.
        """
        state = ColdState(mark.id, epoch, mark.moves, mark.returns)
        with (
            made_whole(self.path) as unfinished,
            translated(self.path),
            closing(sqlite3.connect(unfinished, isolation_level=None)) as connection,
        ):
            connection.execute(f'PRAGMA application_id = {_APPLICATION_ID}')
            connection.execute(f'PRAGMA user_version = {_VERSION}')
            connection.execute('PRAGMA journal_mode = WAL')
            for table in cold_metadata.sorted_tables:
                connection.execute(str(CreateTable(table).compile(dialect=sqlite_dialect())))
                for index in sorted(table.indexes, key=lambda one: str(one.name)):
                    connection.execute(str(CreateIndex(index).compile(dialect=sqlite_dialect())))
            put_state_of(connection, state)

    def check(self, mark: ArchiveState) -> ColdState:
        """Refuse a file that does not hold what the main file has there, and return how far it is.

        It is only read, and its pages are not: damage inside is found by whoever reads them, and by `verify`.

        Raises
        ------
        DamagedFileError
            It is missing, damaged, foreign, of another memory, or older than the main file, or the main file
            is older than it.
        NewerSchemaError
            Written by a newer version.
        ReadOnlyError
            It cannot be read or, in order to be written, not be written.
        """
        rule = f'{self._main} has rows there: put it back'
        if not self.path.exists():
            raise DamagedFileError(f'cold file {self.path} is missing, and {rule}', path=str(self.path))
        state = self.look()
        if state.id != mark.id:
            raise DamagedFileError(
                f'cold file {self.path} belongs to another memory, and {rule}', path=str(self.path)
            )
        if state.moves < mark.moves:
            raise DamagedFileError(
                f'cold file {self.path} is older than {self._main}: it ends at move {state.moves}, but '
                f'{mark.moves} were made; put the newer one back, with its {log_of(self.path).name}',
                path=str(self.path),
            )
        if state.returns > mark.returns:
            raise DamagedFileError(
                f'cold file {self.path} is newer than {self._main}: it gave something back {state.returns} '
                f'times, of which the database has {mark.returns}; put the newer database back',
                path=str(self.path),
            )
        return state

    def is_of(self, epoch: str) -> bool:
        """Return whether it is a sound cold file that was made for a history."""
        try:
            return self.look().epoch == epoch
        except StoreError:
            return False

    def look(self) -> ColdState:
        """Return how far a cold file is, whoever it belongs to; it is only read.

        Raises
        ------
        DamagedFileError, NewerSchemaError, ReadOnlyError
            It is none, or cannot be used.
        """
        check_outside(self.path)
        if not self._read_only and not (
            os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        ):
            raise ReadOnlyError(
                f'cold file {self.path}: the file or its directory cannot be written', path=str(self.path)
            )
        with translated(self.path), closing(looking(self.path)) as connection:
            if connection.execute('PRAGMA application_id').fetchone() != (_APPLICATION_ID,):
                raise DamagedFileError(
                    f'cold file {self.path} is an SQLite file, but no cold file of this package',
                    path=str(self.path),
                )
            (version,) = connection.execute('PRAGMA user_version').fetchone()
            if version != _VERSION:
                raise NewerSchemaError(
                    f'cold file {self.path} has schema {version}, not {_VERSION}', path=str(self.path)
                )
            try:
                return state_of(connection)
            except (TypeError, ValueError) as exc:
                raise DamagedFileError(
                    f'cold file {self.path} does not say what it is of', path=str(self.path)
                ) from exc

    def _connect(self, mode: str) -> sqlite3.Connection:
        connection = connected(self.path, mode, self._config)
        connection.execute('PRAGMA cache_size = -2000')
        connection.execute('ATTACH ? AS hot', (uri_of(self._main, 'ro'),))
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self._connect('ro')
        for table, stamp in STAMPED.items():
            connection.execute(_VALID.format(table=table, stamp=stamp))
        return connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Read one state of both files: first the main file's is fixed, then that of the cold file.

        So whatever the main file has there is there, unless it was brought back in between: `returns` of the
        cold file tells.
        """
        with translated(self.path), self._readers.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the right to write the cold file without opening it."""
        with self._lock:
            yield

    @contextmanager
    def moving(self) -> Iterator[sqlite3.Connection]:
        """Hold the right to write the cold file, with the driver's own connection, the main file attached.

        Raises
        ------
        StoreError
            It was moved or deleted while it was open.
        """
        with self._lock, translated(self.path):
            if self._mover is None:
                self._mover = made_safe(self._connect('rw'), self._config)
                self._inode = inode_of(self.path)
            if inode_of(self.path) != self._inode:
                raise StoreError(
                    f'cold file {self.path} was moved or deleted while it was open', path=str(self.path)
                )
            try:
                yield self._mover
            finally:
                if self._mover.in_transaction:
                    self._mover.execute('ROLLBACK')

    def checkpoint(self) -> bool:
        """Move every commit from the log into the file; False: somebody who reads kept it from that."""
        if self._read_only or not log_of(self.path).exists():
            return True
        self._readers.dispose()
        with self.moving() as raw:
            return cut_log(raw, self._config)

    def rewrite(self) -> None:
        """Write the whole file anew, as `Database.rewrite` does."""
        with self.moving() as raw:
            rewrite(raw)

    def close(self) -> None:
        """Close every connection; safe to repeat."""
        self._readers.dispose()
        with self._lock:
            if self._mover is not None:
                self._mover.close()
                self._mover = None

    def remove(self) -> None:
        """Delete the file."""
        self.close()
        for path in (log_of(self.path), index_of(self.path), self.path):
            path.unlink(missing_ok=True)

    def rename(self, name: Path) -> None:
        """Give the file, whose log is empty, another name.

        Raises
        ------
        StoreError
            It cannot be renamed, or something has that name.
        """
        self.close()
        if name.exists():
            raise StoreError(f'cold file {self.path}: {name} exists; it is not overwritten', path=str(name))
        try:
            self.path.rename(name)
            log_of(self.path).unlink(missing_ok=True)
            index_of(self.path).unlink(missing_ok=True)
            sync(name.parent)
        except OSError as exc:
            raise StoreError(
                f'cold file {self.path} cannot be renamed to {name}: {exc.strerror}', path=str(self.path)
            ) from exc
