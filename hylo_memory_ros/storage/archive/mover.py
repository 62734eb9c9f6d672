"""Selection of statements for the archive, and their move: copied, synced, compared, then deleted.

Two SQLite files have no common commit. So the archive file commits first, through to the disk; the main file
then deletes the rows and records in `archived` that they are there, in one commit. After a kill in between
the main file still has everything, and what the archive file has more of counts for nothing. That also holds
when a power cut takes the main file's commit, which need not reach the disk at once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.identity.statement import computed_id
from hylo_memory_ros.errors import StoreBusyError
from hylo_memory_ros.storage.archive.archive_file import (
    STAMPED,
    moved_tables,
    places_of,
    read_file_state,
    save_file_state,
    spatial,
    statement_tables,
)
from hylo_memory_ros.storage.archive.state import ArchiveState, read_state
from hylo_memory_ros.storage.consolidation.candidates import ANY_SCOPE, IN_SCOPE, scope_values
from hylo_memory_ros.storage.engine.connection import uri_of
from hylo_memory_ros.storage.schema import SIZE

# ruff: noqa: S608 - SQL of our own tables


NEVER_NS = 2**63 - 1
"""Cut of an identity that is archived as a whole."""
_BATCH = 500
# The files of skills are compared with the database whenever it is opened.
_LIVE_KINDS = ('skill',)


class Archivable(NamedTuple):
    """An identity with statements that may be archived."""

    identity_id: int
    kind: str
    assertions: int
    """Accepted statements that would leave the main file."""
    bytes: int
    """Approximate size of those statements."""
    before_ns: int
    """All that speaks from before this world time; `NEVER_NS`: all."""


class Cut(NamedTuple):
    """Part of an identity that is moved in one slice."""

    identity_id: int
    before_ns: int
    """All that speaks from before this world time."""


def find_archivable(
    connection: sa.Connection,
    ended_before_ns: int,
    limit: int,
    *,
    kinds: Collection[str] | None,
    scope: Mapping[str, str] | None,
    after: int,
) -> list[Archivable]:
    """Return identities with statements that may be archived, in order of their number.

    Of one that still holds, the newest two versions stay, so that it goes on without its past.
    A landmark whose end perception has not recorded stays whole.

    Parameters
    ----------
    ended_before_ns : int
        Only what had ended at this world time, nanoseconds.
    limit : int
        Most identities.
    kinds, scope : optional
        Only these kinds, and identities with every statement in this scope.
    after : int
        Only identities with a greater number.
    """
    raw: Any = connection.connection.dbapi_connection
    found: list[Archivable] = []
    values = {
        'kinds': None if kinds is None else json.dumps(sorted(kinds)),
        'batch': _BATCH,
        **scope_values(scope),
    }
    while len(found) < limit:
        numbers = [row[0] for row in raw.execute(_NUMBERS, {**values, 'after': after})]
        if not numbers:
            break
        rows = raw.execute(_ENDED, {**values, 'ids': json.dumps(numbers), 'ended': ended_before_ns})
        found += [Archivable(*row) for row in rows]
        after = numbers[-1]
    return found[:limit]


def find_archivable_ids(
    connection: sa.Connection, identity_ids: Sequence[int], ended_before_ns: int
) -> dict[int, list[str]]:
    """Return the ids of statements that may be archived, by identity, in order of world time."""
    raw: Any = connection.connection.dbapi_connection
    values = {'ids': json.dumps(list(identity_ids)), 'ended': ended_before_ns, **scope_values(None)}
    found: dict[int, list[str]] = {}
    for identity_id, item_id in raw.execute(_LEAVING, values):
        found.setdefault(identity_id, []).append(item_id)
    return found


def find_cuts(connection: Any, identity_ids: Sequence[int], ended_before_ns: int, limit: int) -> list[Cut]:
    """Return the cuts of one slice: as many statements as a limit allows, at least those of one instant.

    Parameters
    ----------
    connection : sqlite3.Connection
        The driver's own.
    limit : int
        Most statements.
    """
    values = {'ended': ended_before_ns, **scope_values(None)}
    rows = connection.execute(_ENDED, {**values, 'ids': json.dumps(list(identity_ids))})
    found = {row[0]: Archivable(*row) for row in rows}
    chosen: list[Cut] = []
    for identity_id in dict.fromkeys(identity_ids):
        if limit <= 0:
            break
        if (whole := found.get(identity_id)) is not None:
            before_ns = whole.before_ns
            if whole.assertions > limit:
                before_ns = _partial(connection, whole, limit)
            limit -= whole.assertions
            chosen.append(Cut(identity_id, before_ns))
    return chosen


def _partial(connection: Any, whole: Archivable, limit: int) -> int:
    """Return a cut behind which about so many statements are; a version is never divided."""
    stamps = connection.execute(_STAMPS, (whole.identity_id, whole.before_ns, limit + 1))
    first, *_, last = [row[0] for row in stamps]
    among = {'id': whole.identity_id, 'first': first, 'last': last, 'before': whole.before_ns}
    (cut,) = connection.execute(_CUT, among).fetchone()
    return whole.before_ns if cut is None else int(cut)


_NUMBERS = """
    SELECT identity_id FROM identity
    WHERE identity_id > :after AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
    ORDER BY identity_id LIMIT :batch
