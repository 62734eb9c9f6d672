"""SQL of queries: matching versions, their number, and counts of what is excluded.

A query has a place on two axes: the world time `at_ns`, and the belief as of `seq`. Only the end of its
belief ever changes in a version, so an answer as of a sequence stays the same whatever is committed later.

Building and preparing a statement took longer than SQLite took to answer it. What differs between
two queries of one shape is bound by name.

Threads: every function may be called from any thread.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

from hylo_memory_ros.domain.timeline import END, FORGET
from hylo_memory_ros.storage.query.filters import FILTERS, INDEXED, SKILLS, STATISTICS
from hylo_memory_ros.storage.query.filters.base import DEFAULTS
from hylo_memory_ros.storage.query.filters.relations import chains_of, relation_chain
from hylo_memory_ros.storage.query.filters.search import TEXT_TABLES
from hylo_memory_ros.storage.query.filters.skill import is_skill
from hylo_memory_ros.storage.query.filters.statistics import score_or_never, subject_expression
from hylo_memory_ros.storage.query.links import homes, names_of
from hylo_memory_ros.storage.query.spec import QuerySpec, believed, holds
from hylo_memory_ros.storage.schema import FULL_TEXT, assertion, embedding, helpfulness, version
from hylo_memory_ros.storage.statements.mapper import (
    ITEM_COLUMNS,
    ItemRow,
    item_source,
    select_items,
    vector_of,
)

_CAPACITY = 128
_OF_SPEC = ('at_ns', 'seq', *(name for one in FILTERS for name in one.bound))
_BOUND = frozenset({*_OF_SPEC, 'rows', 'limit', 'offset'})
_DIALECT = sqlite_dialect(paramstyle='named')

_FIELDS = [(one, field) for one in FILTERS if one.in_statement for field in one.fields]
_PLAIN = tuple(field for one, field in _FIELDS if field in one.plain)
_NAMES = tuple(field for one, field in _FIELDS if field not in one.plain and not one.bound)
_BOUND_FIELDS = tuple(field for one, field in _FIELDS if field not in one.plain and one.bound)
_NO_NAMES = tuple(DEFAULTS[field] for field in _NAMES)
# Read all at once: calling each filter for each query takes fifteen times as long.
_get_plain, _get_names = attrgetter(*_PLAIN), attrgetter(*_NAMES)
_get_bound_fields = attrgetter(*_BOUND_FIELDS)
_get_bound = attrgetter(*_OF_SPEC)
_get_axes = attrgetter(
    'world', 'ever_believed', 'archived', 'clock', 'space', 'helpfulness', 'gated', 'reached'
)

_statements: OrderedDict[tuple[Any, ...], tuple[str, Mapping[str, Any]]] = OrderedDict()
_lock = threading.Lock()


def cached_rows(
    connection: sa.Connection,
    name: str,
    spec: QuerySpec,
    build: Callable[[], sa.Select[Any]],
    values: Mapping[str, Any],
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, as the driver gives them.

    Parameters
    ----------
    connection : Connection
    name : str
        Purpose of the statement, which is part of its shape.
    spec : QuerySpec
        The query.
    build : callable
        Builds the statement, with the names of `values` bound by name.
    values : mapping of str to Any
        Bound beside what the query binds itself.
    """
    shape = shape_of(spec)
    if shape is None:
        return [tuple(row) for row in connection.execute(build(), values)]
    sql, constants = _compiled((name, *shape), build)
    bound = {**constants, **dict(zip(_OF_SPEC, _get_bound(spec), strict=True)), **values}
    raw: Any = connection.connection.dbapi_connection
    rows: list[tuple[Any, ...]] = raw.execute(sql, bound).fetchall()
    return rows


def _compiled(shape: tuple[Any, ...], build: Callable[[], sa.Select[Any]]) -> tuple[str, Mapping[str, Any]]:
    with _lock:
        found = _statements.get(shape)
        if found is not None:
            _statements.move_to_end(shape)
            return found
    compiled = build().compile(dialect=_DIALECT, compile_kwargs={'render_postcompile': True})
    # What a query binds by name may hold words of its caller, which must not outlive it.
    constants = {name: value for name, value in compiled.params.items() if name not in _BOUND}
    found = str(compiled), constants
    with _lock:
        _statements[shape] = found
        while len(_statements) > _CAPACITY:
            _statements.popitem(last=False)
    return found


def shape_of(spec: QuerySpec) -> tuple[Any, ...] | None:
    """Return a value that differs wherever the statement or its constants do; None: do not keep it.

    A statement that names items of the memory is not kept: a purge must leave no trace of them.
    """
    query = spec.query
    if _get_names(query) != _NO_NAMES:
        return None
    given = (*_get_bound(spec), *_get_bound_fields(query))
    return (*_get_axes(spec), *_get_plain(query), *(value is None for value in given))


