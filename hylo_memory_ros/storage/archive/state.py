"""What the main file knows of its cold file: which one it is, how far it went, and what may be in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.errors import DamagedFileError

if TYPE_CHECKING:
    from hylo_memory_ros.storage.query.spec import QuerySpec

__all__ = ['ArchiveState', 'mark_in', 'mark_of', 'put_mark']

_SELECT = "SELECT value FROM {schema}.state WHERE name = 'cold'"
_PUT = "INSERT OR REPLACE INTO state (name, value) VALUES ('cold', ?)"


class ArchiveState(NamedTuple):
    """The cold file as the main file has it. Numbers only grow, also when everything came back."""

    id: str
    """Name of the cold file, which both hold."""
    moves: int = 0
    """Moves there that the main file has finished."""
    returns: int = 0
    """Transactions that brought something back."""
    until_ns: int = 0
    """Nothing cold that is believed holds at this world time or later."""
    until_seq: int = 0
    """Nothing cold that is not believed now was believed as of this sequence or later."""
    assertion: int = 0
    """Highest row number of an assertion that was moved."""
    version: int = 0
    spatial: int = 0
    path: str = ''
    """Where it was made, unless beside the main file: who has no parameters finds it there."""
    any_given: bool = False
    """Whether anything that was moved had an id that was given: another statement may come to have it."""

    def reaches(self, asked: QuerySpec) -> bool:
        """Whether a question can have a match in the cold file."""
        if asked.ever_believed or asked.world == 'any' or asked.at_ns < self.until_ns:
            return True
        return asked.seq is not None and asked.seq < self.until_seq


def mark_of(connection: sa.Connection, schema: str = 'main') -> ArchiveState | None:
    """Return what the main file knows of its cold file; None: it never had one.

    Parameters
    ----------
    schema : str
        Where the connection has the main file.
    """
    raw: Any = connection.connection.dbapi_connection
    return mark_in(raw, schema)


def mark_in(raw: Any, schema: str = 'main') -> ArchiveState | None:
    """Return the same from the driver's own connection."""
    row = raw.execute(_SELECT.format(schema=schema)).fetchone()
    if row is None:
        return None
    try:
        return ArchiveState(**json.loads(row[0]))
    except (TypeError, ValueError) as exc:
        raise DamagedFileError('the state of cold storage in the database is damaged') from exc


def put_mark(connection: sa.Connection, mark: ArchiveState) -> None:
    """Keep what the main file knows of its cold file."""
    raw: Any = connection.connection.dbapi_connection
    raw.execute(_PUT, (json.dumps(mark._asdict()).encode(),))
