"""Questions as SQL: which versions match, how many, and what was left out.

A question has a place on two axes: the world time `at_ns`, and what was believed as of
`seq`. Versions never change but for the end of their belief, so an answer as of a sequence
stays the same whatever is committed meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

from hylo_memory_ros.store.filtering import Asked, World, conditions, search_words
from hylo_memory_ros.store.rows import ITEM_COLUMNS, ItemRow, item_source, select_items, vector_of
from hylo_memory_ros.store.schema import FULL_TEXT, assertion, embedding, version

__all__ = [
    'TOTAL_LIMIT',
    'Asked',
    'World',
    'count_matches',
    'embeddings_of',
    'excluded_by_time',
    'fetch',
    'match_page',
    'matching_rows',
    'search_words',
]

TOTAL_LIMIT = 10_000


class Ranked(NamedTuple):
    """A matching row and its rank in the full text: b = -bm25, higher is better."""

    row: ItemRow
    text_rank: float | None


_item_text = sa.table(FULL_TEXT, sa.column('rowid', sa.Integer))
_bm25 = sa.func.bm25(sa.literal_column(FULL_TEXT), type_=sa.Float)


def _select(asked: Asked, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    source: sa.FromClause = item_source
    if asked.query.text is not None:
        source = item_source.join(_item_text, _item_text.c.rowid == assertion.c.assertion_id)
    statement: sa.Select[Any] = sa.select(*columns).select_from(source)
    return statement.where(*conditions(asked))


def _among(version_rows: Sequence[int] | None) -> sa.ColumnElement[bool]:
    if version_rows is None:
        return sa.true()
    rows = sa.func.json_each(json.dumps(version_rows)).table_valued('value')
    return version.c.version_row.in_(sa.select(rows.c.value))


def _rank(asked: Asked) -> sa.ColumnElement[Any]:
    return sa.label('rank', _bm25 if asked.query.text is not None else sa.null())


def match_page(connection: sa.Connection, asked: Asked, limit: int, offset: int = 0) -> list[Ranked]:
    """Return matches in order: best full-text rank, newest ``valid_from``, id."""
    ranked = asked.query.text is not None
    statement = _select(asked, *ITEM_COLUMNS, _rank(asked))
    order = (version.c.valid_from_ns.desc(), assertion.c.id)
    statement = statement.order_by(sa.text('rank'), *order) if ranked else statement.order_by(*order)
    rows = connection.execute(statement.limit(limit).offset(offset))
    return [Ranked(row[:-1], None if row.rank is None else -row.rank) for row in rows]


def matching_rows(
    connection: sa.Connection, asked: Asked, among: Sequence[int] | None = None
) -> dict[int, float | None]:
    """Return the matching version rows, perhaps out of given ones, each with its text rank, best first."""
    statement = _select(asked, version.c.version_row, _rank(asked)).where(_among(among))
    if asked.query.text is not None:
        statement = statement.order_by(sa.text('rank'), version.c.valid_from_ns.desc(), assertion.c.id)
    return {row[0]: None if row[1] is None else -row[1] for row in connection.execute(statement)}


def count_matches(connection: sa.Connection, asked: Asked) -> int:
    """Return how many versions match; `TOTAL_LIMIT` + 1 stands for "more"."""
    found = _select(asked, version.c.version_row).limit(TOTAL_LIMIT + 1).subquery()
    return connection.execute(sa.select(sa.func.count()).select_from(found)).scalar_one()


def excluded_by_time(
    connection: sa.Connection, asked: Asked, among: Sequence[int] | None = None
) -> Mapping[str, int]:
    """Count the believed matches that do not hold at the time asked about, by reason.

    Of many matches the first `TOTAL_LIMIT` are looked at.
    """
    if asked.world == 'any':
        return {}
    everywhen = replace(asked, world='any')
    at_ns = sa.literal(asked.at_ns, sa.BigInteger)
    times = (version.c.valid_from_ns, version.c.valid_to_ns, version.c.forgotten)
    found = _select(everywhen, *times).where(_among(among)).limit(TOTAL_LIMIT).subquery()
    reason = sa.case(
        (found.c.valid_from_ns > at_ns, 'not_yet_valid'),
        (found.c.valid_to_ns > at_ns, 'holds'),
        (found.c.valid_to_ns.is_(None), 'holds'),
        (found.c.forgotten, 'forgotten'),
        else_='invalidated',
    ).label('reason')
    counted = sa.select(reason, sa.func.count()).group_by(reason)
    counts = {str(row[0]): row[1] for row in connection.execute(counted)}
    counts.pop('holds', None)
    return counts


_rows = sa.func.json_each(sa.bindparam('rows', type_=sa.Text)).table_valued('value')
_FETCH = str(
    select_items.where(version.c.version_row.in_(sa.select(_rows.c.value))).compile(dialect=sqlite_dialect())
)
_vectors = sa.select(embedding.c.assertion_id, embedding.c.space, embedding.c.vector).where(
    embedding.c.assertion_id.in_(sa.bindparam('ids', expanding=True))
)
_VERSION_ROW, _HAS_EMBEDDING, _ASSERTION_ID = 0, 19, 20


def fetch(connection: sa.Connection, version_rows: Sequence[int]) -> dict[int, ItemRow]:
    """Return the rows of `ITEM_COLUMNS` by version row."""
    raw: Any = connection.connection.dbapi_connection
    # Straight to the driver: every hit of every query comes this way, and preparing the statement
    # and a Row for each of ten took longer than SQLite did. One statement is one consistent state.
    found = raw.execute(_FETCH, (json.dumps(version_rows),)).fetchall()
    return {row[_VERSION_ROW]: row for row in found}


def embeddings_of(
    connection: sa.Connection, rows: Iterable[ItemRow]
) -> dict[int, dict[str, tuple[float, ...]]]:
    """Return the vectors that belong to rows of `ITEM_COLUMNS`, by version row and space."""
    wanted = {row[_ASSERTION_ID]: row[_VERSION_ROW] for row in rows if row[_HAS_EMBEDDING]}
    result: dict[int, dict[str, tuple[float, ...]]] = {}
    if wanted:
        for assertion_id, space, vector in connection.execute(_vectors, {'ids': list(wanted)}):
            result.setdefault(wanted[assertion_id], {})[space] = vector_of(vector)
    return result