TOTAL_LIMIT = 10_000


class OpenFiles(NamedTuple):
    """One consistent state of a store: the main file, and the archive file where a query reaches it.

    A version and the rows that belong to it are in one file, so each file answers for its own; only links and
    episodes lead from one to the other, and those are followed from the archive, with the main file attached.
    """

    live: sa.Connection
    archive: sa.Connection | None = None

    @property
    def all(self) -> tuple[sa.Connection, ...]:
        """Every file that is read."""
        return (self.live,) if self.archive is None else (self.live, self.archive)

    def specs(self, spec: QuerySpec) -> list[tuple[sa.Connection, QuerySpec]]:
        """Return the query for each file."""
        if self.archive is None:
            return [(self.live, spec)]
        archived = replace(spec, archived=True)
        if spec.query.depth > 1:
            archived = replace(archived, reached=rows_reached(self.archive, archived))
        return [(self.live, replace(archived, archived=False)), (self.archive, archived)]


class RankedRow(NamedTuple):
    """A matching row and its rank in the full text: b = -bm25, higher is better."""

    row: ItemRow
    text_rank: float | None


# Among few texts bm25 means little, and it would change with each that comes.
_SUMMARY_RANK = sa.literal_column('-1.0', sa.Float)


def _select(
    spec: QuerySpec,
    *columns: sa.ColumnElement[Any],
    among: Sequence[int] | None = None,
    ranked: bool = False,
) -> sa.Select[Any]:
    """Select what matches, perhaps out of given version rows, with the text rank as the last column."""
    source: sa.FromClause = item_source
    if spec.reads_helpfulness:
        source = source.outerjoin(helpfulness, helpfulness.c.subject == subject_expression)
    rank: sa.ColumnElement[Any] = sa.null()
    if spec.query.text is not None:
        words = _words(spec.words, among, ranked)
        source = source.join(words, words.c.rowid == assertion.c.assertion_id)
        rank = words.c.rank
    selected = (*columns, rank.label('rank')) if ranked else columns
    conditions = [condition for one in FILTERS for condition in one.conditions(spec)]
    where = (believed(version, spec), holds(version, spec), *conditions)
    statement: sa.Select[Any] = sa.select(*selected).select_from(source).where(*where)
    if among is None:
        return statement
    # With words the rows are already few: then no index may go through the list again for each of them.
    number = version.c.version_row if spec.query.text is None else version.c.version_row + 0
    return statement.where(number.in_(_listed(among)))


def _words(words: str | None, among: Sequence[int] | None, ranked: bool) -> sa.CTE:
    """Select what has the words, on its own.

    Looking up one row after another in the full text takes 500 times as long; the plus and
    MATERIALIZED keep SQLite from that.
    """
    found = sa.union_all(*(_having(name, words, among, ranked) for name in TEXT_TABLES))
    return found.cte('words').prefix_with('MATERIALIZED')


def _having(name: str, words: str | None, among: Sequence[int] | None, ranked: bool) -> sa.Select[Any]:
    table: sa.ColumnElement[Any] = sa.literal_column(name)
    rank: sa.ColumnElement[Any] = sa.null()
    if ranked:
        rank = sa.func.bm25(table, type_=sa.Float) if name == FULL_TEXT else _SUMMARY_RANK
    rowid = sa.column('rowid', sa.Integer)
    found = (
        sa.select(rowid, rank.label('rank'))
        .select_from(sa.table(name))
        .where(table.op('MATCH', is_comparison=True)(sa.bindparam('words', words)) if words else sa.false())
    )
    if among is None:
        return found
    given = sa.select(version.c.assertion_id).where(version.c.version_row.in_(_listed(among)))
    return found.where(sa.literal_column('+rowid').in_(given))


def _listed(version_rows: Sequence[int]) -> sa.Select[Any]:
    rows = sa.bindparam('rows', json.dumps(version_rows), type_=sa.Text)
    return sa.select(sa.func.json_each(rows).table_valued('value').c.value)


def match_page(connection: sa.Connection, spec: QuerySpec, limit: int, offset: int = 0) -> list[RankedRow]:
    """Return matches in order: best full-text rank, newest ``valid_from``, id."""
    ranked = spec.query.text is not None

    def build() -> sa.Select[Any]:
        statement = _select(spec, *ITEM_COLUMNS, ranked=True)
        order = (version.c.valid_from_ns.desc(), assertion.c.id)
        statement = statement.order_by(sa.text('rank'), *order) if ranked else statement.order_by(*order)
        return statement.limit(sa.bindparam('limit', limit)).offset(sa.bindparam('offset', offset))

    rows = cached_rows(connection, 'page', spec, build, {'limit': limit, 'offset': offset})
    return [RankedRow(row[:-1], None if row[-1] is None else -row[-1]) for row in rows]


