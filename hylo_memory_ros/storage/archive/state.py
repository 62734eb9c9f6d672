"""State of the archive recorded in the main file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.errors import DamagedFileError

if TYPE_CHECKING:
    from hylo_memory_ros.storage.query.spec import QuerySpec


_SELECT = "SELECT value FROM {schema}.state WHERE name = 'archive'"
_PUT = "INSERT OR REPLACE INTO state (name, value) VALUES ('archive', ?)"


class ArchiveState(NamedTuple):
    """The archive as the main file records it. Numbers only grow, also when everything came back."""

    id: str
    """Name of the archive file, which both files hold."""
    moves: int = 0
    """Moves there that the main file has finished."""
    returns: int = 0
    """Transactions that brought something back."""
    until_ns: int = 0
    """No archived version that is believed holds at this world time or later."""
    until_seq: int = 0
    """No archived version that is not believed now was believed as of this sequence or later."""
    assertion: int = 0
    """Highest row number of an assertion that was moved."""
    version: int = 0
    spatial: int = 0
    any_given: bool = False
    """Whether any archived statement had an id that was given: another statement may come to have it."""

    def reaches(self, asked: QuerySpec) -> bool:
        """Return whether a query can have a match in the archive."""
        if asked.ever_believed or asked.world == 'any' or asked.at_ns < self.until_ns:
            return True
        return asked.seq is not None and asked.seq < self.until_seq


def load_state(connection: sa.Connection, schema: str = 'main') -> ArchiveState | None:
    """Return the state of the archive; None: there never was one.

    Parameters
    ----------
    schema : str
        Name of the main file in the connection.
    """
    raw: Any = connection.connection.dbapi_connection
    return read_state(raw, schema)


def read_state(raw: Any, schema: str = 'main') -> ArchiveState | None:
    """Return the same from the driver's own connection."""
    row = raw.execute(_SELECT.format(schema=schema)).fetchone()
    if row is None:
        return None
    try:
        return ArchiveState(**json.loads(row[0]))
    except (TypeError, ValueError) as exc:
        raise DamagedFileError('the state of the archive in the database is damaged') from exc


def save_state(connection: sa.Connection, state: ArchiveState) -> None:
    """Store the state of the archive."""
    raw: Any = connection.connection.dbapi_connection
    raw.execute(_PUT, (json.dumps(state._asdict()).encode(),))


Reached = Callable[[sa.Connection, ArchiveState], bool]
"""Decides whether a read needs the archive, from the main file and the state of the archive."""


def everything(_live: sa.Connection, _state: ArchiveState) -> bool:
    """Read the archive if there is one."""
    return True


def nothing(_live: sa.Connection, _state: ArchiveState) -> bool:
    """Read the main file alone."""
    return False


def given_ids(_live: sa.Connection, state: ArchiveState) -> bool:
    """Read the archive for given ids: a computed id belongs to one statement only."""
    return state.any_given


def reached_by(asked: QuerySpec) -> Reached:
    """Read the archive where a query can have a match there."""

    def reached(live: sa.Connection, state: ArchiveState) -> bool:
        if not state.reaches(asked):
            return False
        keys = asked.query.all_keys
        return not keys or asked.query.depth > 1 or _any_archived(live, keys)

    return reached


def reached_by_history(key: str | None) -> Reached:
    """Read the archive where the history of a key, or of an id, goes back to it."""
    return lambda live, _: key is None or _any_archived(live, [key])


def _any_archived(live: sa.Connection, keys: Sequence[str]) -> bool:
    """Return whether a statement with one of these keys is archived."""
    raw: Any = live.connection.dbapi_connection
    return raw.execute(_ANY_ARCHIVED, (json.dumps(list(keys)),)).fetchone() is not None


_ANY_ARCHIVED = """
    SELECT 1 FROM identity AS i JOIN archived AS c ON c.identity_id = i.identity_id
    WHERE i.key IN (SELECT value FROM json_each(?)) LIMIT 1
"""
