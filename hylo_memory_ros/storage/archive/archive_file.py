"""Archive file: tables, creation, connections with the main file attached, and refusal of a wrong file.

The name of the main file in its connections is ``live``. A table name without a schema is then that of the
archive file if it has such a table, else that of the main file, so that one statement reads either file.

Threads: `reading` takes a connection of its own from a pool; `moving` serializes on one.
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
from sqlalchemy import Column, Index, LargeBinary, MetaData, Table, Text
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import DamagedFileError, NewerSchemaError, ReadOnlyError, StoreError
from hylo_memory_ros.storage import schema
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

statement_tables = (schema.assertion, schema.version, schema.tag, schema.embedding, schema.corrected)
"""Tables whose rows belong to an assertion."""

spatial = schema.spatial
moved_tables = (spatial, *statement_tables, schema.forgetting)
"""Tables of which rows are moved; what others refer to comes first."""

STAMPED = {'assertion': 'valid_from_ns', 'version': 'valid_from_ns', 'forgetting': 'forgotten_at_ns'}
"""Columns with the world time of a row, which decides whether it is archived."""

archive_metadata = MetaData()


def _twin(table: Table) -> Table:
    """Return a table without references: what it refers to may be in the other file."""
    columns = [
        Column(
            column.name,
            column.type,
            primary_key=column.primary_key,
            nullable=column.nullable,
            server_default=column.server_default and column.server_default.arg,  # type: ignore[attr-defined]
        )
        for column in table.columns
    ]
    options = {'sqlite_with_rowid': table.dialect_options['sqlite']['with_rowid']}
    twin = Table(table.name, archive_metadata, *columns, **options)
    for index in table.indexes:
        where = index.dialect_options['sqlite']['where']
        named = [twin.c[column.name] for column in index.columns]
        Index(index.name, *named, unique=index.unique, sqlite_where=where)
    return twin


for _table in moved_tables:
    _twin(_table)

# Not named `state`: a connection that has both files open must find that of the main file.
FILE_STATE = 'file_state'
Table(
    FILE_STATE,
    archive_metadata,
    Column('name', Text, primary_key=True),
    Column('value', LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)


def places_of(prefix: str, where: str) -> str:
    """Return SQL for the rows of `spatial` that other rows refer to.

    Parameters
    ----------
    prefix : str
        Schema of the tables, with its dot.
    where : str
        Condition over `assertion_id` of the rows in `statement_tables`.
    """
    return ' UNION '.join(
        f'SELECT spatial_id FROM {prefix}{table.name} WHERE ({where}) AND spatial_id NOT NULL'  # noqa: S608
        for table in statement_tables
        if 'spatial_id' in table.c
    )


_APPLICATION_ID = 0x48594C43
"""``HYLC`` in the header of every archive file of this package."""
_VERSION = 1
_READERS = 2
_STATE = f"SELECT value FROM {{schema}}.{FILE_STATE} WHERE name = 'state'"  # noqa: S608
_PUT_STATE = f"INSERT OR REPLACE INTO {FILE_STATE} VALUES ('state', ?)"  # noqa: S608
# Other rows were left by an interrupted move.
_VALID = """
    CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} AS moved WHERE moved.{stamp} < (
        SELECT before_ns FROM live.archived AS c WHERE c.identity_id = moved.identity_id
    )
"""


class ArchiveFileState(NamedTuple):
    """State of the archive as its own file records it; compare `ArchiveState`."""

    id: str
    epoch: str
    """Epoch of the main file that it was created for."""
    moves: int
    returns: int


def read_file_state(connection: Any, schema: str = 'main') -> ArchiveFileState:
    """Return the state of an archive file from a driver's connection in which it has a name."""
    (value,) = connection.execute(_STATE.format(schema=schema)).fetchone()
    return ArchiveFileState(**json.loads(value))


def save_file_state(connection: sqlite3.Connection, state: ArchiveFileState) -> None:
    """Store the state of an archive file."""
    value = json.dumps(state._asdict()).encode()
    connection.execute(_PUT_STATE, (value,))