def matching_rows(
    connection: sa.Connection, spec: QuerySpec, among: Sequence[int] | None = None
) -> dict[int, float | None]:
    """Return the matching version rows, perhaps out of given ones, each with its text rank."""
    statement = _select(spec, version.c.version_row, among=among, ranked=True)
    return {row[0]: None if row[1] is None else -row[1] for row in connection.execute(statement)}


def count_matches(connection: sa.Connection, spec: QuerySpec) -> int:
    """Return how many versions match; `TOTAL_LIMIT` + 1 means "more"."""

    def build() -> sa.Select[Any]:
        found = _select(spec, version.c.version_row).limit(TOTAL_LIMIT + 1).subquery()
        return sa.select(sa.func.count()).select_from(found)

    ((count,),) = cached_rows(connection, 'count', spec, build, {})
    return int(count)


def excluded_by_time(
    connection: sa.Connection, spec: QuerySpec, among: Sequence[int] | None = None
) -> Mapping[str, int]:
    """Count the believed matches that do not hold at the time spec about, by reason.

    Of many matches the first `TOTAL_LIMIT` are looked at.
    """
    if spec.world == 'any':
        return {}
    everywhen = replace(spec, world='any')
    at_ns = sa.literal(spec.at_ns, sa.BigInteger)
    times = (version.c.valid_from_ns, version.c.valid_to_ns, version.c.ended_by)
    found = _select(everywhen, *times, among=among).limit(TOTAL_LIMIT).subquery()
    reason = sa.case(
        (found.c.valid_from_ns > at_ns, 'not_yet_valid'),
        (found.c.valid_to_ns > at_ns, 'holds'),
        (found.c.valid_to_ns.is_(None), 'holds'),
        (found.c.ended_by == FORGET, 'forgotten'),
        (found.c.ended_by == END, 'ended'),
        else_='invalidated',
    ).label('reason')
    counted = sa.select(reason, sa.func.count()).group_by(reason)
    counts = {str(row[0]): row[1] for row in connection.execute(counted)}
    counts.pop('holds', None)
    return counts


class CandidateRows(NamedTuple):
    """Matches column by column, newest ``valid_from`` first, then by id."""

    version_rows: tuple[int, ...] = ()
    text_ranks: tuple[float | None, ...] = ()
    """b = -bm25, higher is better; None: the query has no words."""
    valid_from_ns: tuple[int, ...] = ()
    confidence: tuple[float, ...] = ()
    helpfulness: tuple[float, ...] = ()
    """Scores, where the query needs them."""
    ids: tuple[str, ...] = ()
    """Ids, where the caller needs them."""


def candidates(
    connection: sa.Connection, spec: QuerySpec, among: Sequence[int] | None = None, *, ids: bool = False
) -> CandidateRows:
    """Return all that matches, perhaps out of given version rows, with what can be ranked."""

    def build() -> sa.Select[Any]:
        extra: tuple[sa.ColumnElement[Any], ...] = (assertion.c.id,) if ids else ()
        extra += (score_or_never.label('helpfulness'),) if spec.helpfulness else ()
        columns = (version.c.version_row, version.c.valid_from_ns, assertion.c.confidence, *extra)
        statement = _select(spec, *columns, among=among, ranked=True)
        return statement.order_by(version.c.valid_from_ns.desc(), assertion.c.id)

    name, values = ('all', {}) if among is None else ('among', {'rows': json.dumps(among)})
    rows = cached_rows(connection, f'{name} named' if ids else name, spec, build, values)
    if not rows:
        return CandidateRows()
    numbers, stamps, confidence, *extra, ranks = zip(*rows, strict=True)
    names = extra.pop(0) if ids else ()
    scores = extra[0] if extra else ()
    ranks = tuple(None if b is None else -b for b in ranks)
    return CandidateRows(numbers, ranks, stamps, confidence, scores, names)


def estimates(connection: sa.Connection, spec: QuerySpec, most: int) -> dict[str, int]:
    """Return about how many statements pass each filter that has an index, counted up to a limit.

    Statements of every time count, so that one look at an index is enough.
    """
    counts: dict[str, int] = {}
    for one in INDEXED:
        if one.narrows(spec.query):
            counts |= one.estimates(connection, spec.query, most)
    return counts


def absences(connection: sa.Connection, spec: QuerySpec) -> list[str]:
    """Return a sentence for each value of a filter that no statement of any time has."""
    active = [one for one in INDEXED if one.narrows(spec.query)]
    return [sentence for one in active for sentence in one.absences(connection, spec.query)]


