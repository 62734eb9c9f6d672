"""Selection of statements that may be archived."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.storage.consolidation.candidates import ANY_SCOPE, IN_SCOPE, scope_values
from hylo_memory_ros.storage.schema import SIZE

__all__ = ['NEVER_NS', 'Archivable', 'Cut', 'find_archivable', 'find_archivable_ids', 'find_cuts']

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
