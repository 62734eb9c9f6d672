"""Who stands for whom: the summaries of consolidations, and the statements that gave way to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.store.consolidation import consolidated

__all__ = [
    'Stood',
    'groups_of',
    'standing_for',
    'summaries_among',
    'summaries_over',
    'versions_of_identities',
]


class Stood(NamedTuple):
    """One summary of a consolidation, and what it stands for."""

    summary: int
    """Its identity."""
    sequence: int
    """The transaction that brought it."""
    identities: tuple[int, ...]
    """What it stands for."""
    reverted: bool = False
    """Whether it was taken back."""


def groups_of(connection: sa.Connection, number: int) -> list[Stood]:
    """Return what each summary of a consolidation stands for, in the order of their transactions."""
    rows = connection.execute(_groups, {'which': number})
    return [
        Stood(row.summary, row.sequence, tuple(json.loads(row.identities)), row.reverted_seq is not None)
        for row in rows
    ]


def standing_for(connection: sa.Connection, identity_ids: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
    """Return what stands for identities: (consolidation, identity of the summary), by identity."""
    raw: Any = connection.connection.dbapi_connection
    found: dict[int, list[tuple[int, int]]] = {}
    for identity_id, number, summary in raw.execute(_STANDING, (json.dumps(list(identity_ids)),)):
        found.setdefault(identity_id, []).append((number, summary))
    return found


def summaries_among(connection: sa.Connection, identity_ids: Sequence[int]) -> set[int]:
    """Return which identities are those of summaries."""
    raw: Any = connection.connection.dbapi_connection
    return {row[0] for row in raw.execute(_SUMMARIES, (json.dumps(list(identity_ids)),))}


def summaries_over(connection: sa.Connection, identity_ids: Sequence[int]) -> list[int]:
    """Return the identities of all summaries that ever stood for identities, over several steps too."""
    raw: Any = connection.connection.dbapi_connection
    found: list[int] = []
    asked = list(identity_ids)
    while asked:
        rows = raw.execute(_OVER, (json.dumps(asked),))
        asked = sorted({row[0] for row in rows} - {*found, *identity_ids})
        found += asked
    return found


def versions_of_identities(connection: sa.Connection, identity_ids: Sequence[int]) -> list[int]:
    """Return the version rows of identities, believed or not."""
    raw: Any = connection.connection.dbapi_connection
    return [row[0] for row in raw.execute(_VERSIONS, (json.dumps(list(identity_ids)),))]


_OVER = """
    SELECT DISTINCT c.summary FROM consolidated AS c, json_each(c.identities) AS one
    WHERE c.summary > 0 AND one.value IN (SELECT value FROM json_each(?))
"""
_SUMMARIES = 'SELECT summary FROM consolidated WHERE summary IN (SELECT value FROM json_each(?))'
_VERSIONS = 'SELECT version_row FROM version WHERE identity_id IN (SELECT value FROM json_each(?))'
_STANDING = """
    SELECT one.value, c.number, c.summary FROM consolidated AS c, json_each(c.identities) AS one
    WHERE c.reverted_seq IS NULL AND one.value IN (SELECT value FROM json_each(?))
    ORDER BY c.number, c.summary
"""
_groups = (
    sa.select(consolidated)
    .where(consolidated.c.number == sa.bindparam('which'))
    .order_by(consolidated.c.sequence, consolidated.c.summary)
)
