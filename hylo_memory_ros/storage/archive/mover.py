"""A move to the cold file: copied, committed, synced and compared there before it is deleted here.

Two SQLite files have no common commit. So the cold file commits first, through to the disk, and what the
main file then commits at once deletes the rows and says, in `cooled`, that they are cold. Killed in between,
the main file still has everything, and what the cold file has more of counts for nothing. That also holds
when a power cut takes the main file's commit, which need not reach the disk at once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.identity.statement import computed_id
from hylo_memory_ros.errors import StoreBusyError
from hylo_memory_ros.storage.archive.file import put_state_of, state_of
from hylo_memory_ros.storage.archive.schema import STAMPED, moved_tables, places_of, said_tables, spatial
from hylo_memory_ros.storage.archive.selection import Cut
from hylo_memory_ros.storage.archive.state import ArchiveState, mark_in
from hylo_memory_ros.storage.engine.connection import uri_of
from hylo_memory_ros.storage.schema import SIZE

__all__ = [
    'Cooled',
    'Mover',
    'clear_leftovers',
    'complete',
    'copied',
    'delete_copied',
    'differs',
    'overtaken',
]

# ruff: noqa: S608 - SQL of our own tables


class Cooled(NamedTuple):
    """What one slice moved."""

    versions: int = 0
    assertions: int = 0
    bytes: int = 0
    """What left the main file, about; its pages are used again."""
    identity_ids: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()
    """Of the statements."""


class Mover(NamedTuple):
    """A slice that is in the cold file, and not yet out of the main file."""

    cuts: Sequence[Cut]
    assertions: Sequence[int]
    spatial: Sequence[int]
    """Places that nothing speaks of which stays."""
    versions: int
    bytes: int
    until_ns: int
    until_seq: int
    highest: tuple[int, int, int]
    """Of assertions, versions, places."""
    any_given: bool
    """Whether any of it has an id that was given."""
    seq: int
    """The newest transaction that the copy is of."""
    ids: tuple[str, ...]

    @property
    def told(self) -> Cooled:
        """What there is to tell of it."""
        numbers = tuple(cut.identity_id for cut in self.cuts)
        return Cooled(self.versions, len(self.assertions), self.bytes, numbers, self.ids)


def copied(raw: sqlite3.Connection, cuts: Sequence[Cut], mark: ArchiveState) -> Mover | None:
    """Copy a slice into the cold file, commit it there, and read it back.

    Parameters
    ----------
    raw : sqlite3.Connection
        The cold file to be written, the main file attached.
    cuts : sequence of Cut
        What is to go.

    Returns
    -------
    Mover or None
        None: somebody wrote to it meanwhile.
    """
    _prepare(raw)
    raw.execute('BEGIN')
    raw.executemany('INSERT INTO temp.going VALUES (?, ?)', cuts)
    raw.execute(_MOVING)
    raw.execute(_PLACING)
    for table in moved_tables:
        name, columns = table.name, _COLUMNS[table.name]
        if table in said_tables:
            raw.execute(f'DELETE FROM main.{name} WHERE {_WHERE[name]}')
        raw.execute(
            f'INSERT OR REPLACE INTO main.{name} ({columns}) '
            f'SELECT {columns} FROM hot.{name} WHERE {_WHERE[name]}'
        )
    state = state_of(raw)
    put_state_of(raw, state._replace(moves=mark.moves + 1))
    raw.execute('COMMIT')
    raw.execute('BEGIN')
    (seq,) = raw.execute('SELECT coalesce(max(sequence), 0) FROM hot.txn').fetchone()
    same = not differs(raw)
    assertions = [row[0] for row in raw.execute('SELECT assertion_id FROM temp.moving')]
    places = [row[0] for row in raw.execute(_PLACES_TO_GO)]
    versions, size, until_ns, until_seq, *highest = raw.execute(_TOLD).fetchone()
    named = raw.execute(_NAMED).fetchall()
    any_given = any(item_id != computed_id(*of) for item_id, *of in named)
    raw.execute('COMMIT')
    if not same:
        return None
    return Mover(
        cuts,
        assertions,
        places,
        versions,
        size,
        until_ns,
        until_seq,
        tuple(highest),
        any_given,
        seq,
        tuple(row[0] for row in named),
    )


def differs(raw: sqlite3.Connection) -> str:
    """Return the table in which the copy of a slice is not what the main file has; empty: there is none."""
    for table in moved_tables:
        name = table.name
        here, there = (
            f'SELECT {_COLUMNS[name]} FROM {side}.{name} WHERE {_WHERE[name]}' for side in ('hot', 'main')
        )
        if raw.execute(f'SELECT 1 FROM ({here} EXCEPT {there}) LIMIT 1').fetchone():
            return name
        # All of here is there. No row is there twice, so as many of them are the same; but of endings the
        # cold file may have more, from earlier slices.
        counted = f'SELECT (SELECT count(*) FROM ({here})), (SELECT count(*) FROM ({there}))'
        if name != 'forgetting' and len(set(raw.execute(counted).fetchone())) > 1:
            return name
    return ''


def overtaken(connection: sa.Connection, moving: Mover, sequence: int) -> bool:
    """Return whether something of a slice speaks for a version that is believed since the slice was chosen.

    Parameters
    ----------
    sequence : int
        The newest transaction that was known when it was chosen.
    """
    raw: Any = connection.connection.dbapi_connection
    return raw.execute(_OVERTAKEN, (json.dumps(moving.cuts), sequence)).fetchone() is not None


def delete_copied(connection: sa.Connection, moving: Mover, mark: ArchiveState) -> ArchiveState:
    """Delete a slice here, and say that it is cold; return what the main file knows of the cold one then."""
    raw: Any = connection.connection.dbapi_connection
    # Those that refer to others go first: triggers read what a row belongs to.
    for table in reversed(said_tables):
        raw.execute(
            f'DELETE FROM {table.name} WHERE assertion_id IN (SELECT value FROM json_each(?))',
            _json(moving.assertions),
        )
    raw.execute(
        'DELETE FROM spatial WHERE spatial_id IN (SELECT value FROM json_each(?))', _json(moving.spatial)
    )
    raw.executemany('DELETE FROM forgetting WHERE identity_id = ? AND forgotten_at_ns < ?', moving.cuts)
    raw.executemany(_COOLED, moving.cuts)
    assertion, version, spatial = map(max, moving.highest, (mark.assertion, mark.version, mark.spatial))
    return mark._replace(
        moves=mark.moves + 1,
        until_ns=max(mark.until_ns, moving.until_ns),
        until_seq=max(mark.until_seq, moving.until_seq),
        assertion=assertion,
        version=version,
        spatial=spatial,
        any_given=mark.any_given or moving.any_given,
    )


def clear_leftovers(
    raw: sqlite3.Connection, mark: ArchiveState, identity_ids: Sequence[int] | None = None
) -> None:
    """Delete from the cold file what is not cold: it came back, or never left.

    Parameters
    ----------
    raw : sqlite3.Connection
        The cold file to be written, the main file attached.
    mark : ArchiveState
        As the main file has it, through to the disk.
    identity_ids : sequence of int, optional
        Those that may have left something; none: everybody.
    """
    _prepare(raw)
    raw.execute('BEGIN')
    if identity_ids is None:
        raw.execute('INSERT INTO temp.going SELECT DISTINCT identity_id, 0 FROM main.assertion')
        raw.execute('INSERT OR IGNORE INTO temp.going SELECT identity_id, 0 FROM main.forgetting')
    else:
        raw.executemany('INSERT OR IGNORE INTO temp.going VALUES (?, 0)', [(one,) for one in identity_ids])
    raw.execute(_CUT_NOW)
    raw.execute(_LEFT)
    raw.execute(_LEFT_PLACES)
    raw.execute(_LEFT_ENDINGS)
    for table in (*said_tables, spatial):
        raw.execute(f'DELETE FROM main.{table.name} WHERE {_WHERE[table.name]}')
    put_state_of(raw, state_of(raw)._replace(moves=mark.moves, returns=mark.returns))
    raw.execute('COMMIT')


def _prepare(raw: sqlite3.Connection) -> None:
    for name, columns in _TEMPORARY.items():
        raw.execute(f'CREATE TEMP TABLE IF NOT EXISTS {name} ({columns})')
        raw.execute(f'DELETE FROM temp.{name}')


def _json(numbers: Sequence[int]) -> tuple[str]:
    return (json.dumps(list(numbers)),)


def _places(schema: str, assertions: str) -> str:
    """Return SQL for the places that rows of assertions name."""
    return places_of(f'{schema}.', f'assertion_id IN ({assertions})')


def _staying(schema: str) -> str:
    """Return SQL for the assertions of the identities that go, but for what goes of them."""
    return f"""
        SELECT assertion_id FROM {schema}.assertion WHERE identity_id IN (SELECT identity_id FROM temp.going)
        AND assertion_id NOT IN (SELECT assertion_id FROM temp.moving)
    """


_TEMPORARY = {
    'going': 'identity_id INTEGER PRIMARY KEY, before_ns INTEGER',
    'moving': 'assertion_id INTEGER PRIMARY KEY',
    'placing': 'spatial_id INTEGER PRIMARY KEY',
}
_GONE = 'SELECT assertion_id FROM temp.moving'
_COLUMNS = {table.name: ', '.join(table.columns.keys()) for table in moved_tables}
_WHERE = dict.fromkeys((table.name for table in said_tables), f'assertion_id IN ({_GONE})') | {
    'spatial': 'spatial_id IN (SELECT spatial_id FROM temp.placing)',
    'forgetting': """
        identity_id IN (SELECT identity_id FROM temp.going) AND forgotten_at_ns < (
            SELECT before_ns FROM temp.going AS g WHERE g.identity_id = forgetting.identity_id
        )
    """,
}
_MOVING = """
    INSERT INTO temp.moving SELECT a.assertion_id FROM temp.going AS g
    JOIN hot.assertion AS a ON a.identity_id = g.identity_id AND a.valid_from_ns < g.before_ns
