"""Schema changes, one alembic step each; running them again changes nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from alembic.config import Config

__all__ = ['HEAD', 'current_revision', 'is_known', 'upgrade']

HEAD = '0001'
"""The schema of this version."""

# alembic is imported only when a schema changes: it costs a node a quarter of a second.


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option('script_location', str(Path(__file__).parent))
    config.set_main_option('path_separator', 'os')
    return config


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
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    if revision == HEAD:
        return True
    try:
        return ScriptDirectory.from_config(_config()).get_revision(revision) is not None
    except CommandError:
        return False
