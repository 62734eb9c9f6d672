"""Questions as SQL: which versions match, how many, and what was left out.

A question has a place on two axes: the world time `at_ns`, and what was believed as of
`seq`. Versions never change but for the end of their belief, so an answer as of a sequence
stays the same whatever is committed meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.store.rows import (
    ITEM_COLUMNS,
    ItemRow,
    item_source,
    paired,
    select_items,
    vector_of,
)
from hylo_memory_ros.store.schema import FULL_TEXT, assertion, embedding, identity, tag, version

__all__ = [
    'TOTAL_LIMIT',
    'Asked',
    'count_matches',
    'embeddings_of',
    'excluded_by_time',
    'fetch',
    'match_page',
    'matching_rows',
    'search_words',
]

TOTAL_LIMIT = 10_000

World = Literal['at', 'any', 'unended']


@dataclass(frozen=True, slots=True)
class Asked:
    """A query with its place on both time axes."""

    query: MemoryQuery
    """The filters; `near` is the business of the mirror."""
    at_ns: int
    """World time asked about."""
    world: World = 'at'
    """``at``: holds at `at_ns`; ``any``: whenever; ``unended``: holds at `at_ns` or later."""
    seq: int | None = None
    """Believed as of this sequence; None: believed now."""
    ever_believed: bool = False
    """Lift the filter on belief (purge)."""
    clock: str = 'wall'
    """The clock that event times are compared on."""


class Ranked(NamedTuple):
    """A matching row and its rank in the full text: b = -bm25, higher is better."""

    row: ItemRow
    text_rank: float | None


def search_words(text: str) -> str | None:
    """Return the full-text expression of a text: all its words, no operators; None: no word.

    Examples
    --------
    >>> search_words('red OR mug*')
    '"red" AND "OR" AND "mug*"'
    >>> search_words('*** --') is None
    True
    """
    words = [word for word in text.replace('\0', ' ').split() if any(map(str.isalnum, word))]
    return ' AND '.join('"' + word.replace('"', '""') + '"' for word in words) or None


_item_text = sa.table(FULL_TEXT, sa.column('rowid', sa.Integer))
_bm25 = sa.func.bm25(sa.literal_column(FULL_TEXT), type_=sa.Float)


def _believed(asked: Asked) -> sa.ColumnElement[bool]:
    if asked.ever_believed:
        return sa.true()
    if asked.seq is None:
        return version.c.to_seq.is_(None)
    return (version.c.from_seq <= asked.seq) & (version.c.to_seq.is_(None) | (version.c.to_seq > asked.seq))


def _holds(asked: Asked) -> sa.ColumnElement[bool]:
    if asked.world == 'any':
        return sa.true()
    ends_later = version.c.valid_to_ns.is_(None) | (version.c.valid_to_ns > asked.at_ns)
    return ends_later if asked.world == 'unended' else ends_later & (version.c.valid_from_ns <= asked.at_ns)


def _tagged(field: str, value: str) -> sa.ColumnElement[bool]:
    found = sa.select(tag.c.assertion_id).where(tag.c.field == field, tag.c.value == value)
    return assertion.c.assertion_id.in_(found)


def _filters(asked: Asked) -> Iterable[sa.ColumnElement[bool]]:
    query = asked.query
    if query.kinds is not None:
        yield version.c.kind.in_(sorted(kind.value for kind in query.kinds))
    if query.all_keys:
        yield identity.c.key.in_(query.all_keys)
    if query.ids:
        yield assertion.c.id.in_(query.ids)
    if query.labels:
        yield assertion.c.label.in_(query.labels)
    yield from (_tagged('entity', name) for name in query.entities)
    yield from (_tagged('object', name) for name in query.object_ids)
    if query.relation is not None:
        yield _tagged('link', paired(*query.relation))
    for name, value in (query.scope or {}).items():
        yield assertion.c.map_id == value if name == 'map_id' else _tagged('scope', paired(name, value))
    if query.min_confidence is not None:
        yield assertion.c.confidence >= query.min_confidence
    if query.time_range_ns is not None:
        yield from _in_time_range(query.time_range_ns)
        yield assertion.c.event_clock == asked.clock
    if query.text is not None:
        words = search_words(query.text)
        table: sa.ColumnElement[Any] = sa.literal_column(FULL_TEXT)
        yield table.op('MATCH', is_comparison=True)(words) if words else sa.false()


def _in_time_range(span: tuple[int | None, int | None]) -> Iterable[sa.ColumnElement[bool]]:
    start_ns, end_ns = span
    yield assertion.c.event_start_ns.is_not(None)
    if end_ns is not None:
        yield assertion.c.event_start_ns <= end_ns
    if start_ns is not None:
        yield assertion.c.event_end_ns.is_(None) | (assertion.c.event_end_ns >= start_ns)


def _select(asked: Asked, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    source: sa.FromClause = item_source
    if asked.query.text is not None:
        source = item_source.join(_item_text, _item_text.c.rowid == assertion.c.assertion_id)
    statement: sa.Select[Any] = sa.select(*columns).select_from(source)
    return statement.where(_believed(asked), _holds(asked), *_filters(asked))


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
