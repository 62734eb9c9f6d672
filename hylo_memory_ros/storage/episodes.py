"""Repository of episodes, and the facts that the end of an episode records.

It is the transaction that carries an episode, never the item: ids, digests and the snapshot hash
do not depend on which episode a commit fell into.

Nothing is kept up to date for it while the episode goes on: the feed, the statements, the receipts and
the verdicts are read once, at the end. Purged items are in none of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.model import Episode, MemoryKind
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.schema import assertion, change, episode, feedback, identity, receipt, txn

# What says most about an episode, in this order; what is not here says nothing by itself.
_WEIGHTS = {
    name: weight
    for weight, name in enumerate(
        ('ADD', 'MERGE', 'useful', 'INVALIDATE', 'END', 'FORGET', 'RETRACT', 'misleading', 'wrong')
    )
}
_CONFIRMED = 'CONFIRM'
# Administration of what is remembered is no event of the robot's work.
_WORK = ('write', 'end', 'forget', 'retract', 'correct')
_EPISODIC = MemoryKind.EPISODIC.value


class KeyEvent(NamedTuple):
    """One thing that happened, and what it happened to."""

    event: str
    """Outcome of a transaction, such as ``FORGET``, or a verdict, such as ``wrong``."""
    at_ns: int
    """Service clock, nanoseconds."""
    id: str
    """The item."""
    kind: str
    """Its kind."""
    key: str
    """Its key; empty: none."""
    label: str
    """Its label."""
    content: str
    """What it says."""
    entities: tuple[str, ...]
    """Whom and what it names."""


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """Counts and key events of an episode that ends."""

    outcomes: Mapping[str, int]
    """How often each outcome of a change came: ``ADD``, ``INVALIDATE`` …"""
    kinds: Mapping[str, int]
    """How many statements were accepted, by kind, those that were known before too."""
    transactions: int
    """How many there were, the begin included."""
    retrievals: int
    """How many receipts of retrievals are kept."""
    verdicts: Mapping[str, int]
    """How often each verdict was given."""
    events: tuple[KeyEvent, ...]
    """What says most, in order of time."""
    told: tuple[str, ...]
    """Ids of what was written as EPISODIC meanwhile, the latest, in order of time."""
    complete: bool
    """Whether the feed still had every transaction."""


def gathered(connection: sa.Connection, episode_id: str, most: int) -> EpisodeFacts:
    """Return the facts of an episode.

    Parameters
    ----------
    connection : Connection
    episode_id : str
        Its name.
    most : int
        Most key events, and most ids of the summary.
    """
    feed = _Feed(connection, episode_id)
    verdicts = sa.select(feedback.c.outcome, sa.func.count()).where(feedback.c.episode == episode_id)
    kept = sa.select(sa.func.count()).where(receipt.c.episode != '', receipt.c.episode == episode_id)
    said = (
        sa.select(identity.c.kind, sa.func.sum(1 + assertion.c.repeats))
        .join(assertion, assertion.c.identity_id == identity.c.identity_id)
        .where(assertion.c.sequence.in_(_sequences(episode_id)))
        .group_by(identity.c.kind)
    )
    judged = dict(_pairs(connection.execute(verdicts.group_by(feedback.c.outcome))))
    return EpisodeFacts(
        outcomes=dict(sorted(feed.outcomes.items())),
        kinds=dict(sorted(_pairs(connection.execute(said)))),
        transactions=feed.transactions,
        retrievals=connection.scalar(kept) or 0,
        verdicts=dict(sorted(judged.items())),
        events=_picked(connection, [*feed.changes, *_verdicts(connection, episode_id)], most),
        told=_counted_facts(connection, episode_id, most),
        complete=feed.transactions == connection.scalar(_counted(episode_id)),
    )


def named_in(connection: sa.Connection, episode_id: str) -> set[str]:
    """Return the ids that the feed of an episode and the verdicts given in it name."""
    names = set(connection.scalars(sa.select(feedback.c.item).where(feedback.c.episode == episode_id)))
    for row in connection.execute(_feed, {'episode': episode_id}):
        names.update(json.loads(row.ids))
    return names


class _Change(NamedTuple):
    weight: int
    sequence: int
    """Or for verdicts, the order of their coming."""
    event: str
    at_ns: int
    id: str


class _Feed:
    """Feed of an episode: counts, and the most telling change of each item."""

    def __init__(self, connection: sa.Connection, episode_id: str) -> None:
        self.outcomes: Counter[str] = Counter()
        self.transactions = 0
        found: dict[str, _Change] = {}
        for row in connection.execute(_feed, {'episode': episode_id}):
            self.transactions += 1
            outcomes = json.loads(row.outcomes)
            if row.op == 'write':
                # A repetition that adds to a statement; elsewhere two landmarks prove to be one.
                outcomes = [_CONFIRMED if outcome == 'MERGE' else outcome for outcome in outcomes]
            self.outcomes.update(outcome for outcome in outcomes if outcome != 'PURGED')
            if row.op not in _WORK:
                continue
            for item_id, outcome in zip(json.loads(row.ids), outcomes, strict=False):
                weight = _WEIGHTS.get(outcome)
                if weight is not None:
                    one = _Change(weight, row.sequence, outcome, row.recorded_at_ns, item_id)
                    found[item_id] = max(one, found.get(item_id, one))
        self.changes = list(found.values())


def _verdicts(connection: sa.Connection, episode_id: str) -> Iterator[_Change]:
    rows = (
        sa.select(
            feedback.c.outcome,
            feedback.c.item,
            sa.func.max(feedback.c.recorded_at_ns).label('at_ns'),
            sa.func.max(feedback.c.number).label('number'),
        )
        .where(feedback.c.episode == episode_id)
        .group_by(feedback.c.outcome, feedback.c.item)
    )
    for row in connection.execute(rows):
        if (weight := _WEIGHTS.get(row.outcome)) is not None:
            yield _Change(weight, row.number, row.outcome, row.at_ns, row.item)


def _picked(connection: sa.Connection, changes: list[_Change], most: int) -> tuple[KeyEvent, ...]:
    """Return what says most, of each thing once; of what says as much, the latest."""
    changes.sort(reverse=True)
    picked: dict[tuple[str, str], tuple[int, int, KeyEvent]] = {}
    for part in chunks(changes, max(4 * most, 16)):
        if len(picked) >= most:
            break
        items = _items(connection, {one.id for one in part})
        for one in part:
            item = items.get(one.id)
            if item is not None and item.kind != _EPISODIC and len(picked) < most:
                event = KeyEvent(
                    one.event,
                    one.at_ns,
                    item.id,
                    item.kind,
                    item.key,
                    item.label,
                    item.content,
                    _entities(item.detail),
                )
                place = (one.at_ns, one.sequence, event)
                picked.setdefault((item.kind, item.key or item.id), place)
    return tuple(event for _, _, event in sorted(picked.values()))


def _items(connection: sa.Connection, ids: Iterable[str]) -> dict[str, Any]:
    found = {}
    for part in chunks(ids):
        found.update({row.id: row for row in connection.execute(_by_id, {'ids': part})})
    return found


def _entities(detail: str | None) -> tuple[str, ...]:
    return tuple(json.loads(detail or '{}').get('entities', ()))


def _counted_facts(connection: sa.Connection, episode_id: str, most: int) -> tuple[str, ...]:
    rows = (
        sa.select(assertion.c.id)
        .join(identity, identity.c.identity_id == assertion.c.identity_id)
        .where(assertion.c.sequence.in_(_sequences(episode_id)), identity.c.kind == _EPISODIC)
        .group_by(assertion.c.id)
        .order_by(sa.func.max(assertion.c.assertion_id).desc())
        .limit(most)
    )
    return tuple(reversed(list(connection.scalars(rows))))


def _pairs(rows: Iterable[Any]) -> Iterator[tuple[str, int]]:
    yield from ((str(name), int(count)) for name, count in rows)


def _sequences(episode_id: str) -> sa.Select[Any]:
    # The first condition is always so; said, it lets the index of those that have an episode be used.
    return sa.select(txn.c.sequence).where(txn.c.episode != '', txn.c.episode == episode_id)


def _counted(episode_id: str) -> sa.Select[Any]:
    return sa.select(sa.func.count()).select_from(_sequences(episode_id).subquery())


_feed = (
    sa.select(txn.c.sequence, txn.c.recorded_at_ns, txn.c.op, change.c.ids, change.c.outcomes)
    .join(change, change.c.sequence == txn.c.sequence)
    .where(txn.c.episode != '', txn.c.episode == sa.bindparam('episode'))
    .order_by(txn.c.sequence)
)
_by_id = (
    sa.select(
        assertion.c.id,
        identity.c.kind,
        sa.func.coalesce(identity.c.key, '').label('key'),
        assertion.c.label,
        assertion.c.content,
        assertion.c.detail,
    )
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .where(assertion.c.id.in_(sa.bindparam('ids', expanding=True)))
    .order_by(assertion.c.assertion_id)
)

SUMMARY_SOURCE = 'hylo_memory_ros.episodes@1'
"""Producer of what the end of an episode writes."""
SUMMARY_PREFIX = 'episode/'
"""With what the keys of such items begin."""

_COUNTED = {
    'ADD': 'added',
    'INVALIDATE': 'changed',
    'MERGE': 'merged',
    'END': 'ended',
    'FORGET': 'forgotten',
    'RETRACT': 'retracted',
    _CONFIRMED: 'confirmed',
}


def summary_key(episode_id: str) -> str:
    """Return the key of the summary item of an episode."""
    return SUMMARY_PREFIX + episode_id


def summary_text(payload: Mapping[str, Any], notes: Sequence[str]) -> str:
    """Return a summary in words, from its payload and the notes of begin and end."""
    seconds = (payload['ended_ns'] - payload['begun_ns']) / 1e9
    said = f'Episode {payload["episode"]} ended after {seconds:.1f} s: {payload["outcome"]}.'
    happened = '; '.join(_happened(payload))
    return ' '.join(part for part in (said, f'{happened}.' if happened else '', *notes) if part)


def _happened(payload: Mapping[str, Any]) -> Iterator[str]:
    counts, verdicts, retrievals = payload['counts'], payload['verdicts'], payload['retrievals']
    if changes := [f'{counts[name]} {verb}' for name, verb in _COUNTED.items() if counts.get(name)]:
        yield ', '.join(changes)
    if retrievals:
        yield f'{retrievals} retrieval{"s" * (retrievals != 1)} with a receipt'
    if verdicts:
        yield 'judged ' + ', '.join(f'{count} {name}' for name, count in verdicts.items())


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