class ArchiveFile:
    """One archive file beside one main file.

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

    def create(self, known: ArchiveState, epoch: str) -> None:
        """Create an empty archive file for a memory, whole, and rename it to its place.

        Raises
        ------
        ReadOnlyError, StoreFullError
            Its directory cannot be written, or the disk is full; nothing is left behind.
        """
        state = ArchiveFileState(known.id, epoch, known.moves, known.returns)
        with (
            made_whole(self.path) as unfinished,
            translated(self.path),
            closing(sqlite3.connect(unfinished, isolation_level=None)) as connection,
        ):
            connection.execute(f'PRAGMA application_id = {_APPLICATION_ID}')
            connection.execute(f'PRAGMA user_version = {_VERSION}')
            connection.execute('PRAGMA journal_mode = WAL')
            for table in archive_metadata.sorted_tables:
                connection.execute(str(CreateTable(table).compile(dialect=sqlite_dialect())))
                for index in sorted(table.indexes, key=lambda one: str(one.name)):
                    connection.execute(str(CreateIndex(index).compile(dialect=sqlite_dialect())))
            save_file_state(connection, state)

    def check_place(self) -> None:
        """Refuse a place where no file can be created.

        Raises
        ------
        StoreError
            There is a directory, or a parent is a file.
        """
        if self.path.is_dir() or any(path.is_file() for path in self.path.parents):
            raise StoreError(
                f'archive file {self.path}: there is a directory, or a parent is a file', path=str(self.path)
            )

    def check(self, known: ArchiveState) -> ArchiveFileState:
        """Refuse a file that is not the archive as the main file records it, and return its state.

        It is only read, and its pages are not: damage inside is found by whoever reads them, and by `verify`.

        Raises
        ------
        DamagedFileError
            It is missing, damaged, foreign, of another memory, or older or newer than the main file.
        NewerSchemaError
            Written by a newer version.
        ReadOnlyError
            It cannot be read or, in order to be written, not be written.
        """
        problem = 'is missing'
        if self.path.exists():
            state = self.load_state()
            if state.id != known.id:
                problem = 'belongs to another memory'
            elif state.moves < known.moves:
                problem = f'is older than its database: it ends at move {state.moves} of {known.moves}'
            elif state.returns > known.returns:
                problem = f'is newer than its database, which has {known.returns} returns of {state.returns}'
            else:
                return state
        raise DamagedFileError(
            f'archive file {self.path} {problem}; {self._main} has rows there: put the right one back',
            path=str(self.path),
        )

    def is_of(self, epoch: str) -> bool:
        """Return whether it is a sound archive file of an epoch."""
        try:
            return self.load_state().epoch == epoch
        except StoreError:
            return False

    def load_state(self) -> ArchiveFileState:
        """Return the state of an archive file, whoever it belongs to; it is only read.

        Raises
        ------
        DamagedFileError, NewerSchemaError, ReadOnlyError
            It is no archive file, or cannot be used.
        """
        check_outside(self.path)
        if not self._read_only and not (
            os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        ):
            raise ReadOnlyError(
                f'archive file {self.path}: the file or its directory cannot be written', path=str(self.path)
            )
        with translated(self.path), closing(looking(self.path)) as connection:
            if connection.execute('PRAGMA application_id').fetchone() != (_APPLICATION_ID,):
                raise DamagedFileError(
                    f'archive file {self.path} is an SQLite file, but no archive file of this package',
                    path=str(self.path),
                )
            (version,) = connection.execute('PRAGMA user_version').fetchone()
            if version != _VERSION:
                raise NewerSchemaError(
                    f'archive file {self.path} has schema {version}, not {_VERSION}', path=str(self.path)
                )
            try:
                return read_file_state(connection)
            except (TypeError, ValueError) as exc:
                raise DamagedFileError(
                    f'archive file {self.path} has no readable state', path=str(self.path)
                ) from exc

    def _connect(self, mode: str) -> sqlite3.Connection:
        connection = connected(self.path, mode, self._config)
        connection.execute('PRAGMA cache_size = -2000')
        connection.execute('ATTACH ? AS live', (uri_of(self._main, 'ro'),))
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self._connect('ro')
        for table, stamp in STAMPED.items():
            connection.execute(_VALID.format(table=table, stamp=stamp))
        return connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Read one state of both files: first the main file's is fixed, then that of the archive file.

        So what the main file records as archived is there, unless it was brought back in between, which
        `returns` of the archive file shows.
        """
        with translated(self.path), self._readers.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the right to write the archive file without opening it."""
        with self._lock:
            yield

    @contextmanager
    def moving(self) -> Iterator[sqlite3.Connection]:
        """Hold the right to write the archive file, with the driver's own connection, the main file attached.

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
                    f'archive file {self.path} was moved or deleted while it was open', path=str(self.path)
                )
            try:
                yield self._mover
            finally:
                if self._mover.in_transaction:
                    self._mover.execute('ROLLBACK')

    def checkpoint(self) -> bool:
        """Move every commit from the log into the file; False: a reader prevented it."""
        if self._read_only or not log_of(self.path).exists():
            return True
        self._readers.dispose()
        with self.moving() as raw:
            return cut_log(raw, self._config)

    def rewrite(self) -> None:
        """Rewrite the whole file, as `Database.rewrite` does."""
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
        """Rename the file, whose log is empty.

        Raises
        ------
        StoreError
            It cannot be renamed, or the name is taken.
        """
        self.close()
        if name.exists():
            raise StoreError(
                f'archive file {self.path}: {name} exists; it is not overwritten', path=str(name)
            )
        try:
            self.path.rename(name)
            log_of(self.path).unlink(missing_ok=True)
            index_of(self.path).unlink(missing_ok=True)
            sync(name.parent)
        except OSError as exc:
            raise StoreError(
                f'archive file {self.path} cannot be renamed to {name}: {exc.strerror}', path=str(self.path)
            ) from exc