"""
# What goes goes as a whole, so nothing that is of the identity may be of another scope.
_IN_SCOPE = f"""
    AND ({ANY_SCOPE} OR NOT EXISTS (
        SELECT 1 FROM assertion AS s
        WHERE s.identity_id = i.identity_id AND NOT ({IN_SCOPE.format(row='s')})
    ))
"""
_CUTS = f"""
    WITH lives AS (
        SELECT i.identity_id, i.kind, (
            SELECT min(v.valid_from_ns) FROM version AS v
            WHERE v.identity_id = i.identity_id AND v.to_seq IS NULL
            AND (v.valid_to_ns IS NULL OR v.valid_to_ns > :ended)
        ) AS from_ns
        FROM identity AS i
        WHERE i.identity_id IN (SELECT value FROM json_each(:ids))
        AND i.kind NOT IN ({', '.join(map(repr, _LIVE_KINDS))}) {_IN_SCOPE}
    ), cut AS (
        SELECT identity_id, kind, CASE WHEN from_ns IS NULL THEN {NEVER_NS} ELSE coalesce((
            SELECT max(v.valid_from_ns) FROM version AS v
            WHERE v.identity_id = lives.identity_id AND v.to_seq IS NULL
            AND v.valid_from_ns < lives.from_ns
        ), from_ns) END AS before_ns FROM lives
    )
"""
_SIZES = f'SELECT cut.identity_id, cut.kind, count(*), sum({SIZE.format(row="a")}), cut.before_ns'
_BEFORE = f"""
    FROM cut JOIN assertion AS a
    ON a.identity_id = cut.identity_id AND a.valid_from_ns < cut.before_ns
    WHERE cut.before_ns < {NEVER_NS} OR cut.kind != 'spatial' OR NOT EXISTS (
        SELECT 1 FROM identity AS i JOIN landmark AS l ON l.key = i.key
        WHERE i.identity_id = cut.identity_id AND l.map_id = a.map_id
        AND l.written_ns NOT NULL AND l.forgotten_ns IS NULL
    )
"""
_ENDED = f'{_CUTS} {_SIZES} {_BEFORE} GROUP BY cut.identity_id ORDER BY cut.identity_id'
_LEAVING = f"""
    {_CUTS} SELECT cut.identity_id, a.id {_BEFORE} GROUP BY cut.identity_id, a.id
    ORDER BY cut.identity_id, min(a.valid_from_ns), min(a.assertion_id)
"""
_STAMPS = """
    SELECT valid_from_ns FROM assertion WHERE identity_id = ? AND valid_from_ns < ?
    ORDER BY valid_from_ns LIMIT ?
"""
_CUT = """
    SELECT coalesce(
        max(valid_from_ns) FILTER (WHERE valid_from_ns > :first AND valid_from_ns <= :last),
        min(valid_from_ns) FILTER (WHERE valid_from_ns > :last)
    )
    FROM version WHERE identity_id = :id AND to_seq IS NULL AND valid_from_ns < :before
