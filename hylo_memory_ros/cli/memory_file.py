"""A memory file as the command line opens it: read only, without its lock, at its own time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.store.database import Database
from hylo_memory_ros.store.transaction import get_state

__all__ = ['opened']


@contextmanager
def opened(path: Path) -> Iterator[MemoryService]:
    """Open a memory file for reading; a node may be writing it meanwhile.

    "Now" is the time of the file's newest record, so that a file tells the same today and
    tomorrow, and whichever clock its robot had.

    Raises
    ------
    StoreError
        The file is missing, damaged, foreign, or of a newer version; it is left untouched.
    """
    try:
        memory = _open(path, MemoryConfig())
    except ConfigurationError:
        memory = _open(path, MemoryConfig(identity_scope=_identity_scope(path)))
    with memory:
        yield memory


def _open(path: Path, config: MemoryConfig) -> MemoryService:
    url = sa.URL.create('sqlite', database=str(path.absolute())).render_as_string()
    return MemoryService.open(url, config=config, clock=lambda: 0, read_only=True)


def _identity_scope(path: Path) -> tuple[str, ...]:
    database = Database(path, MemoryConfig(), read_only=True)
    try:
        with database.reading() as connection:
            scope: list[str] = json.loads(get_state(connection, 'identity_scope', b'["map_id"]'))
            return tuple(scope)
    finally:
        database.close()
