"""SQLite connections: pragmas, pools and the write-ahead log."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import QueuePool

from hylo_memory_ros.config import MemoryConfig

CUT_WAIT_MS = 1000
"""How long who cuts a log waits for readers: a node must be down within seconds."""


def log_of(path: Path) -> Path:
    """Return where the write-ahead log of a file stands."""
    return path.with_name(f'{path.name}-wal')


def index_of(path: Path) -> Path:
    """Return where the index of that log stands, shared by all who have the file open."""
    return path.with_name(f'{path.name}-shm')


def inode_of(path: Path) -> tuple[int, int] | None:
    """Return which file stands at a path, whatever it was called before; None: there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def uri_of(path: Path, mode: str) -> str:
    """Return the URI by which SQLite opens a file in a mode (``ro`` or ``rw``)."""
    if mode == 'ro' and not os.access(path.parent, os.W_OK) and not log_of(path).exists():
        # SQLite reads a file with a log only beside the log's index, which it cannot make here.
        mode = 'ro&immutable=1'
    return f'{path.absolute().as_uri()}?mode={mode}'


def looking(path: Path) -> sqlite3.Connection:
    """Open a file to look into it once, which leaves nothing beside it."""
    # Without a log nothing can be pending, and an immutable reading makes none.
    mode = 'mode=ro' if log_of(path).exists() else 'immutable=1'
    return sqlite3.connect(f'{path.absolute().as_uri()}?{mode}', uri=True)


def connected(path: Path | None, mode: str, config: MemoryConfig) -> sqlite3.Connection:
    """Open a file for any thread, one at a time; None: a database in memory.

    Parameters
    ----------
    mode : str
        ``ro`` or ``rw``; `made_safe` before anything is written.
    """
    connection = sqlite3.connect(
        ':memory:' if path is None else uri_of(path, mode),
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    connection.execute(f'PRAGMA busy_timeout = {int(config.busy_timeout_s * 1000)}')
    connection.execute('PRAGMA temp_store = MEMORY')
    return connection


def made_safe(connection: sqlite3.Connection, config: MemoryConfig) -> sqlite3.Connection:
    """Let what a connection commits to its main file survive a power cut, and what it deletes be gone."""
    pragmas: dict[str, Any] = {
        'journal_mode': 'WAL',
        'synchronous': 'FULL',
        'journal_size_limit': config.wal_limit_bytes,
        'secure_delete': 'ON',
    }
    for name, value in pragmas.items():
        connection.execute(f'PRAGMA main.{name} = {value}')
    return connection


def pool_of(connect: Callable[[], sqlite3.Connection], size: int) -> sa.Engine:
    """Return a pool of readers: whoever begins a transaction reads one state until its end."""
    pool = sa.create_engine(
        'sqlite://', creator=connect, poolclass=QueuePool, pool_size=size, pool_use_lifo=True
    )
    sa.event.listen(pool, 'begin', _begin_deferred)
    return pool


def _begin_deferred(connection: sa.Connection) -> None:
    connection.exec_driver_sql('BEGIN')


def cut_log(raw: sqlite3.Connection, config: MemoryConfig, wait_ms: int = CUT_WAIT_MS) -> bool:
    """Move every commit from the log of a connection's main file into it, and cut the log to nothing.

    Parameters
    ----------
    wait_ms : int
        How long to wait for those who read an older state.

    Returns
    -------
    bool
        False when somebody who still reads an older state kept it from that.
    """
    raw.execute(f'PRAGMA busy_timeout = {wait_ms}')
    try:
        (busy, _, _) = raw.execute('PRAGMA main.wal_checkpoint(TRUNCATE)').fetchone()
    finally:
        raw.execute(f'PRAGMA busy_timeout = {int(config.busy_timeout_s * 1000)}')
    return not busy


def rewrite(raw: sqlite3.Connection) -> None:
    """Rewrite the main file of a connection, on the disk and not in memory.

    `secure_delete` zeroes a row where it stood last; where a page was split, parts of it may stand
    in what is unused of another. Writers wait, about 1 s for 70 MB; readers do not.
    """
    raw.execute('PRAGMA temp_store = FILE')
    try:
        raw.execute('VACUUM main')
    finally:
        raw.execute('PRAGMA temp_store = MEMORY')