"""

# ruff: noqa: S608 - SQL of our own tables


class ArchivedSlice(NamedTuple):
    """Result of one move or return."""

    versions: int = 0
    assertions: int = 0
    bytes: int = 0
    """Approximate size; the pages are used again."""
    identity_ids: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()
    """Ids of the statements."""


class Move(NamedTuple):
    """A slice that is in the archive file, and not yet out of the main file."""

    cuts: Sequence[Cut]
    assertions: Sequence[int]
    spatial: Sequence[int]
    """Rows of `spatial` that nothing else refers to."""
    versions: int
    bytes: int
    until_ns: int
    until_seq: int
    highest: tuple[int, int, int]
    """Of assertions, versions, places."""
    any_given: bool
    """Whether any of it has an id that was given."""
    sequence: int
    """Newest transaction in the copied state."""
    ids: tuple[str, ...]

    @property
    def result(self) -> ArchivedSlice:
        """Counts and ids of the slice."""
        numbers = tuple(cut.identity_id for cut in self.cuts)
        return ArchivedSlice(self.versions, len(self.assertions), self.bytes, numbers, self.ids)


def copy_slice(raw: sqlite3.Connection, cuts: Sequence[Cut], state: ArchiveState) -> Move | None:
    """Copy a slice into the archive file, commit it there, and read it back.

    Parameters
    ----------
    raw : sqlite3.Connection
        The archive file to be written, the main file attached.
    cuts : sequence of Cut
        Parts to move.

    Returns
    -------
    Move or None
        None: it changed meanwhile.
    """
    _prepare(raw)
    raw.execute('BEGIN')
    raw.executemany('INSERT INTO temp.going VALUES (?, ?)', cuts)
    raw.execute(_MOVING)
    raw.execute(_PLACING)
    for table in moved_tables:
        name, columns = table.name, _COLUMNS[table.name]
        if table in statement_tables:
            raw.execute(f'DELETE FROM main.{name} WHERE {_WHERE[name]}')
        raw.execute(
            f'INSERT OR REPLACE INTO main.{name} ({columns}) '
            f'SELECT {columns} FROM live.{name} WHERE {_WHERE[name]}'
        )
    save_file_state(raw, read_file_state(raw)._replace(moves=state.moves + 1))
    raw.execute('COMMIT')
    raw.execute('BEGIN')
    (sequence,) = raw.execute('SELECT coalesce(max(sequence), 0) FROM live.txn').fetchone()
    same = not differing_table(raw)
    assertions = [row[0] for row in raw.execute('SELECT assertion_id FROM temp.moving')]
    places = [row[0] for row in raw.execute(_PLACES_TO_GO)]
    versions, size, until_ns, until_seq, *highest = raw.execute(_TOLD).fetchone()
    named = raw.execute(_NAMED).fetchall()
    any_given = any(item_id != computed_id(*of) for item_id, *of in named)
    raw.execute('COMMIT')
    if not same:
        return None
    return Move(
        cuts,
        assertions,
        places,
        versions,
        size,
        until_ns,
        until_seq,
        tuple(highest),
        any_given,
        sequence,
        tuple(row[0] for row in named),
    )


def differing_table(raw: sqlite3.Connection) -> str:
    """Return the table in which the copy of a slice differs from the main file; empty: none does."""
    for table in moved_tables:
        name = table.name
        here, there = (
            f'SELECT {_COLUMNS[name]} FROM {side}.{name} WHERE {_WHERE[name]}' for side in ('live', 'main')
        )
        if raw.execute(f'SELECT 1 FROM ({here} EXCEPT {there}) LIMIT 1').fetchone():
            return name
        # All of here is there. No row is there twice, so as many of them are the same; but of endings the
        # archive file may have more, from earlier slices.
        counted = f'SELECT (SELECT count(*) FROM ({here})), (SELECT count(*) FROM ({there}))'
        if name != 'forgetting' and len(set(raw.execute(counted).fetchone())) > 1:
            return name
    return ''


def is_overtaken(connection: sa.Connection, move: Move, sequence: int) -> bool:
    """Return whether a row of a slice belongs to a version that is believed since the slice was chosen.

    Parameters
    ----------
    sequence : int
        The newest transaction that was known when it was chosen.
    """
    raw: Any = connection.connection.dbapi_connection
    return raw.execute(_OVERTAKEN, (json.dumps(move.cuts), sequence)).fetchone() is not None


def delete_slice(connection: sa.Connection, move: Move, state: ArchiveState) -> ArchiveState:
    """Delete a slice from the main file and record it as archived; return the new state of the archive."""
    raw: Any = connection.connection.dbapi_connection
    # Those that refer to others go first: triggers read what a row belongs to.
    for table in reversed(statement_tables):
        raw.execute(
            f'DELETE FROM {table.name} WHERE assertion_id IN (SELECT value FROM json_each(?))',
            _json(move.assertions),
        )
    raw.execute(
        'DELETE FROM spatial WHERE spatial_id IN (SELECT value FROM json_each(?))', _json(move.spatial)
    )
    raw.executemany('DELETE FROM forgetting WHERE identity_id = ? AND forgotten_at_ns < ?', move.cuts)
    raw.executemany(_ARCHIVED, move.cuts)
    assertion, version, spatial = map(max, move.highest, (state.assertion, state.version, state.spatial))
    return state._replace(
        moves=state.moves + 1,
        until_ns=max(state.until_ns, move.until_ns),
        until_seq=max(state.until_seq, move.until_seq),
        assertion=assertion,
        version=version,
        spatial=spatial,
        any_given=state.any_given or move.any_given,
    )


def clear_leftovers(
    raw: sqlite3.Connection, state: ArchiveState, identity_ids: Sequence[int] | None = None
) -> None:
    """Delete from the archive file what came back, or never left the main file.

    Parameters
    ----------
    raw : sqlite3.Connection
        The archive file to be written, the main file attached.
    state : ArchiveState
        As recorded in the main file, through to the disk.
    identity_ids : sequence of int, optional
        Only these; none: all.
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
    for table in (*statement_tables, spatial):
        raw.execute(f'DELETE FROM main.{table.name} WHERE {_WHERE[table.name]}')
    save_file_state(raw, read_file_state(raw)._replace(moves=state.moves, returns=state.returns))
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
    """Return SQL for the assertions that stay of the identities that are moved."""
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
_WHERE = dict.fromkeys((table.name for table in statement_tables), f'assertion_id IN ({_GONE})') | {
    'spatial': 'spatial_id IN (SELECT spatial_id FROM temp.placing)',
    'forgetting': """
        identity_id IN (SELECT identity_id FROM temp.going) AND forgotten_at_ns < (
            SELECT before_ns FROM temp.going AS g WHERE g.identity_id = forgetting.identity_id
        )
    """,
}
_MOVING = """
    INSERT INTO temp.moving SELECT a.assertion_id FROM temp.going AS g
    JOIN live.assertion AS a ON a.identity_id = g.identity_id AND a.valid_from_ns < g.before_ns
"""
_ARCHIVED = """
    INSERT INTO archived (identity_id, before_ns) VALUES (?, ?)
    ON CONFLICT (identity_id) DO UPDATE SET before_ns = max(before_ns, excluded.before_ns)
"""
_OVERTAKEN = """
    SELECT 1 FROM json_each(?) AS bound JOIN version AS v
    ON v.identity_id = json_extract(bound.value, '$[0]') AND v.to_seq IS NULL
    AND v.valid_from_ns < json_extract(bound.value, '$[1]')
    WHERE v.from_seq > ? LIMIT 1
"""
_PLACING = f'INSERT INTO temp.placing {_places("live", _GONE)}'
# What stays is looked at only if anything that goes has a place.
_PLACES_TO_GO = f"""
    SELECT spatial_id FROM temp.placing WHERE spatial_id NOT IN ({_places('live', _staying('live'))})
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
    FROM main.assertion AS a JOIN live.identity AS i ON i.identity_id = a.identity_id
    WHERE assertion_id IN ({_GONE})
"""
_CUT_NOW = """
    UPDATE temp.going SET before_ns = (
        SELECT coalesce(max(c.before_ns), -1) FROM live.archived AS c WHERE c.identity_id = going.identity_id
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


def merge_archive(copy: sqlite3.Connection, path: Path) -> None:
    """Bring everything back in a copy of a main file.

    Parameters
    ----------
    copy : sqlite3.Connection
        The copy, without a transaction.
    path : Path
        The archive file of the memory that was copied.

    Raises
    ------
    StoreBusyError
        Something came back from the archive file since the copy was made.
    """
    state = read_state(copy)
    if state is None:
        return
    copy.execute('ATTACH ? AS archive', (uri_of(path, 'ro'),))
    try:
        copy.execute('BEGIN')
        if read_file_state(copy, 'archive').returns > state.returns:
            raise StoreBusyError(
                f'archive file {path}: something came back from it while it was copied; '
                'the call may be repeated',
                path=str(path),
            )
        for table in moved_tables:
            columns = ', '.join(table.columns.keys())
            copy.execute(
                f'INSERT OR IGNORE INTO main.{table.name} ({columns}) '
                f'SELECT {columns} FROM archive.{table.name} AS moved WHERE {_WHERE_COPYING[table.name]}'
            )
        copy.execute('DELETE FROM main.archived')
        copy.execute("DELETE FROM main.state WHERE name = 'archive'")
        copy.execute('COMMIT')
    finally:
        if copy.in_transaction:
            copy.execute('ROLLBACK')
        copy.execute('DETACH archive')


_CUT_OF = '(SELECT before_ns FROM main.archived AS c WHERE c.identity_id = {row}.identity_id)'
_ASSERTIONS = f"""
    SELECT assertion_id FROM archive.assertion AS a WHERE a.valid_from_ns < {_CUT_OF.format(row='a')}
"""
_WHERE_COPYING = dict.fromkeys(
    (table.name for table in moved_tables), f'moved.assertion_id IN ({_ASSERTIONS})'
) | {name: f'moved.{stamp} < {_CUT_OF.format(row="moved")}' for name, stamp in STAMPED.items()}
_WHERE_COPYING['spatial'] = (
    f'moved.spatial_id IN ({places_of("archive.", f"assertion_id IN ({_ASSERTIONS})")})'
)