"""
_COOLED = """
    INSERT INTO cooled (identity_id, before_ns) VALUES (?, ?)
    ON CONFLICT (identity_id) DO UPDATE SET before_ns = max(before_ns, excluded.before_ns)
"""
_OVERTAKEN = """
    SELECT 1 FROM json_each(?) AS bound JOIN version AS v
    ON v.identity_id = json_extract(bound.value, '$[0]') AND v.to_seq IS NULL
    AND v.valid_from_ns < json_extract(bound.value, '$[1]')
    WHERE v.from_seq > ? LIMIT 1
"""
_PLACING = f'INSERT INTO temp.placing {_places("hot", _GONE)}'
# What stays is looked at only if anything that goes has a place.
_PLACES_TO_GO = f"""
    SELECT spatial_id FROM temp.placing WHERE spatial_id NOT IN ({_places('hot', _staying('hot'))})
"""
_TOLD = f"""
    SELECT
        (SELECT count(*) FROM main.version WHERE assertion_id IN ({_GONE})),
        (SELECT sum({SIZE.format(row='a')}) FROM main.assertion AS a WHERE assertion_id IN ({_GONE})),
        (SELECT coalesce(max(valid_to_ns), 0) FROM main.version
            WHERE assertion_id IN ({_GONE}) AND to_seq IS NULL),
        (SELECT coalesce(max(to_seq), 0) FROM main.version WHERE assertion_id IN ({_GONE})),
        (SELECT max(assertion_id) FROM temp.moving),
        (SELECT coalesce(max(version_row), 0) FROM main.version WHERE assertion_id IN ({_GONE})),
        (SELECT coalesce(max(spatial_id), 0) FROM temp.placing)
