"""Records of consolidations, and the lineage between summaries and the statements they replace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import (
    bindparam,
    func,
    select,
    update,
)

from hylo_memory_ros.errors import NotFoundError
from hylo_memory_ros.storage.schema import consolidated, consolidation

_PREFIX = 'consolidation/'


class ConsolidationRecord(NamedTuple):
    """Record of one consolidation."""

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
    """When it was reverted; None: it was not."""

    @property
    def name(self) -> str:
        """Its name, by which it is reverted."""
        return name_of(self.number)


def name_of(number: int) -> str:
    """Return the name of a consolidation."""
    return f'{_PREFIX}{number}'


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


class SummaryGroup(NamedTuple):
    """A summary of a consolidation, and the statements that it replaces."""

    summary: int
    """Its identity."""
    sequence: int
    """The transaction that brought it."""
    identities: tuple[int, ...]
    """Identities that it replaces."""
    reverted: bool = False
    """Whether it was reverted."""


def summaries_over(connection: sa.Connection, identity_ids: Sequence[int]) -> list[int]:
    """Return the identities of all summaries that ever replaced identities, over several steps too."""
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


class ConsolidationRepository:
    """Records of consolidations, and summary lineage."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def load(self, name: str) -> ConsolidationRecord:
        """Return the record of a consolidation.

        Raises
        ------
        NotFoundError
            There is none of this name.
        """
        digits = name.removeprefix(_PREFIX)
        known = name.startswith(_PREFIX) and digits.isascii() and digits.isdigit() and len(digits) < 19
        row = self._connection.execute(_named, {'which': int(digits)}).one_or_none() if known else None
        if row is None or name_of(row.number) != name:
            raise NotFoundError(f'consolidation {name!r}: there is none of this name', consolidation_id=name)
        return _record(row)

    def load_all(self) -> list[ConsolidationRecord]:
        """Return the records of all consolidations, in order."""
        return [_record(row) for row in self._connection.execute(select(consolidation).order_by(_number))]

    def end(self, number: int, report: Mapping[str, Any]) -> None:
        """Record what a consolidation did."""
        told = json.dumps(report, sort_keys=True)
        self._connection.execute(update(consolidation).where(_number == number).values(report=told))

    def end_interrupted(self, last: int) -> None:
        """Record that consolidations up to a number have ended, interrupted ones too."""
        those = (_number <= last) & consolidation.c.report.is_(None)
        self._connection.execute(
            update(consolidation).where(those).values(report=json.dumps({'interrupted': True}))
        )

    def mark_reverted(self, number: int, stamp_ns: int) -> None:
        """Record that a consolidation was reverted, or is being."""
        self._connection.execute(update(consolidation).where(_number == number).values(reverted_ns=stamp_ns))

    def count_reverted(self) -> int:
        """Return how many consolidations were reverted."""
        return int(self._connection.execute(_reverted).scalar_one())

    def groups(self, number: int) -> list[SummaryGroup]:
        """Return the groups of a consolidation, in the order of their transactions."""
        rows = self._connection.execute(_groups, {'which': number})
        return [
            SummaryGroup(
                row.summary, row.sequence, tuple(json.loads(row.identities)), row.reverted_seq is not None
            )
            for row in rows
        ]

    def replacements(self, identity_ids: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        """Return what replaces identities now: (consolidation, identity of the summary), by identity."""
        raw: Any = self._connection.connection.dbapi_connection
        found: dict[int, list[tuple[int, int]]] = {}
        for identity_id, number, summary in raw.execute(_STANDING, (json.dumps(list(identity_ids)),)):
            found.setdefault(identity_id, []).append((number, summary))
        return found

    def summaries_among(self, identity_ids: Sequence[int]) -> set[int]:
        """Return which identities are those of summaries."""
        raw: Any = self._connection.connection.dbapi_connection
        return {row[0] for row in raw.execute(_SUMMARIES, (json.dumps(list(identity_ids)),))}
