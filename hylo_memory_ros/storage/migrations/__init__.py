"""Migrations of the schema, one alembic step each; running them again changes nothing.

A new file is created from `schema` instead. Used inside `storage` only.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from hylo_memory_ros.storage.schema import create_schema

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ['HEAD', 'create', 'current_revision', 'is_known', 'upgrade']

HEAD = '0001'
"""The schema of this version."""

# As alembic itself makes it.
_VERSION_TABLE = """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""

# alembic is imported only when a schema changes: it costs a node a quarter of a second.


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option('script_location', str(Path(__file__).parent))
    config.set_main_option('path_separator', 'os')
    return config


def create(connection: sa.Connection) -> None:
    """Create the newest schema in an empty database, inside a transaction of the caller."""
    create_schema(connection)
    connection.exec_driver_sql(_VERSION_TABLE)
    connection.exec_driver_sql('INSERT INTO alembic_version (version_num) VALUES (?)', (HEAD,))


def upgrade(connection: sa.Connection) -> None:
    """Bring a database to the newest schema, through a connection without transaction."""
    from alembic import command

    config = _config()
    config.attributes['connection'] = connection
    command.upgrade(config, 'head')


def current_revision(connection: sqlite3.Connection) -> str | None:
    """Return the schema revision of an open file, or None."""
    query = "SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'"
    if not connection.execute(query).fetchone()[0]:
        return None
    row = connection.execute('SELECT version_num FROM alembic_version').fetchone()
    return None if row is None else str(row[0])


def is_known(revision: str) -> bool:
    """Return whether this version of the package knows a schema revision."""
    if revision == HEAD:
        return True
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    try:
        return ScriptDirectory.from_config(_config()).get_revision(revision) is not None
    except CommandError:
        return False
