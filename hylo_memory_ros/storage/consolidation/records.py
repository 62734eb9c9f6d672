"""What consolidations did: one record each, by which it can be reverted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import (
    Connection,
    bindparam,
    func,
    insert,
    select,
    update,
)

from hylo_memory_ros.errors import NotFoundError
from hylo_memory_ros.storage.schema import consolidated, consolidation

__all__ = [
    'ConsolidationRecord',
    'Stood',
    'begin_record',
    'end_interrupted',
    'end_record',
    'groups_of',
    'mark_reverted',
    'name_of',
    'record_named',
    'records',
    'reverted_so_far',
    'standing_for',
    'summaries_among',
    'summaries_over',
    'versions_of_identities',
]


_PREFIX = 'consolidation/'


class ConsolidationRecord(NamedTuple):
    """What is kept of one consolidation."""

    number: int
    """Its number; each has a higher one than those before."""
    begun_ns: int
    """Service clock at its first change."""
    actor: str
    """Who asked for it."""
    asked: Mapping[str, Any]
    """Scope, budget and kinds."""
    report: Mapping[str, Any] | None
    """What it did, ids aside; None: it did not come to its end."""
    reverted_ns: int | None
    """When it was taken back; None: it was not."""

    @property
    def name(self) -> str:
        """Its name, by which it is reverted."""
        return name_of(self.number)


def name_of(number: int) -> str:
    """Return the name of a consolidation."""
    return f'{_PREFIX}{number}'


def begin_record(connection: Connection, begun_ns: int, actor: str, asked: Mapping[str, Any]) -> int:
    """Record that a consolidation begins; return its number."""
    row = {'begun_ns': begun_ns, 'actor': actor, 'asked': json.dumps(asked, sort_keys=True)}
    return int(connection.execute(insert(consolidation).values(row).returning(_number)).scalar_one())


def end_record(connection: Connection, number: int, report: Mapping[str, Any]) -> None:
    """Record what a consolidation did."""
    told = json.dumps(report, sort_keys=True)
    connection.execute(update(consolidation).where(_number == number).values(report=told))


def end_interrupted(connection: Connection, last: int) -> None:
    """Record that consolidations up to a number have ended, also those that did not come to their end."""
    those = (_number <= last) & consolidation.c.report.is_(None)
    connection.execute(update(consolidation).where(those).values(report=json.dumps({'interrupted': True})))


def mark_reverted(connection: Connection, number: int, stamp_ns: int) -> None:
    """Record that a consolidation was taken back, or is being."""
    connection.execute(update(consolidation).where(_number == number).values(reverted_ns=stamp_ns))


def reverted_so_far(connection: Connection) -> int:
    """Return how many consolidations were taken back."""
    return int(connection.execute(_reverted).scalar_one())


def record_named(connection: Connection, name: str) -> ConsolidationRecord:
    """Return the record of a consolidation.

    Raises
    ------
    NotFoundError
        There is none of this name.
    """
    digits = name.removeprefix(_PREFIX)
    known = name.startswith(_PREFIX) and digits.isascii() and digits.isdigit() and len(digits) < 19
    row = connection.execute(_named, {'which': int(digits)}).one_or_none() if known else None
    if row is None or name_of(row.number) != name:
        raise NotFoundError(f'consolidation {name!r}: there is none of this name', consolidation_id=name)
    return _record(row)


def records(connection: Connection) -> list[ConsolidationRecord]:
    """Return the records of all consolidations, in order."""
    return [_record(row) for row in connection.execute(select(consolidation).order_by(_number))]


def _record(row: Any) -> ConsolidationRecord:
    return ConsolidationRecord(
        row.number,
        row.begun_ns,
        row.actor,
        json.loads(row.asked),
        None if row.report is None else json.loads(row.report),
        row.reverted_ns,
    )


_number = consolidation.c.number
_named = select(consolidation).where(_number == bindparam('which'))
_reverted = select(func.count()).select_from(consolidation).where(consolidation.c.reverted_ns.is_not(None))


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
