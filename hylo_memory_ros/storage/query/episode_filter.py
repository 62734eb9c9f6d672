"""What belongs to an episode, as a condition over versions.

A version belongs to it by every assertion that it stands for, so also to the one in which it was said
again; or by the scope ``episode_id`` that its producer gave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.selectable import NamedFromClause

from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.storage.query.links import HERE, Home
from hylo_memory_ros.storage.schema import assertion, corrected, episode, tag, txn, version
from hylo_memory_ros.storage.statements.mapper import paired

__all__ = ['asserted_in', 'in_episode']

_SCOPE = paired('episode_id', '')


def in_episode(
    query: MemoryQuery, seq: int | None, *, ever: bool, among: Sequence[Home] = (HERE,)
) -> sa.ColumnElement[bool]:
    """Return whether a version belongs to the episode that a query asks for, or to one that ended so.

    Parameters
    ----------
    query : MemoryQuery
        With `episode`, `outcome` or both.
    seq : int or None
        What was said, and which episodes had ended, as of this sequence; None: now.
    ever : bool
        Also by what has been withdrawn.
    among : sequence of Home
        Where else it may have been said again.
    """
    again = [_said_again(query, seq, ever, home) for home in among]
    return version.c.version_row.in_(sa.union(*again, _scoped(query, seq)))


def asserted_in(query: MemoryQuery) -> sa.Select[Any]:
    """Select the assertions that were said in it, to be counted."""
    return sa.select(assertion.c.assertion_id).where(_said_inside(assertion, _named(query, None)))


def _said_inside(
    said: NamedFromClause, names: sa.Select[Any] | sa.CompoundSelect[Any]
) -> sa.ColumnElement[bool]:
    """Return whether an assertion was said in one of some episodes."""
    # The first condition is always so; said, it lets the index of those that have an episode be used.
    inside = sa.select(txn.c.sequence).where(txn.c.episode != '', txn.c.episode.in_(names))
    return said.c.sequence.in_(inside)


def _named(query: MemoryQuery, seq: int | None) -> sa.Select[Any]:
    """Select the names of the episodes that are meant."""
    if query.outcome is None:
        return sa.select(sa.literal(query.episode, sa.Text))
    ended = episode.c.end_seq.is_not(None) if seq is None else episode.c.end_seq <= seq
    names = sa.select(episode.c.id).where(episode.c.outcome == query.outcome, episode.c.outcome != '', ended)
    return names if query.episode is None else names.where(episode.c.id == query.episode)


def _scoped(query: MemoryQuery, seq: int | None) -> sa.Select[Any]:
    found = version.alias()
    names = _named(query, seq).subquery()
    values = sa.select(sa.literal(_SCOPE, sa.Text) + names.c[0])
    return (
        sa.select(found.c.version_row)
        .join(tag, tag.c.assertion_id == found.c.assertion_id)
        .where(tag.c.field == 'scope', tag.c.value.in_(values))
    )


def _said_again(query: MemoryQuery, seq: int | None, ever: bool, home: Home) -> sa.Select[Any]:
    """Select the versions in whose stretch something of their content was said in the episode."""
    said, spoken, found = home.assertion.alias(), assertion.alias(), version.alias()
    said_as, spoken_as = home.corrected.alias(), corrected.alias()
    known_at = sa.case((said.c.sequence > found.c.from_seq, said.c.sequence), else_=found.c.from_seq)
    where = [
        _said_inside(said, _named(query, seq)),
        said.c.valid_from_ns >= found.c.valid_from_ns,
        found.c.valid_to_ns.is_(None) | (said.c.valid_from_ns < found.c.valid_to_ns),
        _content(said, said_as) == _content(spoken, spoken_as),
    ]
    if not ever and seq is None:
        where.append(said.c.withdrawn_seq.is_(None))
    elif not ever:
        where += [said.c.sequence <= seq, said.c.withdrawn_seq.is_(None) | (said.c.withdrawn_seq > seq)]
    return (
        sa.select(found.c.version_row)
        .select_from(
            said.join(spoken, spoken.c.identity_id == said.c.identity_id)
            .join(found, found.c.assertion_id == spoken.c.assertion_id)
            .outerjoin(said_as, _as_of(said_as, said, known_at))
            .outerjoin(spoken_as, _as_of(spoken_as, spoken, found.c.from_seq))
        )
        .where(*where)
    )


def _as_of(
    said_as: NamedFromClause, said: NamedFromClause, seq: sa.ColumnElement[int]
) -> sa.ColumnElement[bool]:
    """Join an assertion with what a correction has it say at a sequence."""
    return (
        (said_as.c.assertion_id == said.c.assertion_id)
        & (said_as.c.from_seq <= seq)
        & (said_as.c.to_seq.is_(None) | (said_as.c.to_seq > seq))
    )


def _content(said: NamedFromClause, said_as: NamedFromClause) -> sa.ColumnElement[Any]:
    return sa.case(
        (said_as.c.assertion_id.is_not(None), said_as.c.content_digest), else_=said.c.content_digest
    )