def excluded_by_statistics(
    connection: sa.Connection, spec: QuerySpec, among: Sequence[int] | None = None
) -> dict[str, int]:
    """Count what only the statistics beside it exclude, by reason.

    Of many matches the first `TOTAL_LIMIT` are looked at.
    """
    query = spec.query
    active = [one for one in STATISTICS if one.narrows(query)]
    if not active:
        return {}
    lifted = {name: value for one in active for name, value in one.lifted.items()}
    anyhow = replace(
        spec, query=query.model_copy(update=lifted), helpfulness=query.min_helpfulness is not None
    )
    failing = [(one.failing(query), one.reason) for one in active]
    reason = sa.case(*failing).label('reason')
    excluded = sa.or_(*(condition for condition, _ in failing))
    found = _select(anyhow, reason, among=among).where(excluded).limit(TOTAL_LIMIT).subquery()
    counted = sa.select(found.c.reason, sa.func.count()).group_by(found.c.reason)
    return {str(row[0]): row[1] for row in connection.execute(counted)}


def excluded_skills(connection: sa.Connection, spec: QuerySpec) -> tuple[int, list[int]]:
    """Return how many skills only their filter excludes, and with a caller's state their assertions.

    Of many matches the first `TOTAL_LIMIT` are looked at.
    """
    anyhow = replace(spec, query=spec.query.model_copy(update=SKILLS.lifted), fitting=None)
    excluded = ~sa.and_(*SKILLS.conditions(spec))
    found = _select(anyhow, version.c.assertion_id).where(is_skill, excluded).limit(TOTAL_LIMIT)
    if spec.fitting is None:
        return connection.execute(sa.select(sa.func.count()).select_from(found.subquery())).scalar_one(), []
    numbers = list(connection.execute(found).scalars())
    return len(numbers), numbers


def any_stale(connection: sa.Connection) -> bool:
    """Return whether any landmark is stale."""
    raw: Any = connection.connection.dbapi_connection
    return raw.execute('SELECT 1 FROM landmark WHERE stale LIMIT 1').fetchone() is not None


def names_reached(connection: sa.Connection, spec: QuerySpec) -> set[tuple[str, str]]:
    """Return (name, map) of what the relation of a query reaches with at least one link to spare."""
    chain = relation_chain(spec)
    if chain is None:
        return set()
    found = connection.execute(names_of(chain, spec.query.depth, homes(spec.archived)))
    return {(row[0], row[1]) for row in found}


def rows_reached(connection: sa.Connection, spec: QuerySpec) -> tuple[str, ...]:
    """Return the version rows in each chain of links of a query, as JSON arrays."""
    found = (connection.execute(sa.select(chain.c.version_row).distinct()) for chain in chains_of(spec))
    return tuple(json.dumps([row[0] for row in rows]) for rows in found)


_rows = sa.func.json_each(sa.bindparam('rows', type_=sa.Text)).table_valued('value')
_FETCH = str(
    select_items.where(version.c.version_row.in_(sa.select(_rows.c.value))).compile(dialect=sqlite_dialect())
)
_vectors = sa.select(embedding.c.assertion_id, embedding.c.space, embedding.c.vector).where(
    embedding.c.assertion_id.in_(sa.bindparam('ids', expanding=True))
)
VERSION_ROW, VALID_FROM, ID, HAS_EMBEDDING, ASSERTION_ID = 0, 1, 8, 19, 20
"""Columns of an item row, by number."""


def fetch(connection: sa.Connection, version_rows: Sequence[int]) -> dict[int, ItemRow]:
    """Return the rows of `ITEM_COLUMNS` by version row."""
    raw: Any = connection.connection.dbapi_connection
    # Straight to the driver: every hit of every query comes this way, and preparing the statement
    # and a Row for each of ten took longer than SQLite did. One statement is one consistent state.
    found = raw.execute(_FETCH, (json.dumps(version_rows),)).fetchall()
    return {row[VERSION_ROW]: row for row in found}


def embeddings_of(
    connection: sa.Connection, rows: Iterable[ItemRow]
) -> dict[int, dict[str, tuple[float, ...]]]:
    """Return the vectors that belong to rows of `ITEM_COLUMNS`, by version row and space."""
    vectors: dict[int, dict[str, tuple[float, ...]]] = {}
    of = {row[VERSION_ROW]: row[ASSERTION_ID] for row in rows if row[HAS_EMBEDDING]}
    if of:
        for assertion_id, space, vector in connection.execute(_vectors, {'ids': list(set(of.values()))}):
            vectors.setdefault(assertion_id, {})[space] = vector_of(vector)
    return {number: vectors[assertion_id] for number, assertion_id in of.items() if assertion_id in vectors}
