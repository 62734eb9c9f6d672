"""Repository of episodes.

It is the transaction that carries an episode, never the item: ids, digests and the snapshot hash
do not depend on which episode a commit fell into.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.model import Episode
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.episodes.facts import EpisodeFacts, gathered
from hylo_memory_ros.storage.schema import episode, txn

__all__ = [
    'EpisodeRepository',
    'EpisodeWriter',
    'all_episodes',
    'any_episode',
    'ended_as',
    'episode_problems',
    'said_in',
]


def all_episodes(connection: sa.Connection) -> Iterator[Episode]:
    """Yield every episode, the oldest first."""
    yield from map(_episode, connection.execute(sa.select(episode).order_by(episode.c.begin_seq)).all())


def ended_as(begun: Episode, ended_ns: int, outcome: str, note: str) -> Episode:
    """Return an episode as it will be once it has ended."""
    return replace(begun, ended_ns=ended_ns, outcome=outcome, end_note=note)


def any_episode(connection: sa.Connection) -> bool:
    """Return whether there ever was an episode."""
    raw: Any = connection.connection.dbapi_connection
    return raw.execute('SELECT 1 FROM episode LIMIT 1').fetchone() is not None


def said_in(connection: sa.Connection, assertion_ids: Collection[int]) -> dict[int, str]:
    """Return the episode in which assertions were made, empty without one; of those that are here."""
    raw: Any = connection.connection.dbapi_connection
    # Straight to the driver: the hits of every query come this way.
    return dict(raw.execute(_SAID, (json.dumps(list(assertion_ids)),)).fetchall())


def episode_problems(connection: sa.Connection) -> Iterator[str]:
    """Yield what is wrong: an episode is all transactions from its begin to its end, one at a time.

    Those of a consolidation carry the episode of what they summarize, whenever they were made.
    """
    last, carrying = connection.execute(_CARRYING).one()
    spans = connection.execute(_SPANS).all()
    opened = [row.id for row in spans if row.end_seq is None]
    if len(opened) > 1:
        yield f'{len(opened)} episodes are open: {opened[:5]}'
    for row in spans:
        end = last if row.end_seq is None else row.end_seq
        if (row.least, row.most, row.carrying) != (row.begin_seq, end, row.within):
            yield f'episode {row.id!r}: not all transactions from {row.begin_seq} to {end} carry it'
        if row.end_seq is not None and not row.begun_ns <= row.ended_ns:
            yield f'episode {row.id!r}: it ended before it began'
    if carrying != sum(row.carrying for row in spans):
        yield 'a transaction carries an episode that there is not'


def _known(one: Episode, seq: int | None) -> Episode:
    """Return an episode as it was known after a sequence."""
    if seq is None or one.end_seq is None or one.end_seq <= seq:
        return one
    return replace(one, ended_ns=None, end_seq=None, outcome='', end_note='')


def _episode(row: Any) -> Episode:
    return Episode(
        row.id,
        row.begun_ns,
        row.begin_seq,
        row.ended_ns,
        row.end_seq,
        row.outcome,
        json.loads(row.scope),
        row.note,
        row.end_note,
        row.actor,
    )


_SAID = """
    SELECT a.assertion_id, t.episode
    FROM json_each(?) AS asked JOIN assertion AS a ON a.assertion_id = asked.value
    JOIN txn AS t ON t.sequence = a.sequence
