"""The filters of a question as conditions over versions, and its place on both time axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.storage.feedback.scores import score_or_never
from hylo_memory_ros.storage.query.episode_filter import in_episode
from hylo_memory_ros.storage.query.links import Versions, homes, reached_by_entity, reached_by_relation
from hylo_memory_ros.storage.query.skill_filter import admitted
from hylo_memory_ros.storage.schema import assertion, embedding, identity, landmark, tag, version
from hylo_memory_ros.storage.statements.mapper import paired

__all__ = [
    'ANY_STATISTICS',
    'QuerySpec',
    'World',
    'chain_of',
    'chains_of',
    'conditions',
    'is_doubted',
    'is_helpful',
    'search_words',
    'statistics_of',
    'tags_asked',
]

World = Literal['at', 'any', 'unended']

ANY_STATISTICS = {'min_existence': None, 'min_helpfulness': None, 'include_stale': True}
"""What to change in a query so that it asks for nothing that is counted beside items."""


@dataclass(frozen=True, slots=True)
class QuerySpec:
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
    space: str = ''
    """Only what has a vector in this space; empty: all."""
    helpfulness: bool = False
    """Whether the score of helpfulness is to be told of each candidate."""
    gated: bool = True
    """Whether skills are held to the status asked for; False where there are none."""
    fitting: str | None = None
    """JSON array of the assertions of skills that have the status asked for and fit the caller's state; None:
    no state is given."""
    archived: bool = False
    """Asked of a archive file, with the main file beside it."""
    reached: tuple[str, ...] | None = None
    """JSON arrays of the version rows in each of its chains of links, of any file; None: not followed yet."""

    @property
    def reads_helpfulness(self) -> bool:
        """Whether the statistics of helpfulness decide or are told."""
        return self.helpfulness or self.query.min_helpfulness is not None


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


def conditions(asked: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
    """Yield what a version, its item and its landmark must fulfil, the words aside."""
    yield from (_believed(version, asked), _holds(version, asked))
    yield from _filters(asked)
    yield from statistics_of(asked.query)
    if asked.gated:
        yield from admitted(asked.query, asked.fitting)
    if asked.space:
        placed = sa.select(embedding.c.assertion_id).where(embedding.c.space == asked.space)
        yield assertion.c.assertion_id.in_(placed)


def tags_asked(query: MemoryQuery) -> Iterator[tuple[str, str]]:
    """Yield (field, value) of the tags that a match must have itself."""
    if query.relation is not None or query.depth == 1:
        yield from (('entity', name) for name in query.entities)
    yield from (('object', name) for name in query.object_ids)
    if query.relation is not None and query.depth == 1:
        yield 'link', paired(*query.relation)
    yield from (('scope', paired(*pair)) for pair in (query.scope or {}).items() if pair[0] != 'map_id')


def chain_of(asked: QuerySpec) -> sa.CTE | None:
    """Return what is reached by the links of a question; None: it follows none of one relation."""
    query = asked.query
    if query.relation is None or query.depth == 1:
        return None
    return reached_by_relation(*query.relation, query.depth, partial(_stands, asked), homes(asked.archived))


def chains_of(asked: QuerySpec) -> list[sa.CTE]:
    """Return every chain of links that a match must be in."""
    query = asked.query
    if query.depth == 1:
        return []
    if (chain := chain_of(asked)) is not None:
        return [chain]
    stands, among = partial(_stands, asked), homes(asked.archived)
    return [reached_by_entity(name, query.depth, stands, among) for name in query.entities]


def statistics_of(query: MemoryQuery) -> Iterable[sa.ColumnElement[bool]]:
    """Yield what the counts beside a version must fulfil.

    Those of its landmark count for an open version alone; what has ended, or is none, passes.
    """
    uncounted = version.c.valid_to_ns.is_not(None) | landmark.c.number.is_(None)
    if query.min_existence is not None:
        yield uncounted | ~is_doubted(query.min_existence)
    if not query.include_stale:
        yield uncounted | ~landmark.c.stale
    if query.min_helpfulness is not None:
        yield is_helpful(query.min_helpfulness)


def is_doubted(least: float) -> sa.ColumnElement[bool]:
    """Return whether a landmark exists with less than this probability; without an opinion it does not."""
    return (landmark.c.existence != 0.0) & (landmark.c.existence < log_odds(least))


def is_helpful(least: float) -> sa.ColumnElement[bool]:
    """Return whether a version has at least this score of helpfulness, where that is joined."""
    return score_or_never >= least


def _stands(asked: QuerySpec, versions: Versions) -> sa.ColumnElement[bool]:
    return _believed(versions, asked) & _holds(versions, asked)


def _believed(versions: Versions, asked: QuerySpec) -> sa.ColumnElement[bool]:
    if asked.ever_believed:
        return sa.true()
    to_seq: sa.ColumnElement[int] = versions.c.to_seq
    still = to_seq.is_(None)
    if asked.seq is None:
        return still
    from_seq: sa.ColumnElement[int] = versions.c.from_seq
    seq = sa.bindparam('seq', asked.seq, type_=sa.BigInteger)
    return (from_seq <= seq) & (still | (to_seq > seq))


def _holds(versions: Versions, asked: QuerySpec) -> sa.ColumnElement[bool]:
    if asked.world == 'any':
        return sa.true()
    valid_to_ns: sa.ColumnElement[int] = versions.c.valid_to_ns
    at_ns = sa.bindparam('at_ns', asked.at_ns, type_=sa.BigInteger)
    ends_later = valid_to_ns.is_(None) | (valid_to_ns > at_ns)
    if asked.world == 'unended':
        return ends_later
    valid_from_ns: sa.ColumnElement[int] = versions.c.valid_from_ns
    return ends_later & (valid_from_ns <= at_ns)


def _tagged(field: str, value: str) -> sa.ColumnElement[bool]:
    found = sa.select(tag.c.assertion_id).where(tag.c.field == field, tag.c.value == value)
    return assertion.c.assertion_id.in_(found)


def _linked(asked: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
    query = asked.query
    if asked.reached is not None:
        for rows in asked.reached:
            listed = sa.func.json_each(sa.literal(rows, sa.Text)).table_valued('value')
            yield version.c.version_row.in_(sa.select(listed.c.value))
    else:
        yield from (version.c.version_row.in_(sa.select(chain.c.version_row)) for chain in chains_of(asked))
    if query.relation is not None and query.depth == 1:
        yield _tagged('link', paired(*query.relation))
    if query.depth == 1 or query.relation is not None:
        yield from (_tagged('entity', name) for name in query.entities)


def _filters(asked: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
    query = asked.query
    if query.kinds is not None:
        yield version.c.kind.in_(sorted(kind.value for kind in query.kinds))
    if query.all_keys:
        yield identity.c.key.in_(query.all_keys)
        # Always so; said, it is a way by indexes also to versions that are no longer believed.
        yield assertion.c.identity_id == identity.c.identity_id
    if query.ids:
        yield assertion.c.id.in_(query.ids)
    if query.labels:
        yield assertion.c.label.in_(query.labels)
    yield from _linked(asked)
    yield from (_tagged('object', name) for name in query.object_ids)
    for name, value in (query.scope or {}).items():
        yield assertion.c.map_id == value if name == 'map_id' else _tagged('scope', paired(name, value))
    if query.episode is not None or query.outcome is not None:
        yield in_episode(query, asked.seq, ever=asked.ever_believed, among=homes(asked.archived))
    if query.min_confidence is not None:
        yield assertion.c.confidence >= query.min_confidence
    if query.time_range_ns is not None:
        yield from _in_time_range(query.time_range_ns)
        yield assertion.c.event_clock == asked.clock


def _in_time_range(span: tuple[int | None, int | None]) -> Iterable[sa.ColumnElement[bool]]:
    start_ns, end_ns = span
    yield assertion.c.event_start_ns.is_not(None)
    if end_ns is not None:
        yield assertion.c.event_start_ns <= end_ns
    if start_ns is not None:
        yield assertion.c.event_end_ns.is_(None) | (assertion.c.event_end_ns >= start_ns)


def log_odds(probability: float) -> float:
    """Return the logarithm of the odds."""
    if probability in (0.0, 1.0):
        return math.copysign(math.inf, probability - 0.5)
    return math.log(probability / (1.0 - probability))
