"""State table: named values such as epoch, identity scope, hash states and counters."""

from __future__ import annotations

import json
from pathlib import Path

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.storage.engine.database import Database
from hylo_memory_ros.storage.schema import known_map, state


def get_state(connection: sa.Connection, name: str, default: bytes) -> bytes:
    """Return one entry of the state table."""
    value: bytes | None = connection.execute(_select, {'which': name}).scalar()
    return default if value is None else value


def put_state(connection: sa.Connection, name: str, value: bytes) -> None:
    """Set one entry of the state table."""
    connection.execute(_put, {'name': name, 'value': value})


def identity_scope_of(path: Path) -> tuple[str, ...]:
    """Return the identity scope that a database file was created with."""
    database = Database(path, MemoryConfig(), read_only=True)
    try:
        with database.reading() as connection:
            scope: list[str] = json.loads(get_state(connection, 'identity_scope', b'["map_id"]'))
            return tuple(scope)
    finally:
        database.close()


class StateTable:
    """Entries of the state table by name."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def get(self, name: str, default: bytes = b'') -> bytes:
        """Return an entry."""
        return get_state(self._connection, name, default)

    def put(self, name: str, value: bytes) -> None:
        """Set an entry."""
        put_state(self._connection, name, value)


class MapRepository:
    """Maps that were current or written to."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def load_all(self) -> list[str]:
        """Return all known maps."""
        return list(self._connection.scalars(sa.select(known_map.c.map_id)))

    def add(self, map_id: str) -> None:
        """Remember a map."""
        self._connection.execute(known_map.insert().prefix_with('OR IGNORE'), {'map_id': map_id})


_select = sa.select(state.c.value).where(state.c.name == sa.bindparam('which'))
_put = sa.text(
    'INSERT INTO state (name, value) VALUES (:name, :value) '
    'ON CONFLICT (name) DO UPDATE SET value = excluded.value'
)
