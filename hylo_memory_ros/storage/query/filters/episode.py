"""Filter by episode and outcome.

A version belongs to an episode by every assertion that it represents, so also to the one in which it was
repeated; or by the scope ``episode_id`` that its producer gave it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.selectable import NamedFromClause

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.storage.query.filters.base import Filter, ItemContext, Option
from hylo_memory_ros.storage.query.links import Home, homes
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.schema import assertion, corrected, episode, tag, txn, version
from hylo_memory_ros.storage.statements.mapper import paired

_SCOPE = paired('episode_id', '')


class EpisodeFilter(Filter):
    """Written, or repeated, in this episode, or in one that ended with this outcome."""

    fields = ('episode', 'outcome')
    options_json = ('episode', 'outcome')
    options = (
        Option('--episode', 'episode', 'Said in this episode.'),
        Option('--outcome', 'outcome', 'Said in an episode that ended so.'),
    )

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the condition that it belongs to an episode, as of the sequence of the query."""
        if self.narrows(spec.query):
            repeated = [_repeated(spec, home) for home in homes(spec.archived)]
            yield version.c.version_row.in_(sa.union(*repeated, _scoped(spec)))

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it was written in the episode; no outcome is known of working memory."""
        if query.outcome is not None:
            return False
        return query.episode is None or query.episode in (context.episode, item.scope.get('episode_id'))

    def indexed(self, query: MemoryQuery) -> Iterable[tuple[str, sa.Select[Any]]]:
        """Yield the assertions that were written in the episode."""
        if self.narrows(query):
            yield (
                'episode',
                sa.select(assertion.c.assertion_id).where(_inside(assertion, _named(query, None))),
            )


def _inside(
    repeat: NamedFromClause, names: sa.Select[Any] | sa.CompoundSelect[Any]
) -> sa.ColumnElement[bool]:
    """Return whether an assertion was written in one of some episodes."""
    # The first condition follows from the second; it lets SQLite use the partial index over episodes.
    inside = sa.select(txn.c.sequence).where(txn.c.episode != '', txn.c.episode.in_(names))
    return repeat.c.sequence.in_(inside)


def _named(query: MemoryQuery, seq: int | None) -> sa.Select[Any]:
    """Select the names of the episodes of a query."""
    if query.outcome is None:
        return sa.select(sa.literal(query.episode, sa.Text))
    ended = episode.c.end_seq.is_not(None) if seq is None else episode.c.end_seq <= seq
    names = sa.select(episode.c.id).where(episode.c.outcome == query.outcome, episode.c.outcome != '', ended)
    return names if query.episode is None else names.where(episode.c.id == query.episode)


def _scoped(spec: QuerySpec) -> sa.Select[Any]:
    """Select the versions whose scope names the episode."""
    found = version.alias()
    names = _named(spec.query, spec.seq).subquery()
    values = sa.select(sa.literal(_SCOPE, sa.Text) + names.c[0])
    return (
        sa.select(found.c.version_row)
        .join(tag, tag.c.assertion_id == found.c.assertion_id)
        .where(tag.c.field == 'scope', tag.c.value.in_(values))
    )


def _repeated(spec: QuerySpec, home: Home) -> sa.Select[Any]:
    """Select the versions during which something of their content was written in the episode."""
    seq = spec.seq
    repeat, origin, found = home.assertion.alias(), assertion.alias(), version.alias()
    repeat_corrected, origin_corrected = home.corrected.alias(), corrected.alias()
    known_at = sa.case((repeat.c.sequence > found.c.from_seq, repeat.c.sequence), else_=found.c.from_seq)
    where = [
        _inside(repeat, _named(spec.query, seq)),
        repeat.c.valid_from_ns >= found.c.valid_from_ns,
        found.c.valid_to_ns.is_(None) | (repeat.c.valid_from_ns < found.c.valid_to_ns),
        _content(repeat, repeat_corrected) == _content(origin, origin_corrected),
    ]
    if not spec.ever_believed and seq is None:
        where.append(repeat.c.withdrawn_seq.is_(None))
    elif not spec.ever_believed:
        where += [repeat.c.sequence <= seq, repeat.c.withdrawn_seq.is_(None) | (repeat.c.withdrawn_seq > seq)]
    return (
        sa.select(found.c.version_row)
        .select_from(
            repeat.join(origin, origin.c.identity_id == repeat.c.identity_id)
            .join(found, found.c.assertion_id == origin.c.assertion_id)
            .outerjoin(repeat_corrected, _as_of(repeat_corrected, repeat, known_at))
            .outerjoin(origin_corrected, _as_of(origin_corrected, origin, found.c.from_seq))
        )
        .where(*where)
    )


def _as_of(
    repeat_corrected: NamedFromClause, repeat: NamedFromClause, seq: sa.ColumnElement[int]
) -> sa.ColumnElement[bool]:
    """Join an assertion with its correction as of a sequence."""
    return (
        (repeat_corrected.c.assertion_id == repeat.c.assertion_id)
        & (repeat_corrected.c.from_seq <= seq)
        & (repeat_corrected.c.to_seq.is_(None) | (repeat_corrected.c.to_seq > seq))
    )


def _content(repeat: NamedFromClause, repeat_corrected: NamedFromClause) -> sa.ColumnElement[Any]:
    return sa.case(
        (repeat_corrected.c.assertion_id.is_not(None), repeat_corrected.c.content_digest),
        else_=repeat.c.content_digest,
    )