"""
_NAMED = f"""
    SELECT a.id, i.kind, a.content_digest, i.digest, a.valid_from_ns
    FROM main.assertion AS a JOIN hot.identity AS i ON i.identity_id = a.identity_id
    WHERE assertion_id IN ({_GONE})
"""
_CUT_NOW = """
    UPDATE temp.going SET before_ns = (
        SELECT coalesce(max(c.before_ns), -1) FROM hot.cooled AS c WHERE c.identity_id = going.identity_id
    )
"""
_LEFT = """
    INSERT INTO temp.moving SELECT a.assertion_id FROM temp.going AS g
    JOIN main.assertion AS a ON a.identity_id = g.identity_id AND a.valid_from_ns >= g.before_ns
"""
_LEFT_PLACES = f"""
    INSERT INTO temp.placing {_places('main', _GONE)}
    EXCEPT SELECT * FROM ({_places('main', _staying('main'))})
"""
_LEFT_ENDINGS = """
    DELETE FROM main.forgetting WHERE identity_id IN (SELECT identity_id FROM temp.going)
    AND forgotten_at_ns >= (
        SELECT before_ns FROM temp.going AS g WHERE g.identity_id = forgetting.identity_id
    )
"""

# ruff: noqa: S608 - SQL of our own tables


def complete(copy: sqlite3.Connection, path: Path) -> None:
    """Bring what is cold back in a copy of a main file.

    Parameters
    ----------
    copy : sqlite3.Connection
        The copy, without a transaction.
    path : Path
        The cold file of what was copied.

    Raises
    ------
    StoreBusyError
        Something came back from the cold file since the copy was made.
    """
    mark = mark_in(copy)
    if mark is None:
        return
    copy.execute('ATTACH ? AS cold', (uri_of(path, 'ro'),))
    try:
        copy.execute('BEGIN')
        if state_of(copy, 'cold').returns > mark.returns:
            raise StoreBusyError(
                f'cold file {path}: something came back from it while it was copied; '
                'the call may be repeated',
                path=str(path),
            )
        for table in moved_tables:
            columns = ', '.join(table.columns.keys())
            copy.execute(
                f'INSERT OR IGNORE INTO main.{table.name} ({columns}) '
                f'SELECT {columns} FROM cold.{table.name} AS said WHERE {_WHERE_COPYING[table.name]}'
            )
        copy.execute('DELETE FROM main.cooled')
        copy.execute("DELETE FROM main.state WHERE name = 'cold'")
        copy.execute('COMMIT')
    finally:
        if copy.in_transaction:
            copy.execute('ROLLBACK')
        copy.execute('DETACH cold')


_IS_COLD = '(SELECT before_ns FROM main.cooled AS c WHERE c.identity_id = {row}.identity_id)'
_ASSERTIONS = f"""
    SELECT assertion_id FROM cold.assertion AS a WHERE a.valid_from_ns < {_IS_COLD.format(row='a')}
"""
_WHERE_COPYING = dict.fromkeys(
    (table.name for table in moved_tables), f'said.assertion_id IN ({_ASSERTIONS})'
) | {name: f'said.{stamp} < {_IS_COLD.format(row="said")}' for name, stamp in STAMPED.items()}
_WHERE_COPYING['spatial'] = f'said.spatial_id IN ({places_of("cold.", f"assertion_id IN ({_ASSERTIONS})")})'