"""
_told = txn.c.op != 'consolidate'
_within = txn.alias('within')
_CARRYING = sa.select(
    sa.select(sa.func.coalesce(sa.func.max(txn.c.sequence), 0)).where(_told).scalar_subquery(),
    sa.select(sa.func.count()).select_from(txn).where(_told, txn.c.episode != '').scalar_subquery(),
)
_SPANS = (
    sa.select(
        episode,
        sa.func.count(txn.c.sequence).label('carrying'),
        sa.func.min(txn.c.sequence).label('least'),
        sa.func.max(txn.c.sequence).label('most'),
        sa.select(sa.func.count())
        .select_from(_within)
        .where(
            _within.c.op != 'consolidate',
            _within.c.sequence >= episode.c.begin_seq,
            episode.c.end_seq.is_(None) | (_within.c.sequence <= episode.c.end_seq),
        )
        .correlate(episode)
        .scalar_subquery()
        .label('within'),
    )
    .select_from(episode.outerjoin(txn, (txn.c.episode == episode.c.id) & (txn.c.episode != '') & _told))
    .group_by(episode.c.id)
    .order_by(episode.c.begin_seq)
)


class EpisodeRepository:
    """Episodes, and what happened in them."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def open(self) -> Episode | None:
        """Return the episode that is open, or None."""
        row = self._connection.execute(sa.select(episode).where(episode.c.end_seq.is_(None))).first()
        return None if row is None else _episode(row)

    def load(self, episode_id: str) -> Episode | None:
        """Return an episode by its name, or None."""
        row = self._connection.execute(sa.select(episode).where(episode.c.id == episode_id)).one_or_none()
        return None if row is None else _episode(row)

    def find(
        self,
        *,
        outcome: str | None = None,
        scope: Mapping[str, str] | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        seq: int | None = None,
        limit: int,
    ) -> list[Episode]:
        """Return episodes, the newest first.

        Parameters
        ----------
        outcome : str, optional
            How they ended.
        scope : mapping, optional
            Scope values that they must all have.
        start_ns, end_ns : int, optional
            Those that meet this closed stretch of time on the service clock, nanoseconds.
        seq : int, optional
            As they were known after this sequence: one that had not ended is open; None: as they are now.
        limit : int
            Most episodes.
        """
        known_end = episode.c.end_seq.is_not(None) if seq is None else episode.c.end_seq <= seq
        where: list[sa.ColumnElement[bool]] = []
        if seq is not None:
            where.append(episode.c.begin_seq <= seq)
        if outcome is not None:
            where += [episode.c.outcome == outcome, known_end]
        if end_ns is not None:
            where.append(episode.c.begun_ns <= end_ns)
        if start_ns is not None:
            where.append(~known_end | (episode.c.ended_ns >= start_ns))
        for name, value in (scope or {}).items():
            pair = sa.func.json_each(episode.c.scope).table_valued('key', 'value')
            where.append(sa.exists().where(pair.c.key == name, pair.c.value == value))
        statement = sa.select(episode).where(*where).order_by(episode.c.begin_seq.desc()).limit(limit)
        return [_known(_episode(row), seq) for row in self._connection.execute(statement)]

    def facts(self, episode_id: str, most: int) -> EpisodeFacts:
        """Return what happened in an episode, with at most so many key events."""
        return gathered(self._connection, episode_id, most)


class EpisodeWriter(EpisodeRepository):
    """Episodes begun and ended in a numbered transaction."""

    def __init__(self, changeset: Changeset) -> None:
        super().__init__(changeset.connection)
        self._changeset = changeset

    def begin(self, episode_id: str, *, scope: Mapping[str, str], note: str) -> Episode:
        """Begin an episode; the transaction is its first one."""
        begun = Episode(
            episode_id,
            self._changeset.recorded_at_ns,
            self._changeset.sequence,
            scope=dict(scope),
            note=note,
            actor=self._changeset.actor,
        )
        self._changeset.episode = episode_id
        here = txn.c.sequence == self._changeset.sequence
        self._changeset.connection.execute(txn.update().where(here).values(episode=episode_id))
        self._changeset.connection.execute(
            episode.insert(),
            {
                'id': episode_id,
                'begin_seq': begun.begin_seq,
                'begun_ns': begun.begun_ns,
                'scope': json.dumps(begun.scope, ensure_ascii=False, sort_keys=True),
                'note': note,
                'actor': begun.actor,
            },
        )
        return begun

    def end(self, begun: Episode, *, ended_ns: int, outcome: str, note: str) -> Episode:
        """End the open episode; the transaction is its last one."""
        ended = replace(ended_as(begun, ended_ns, outcome, note), end_seq=self._changeset.sequence)
        values = {'ended_ns': ended_ns, 'end_seq': ended.end_seq, 'outcome': outcome, 'end_note': note}
        self._changeset.connection.execute(episode.update().where(episode.c.id == begun.id).values(values))
        return ended
