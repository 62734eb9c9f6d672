"""Facts of an episode, counted and picked from the feed, statements, receipts and verdicts.

Nothing is kept up to date for it while the episode goes on: the feed, the statements, the receipts and
the verdicts are read once, at the end. Purged items are in none of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryKind
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.schema import assertion, change, feedback, identity, receipt, txn

__all__ = [
    'SUMMARY_PREFIX',
    'SUMMARY_SOURCE',
    'EpisodeFacts',
    'KeyEvent',
    'gathered',
    'named_in',
    'summary_key',
    'summary_text',
]

# What says most about an episode, in this order; what is not here says nothing by itself.
_WEIGHTS = {
    name: weight
    for weight, name in enumerate(
        ('ADD', 'MERGE', 'useful', 'INVALIDATE', 'END', 'FORGET', 'RETRACT', 'misleading', 'wrong')
    )
}
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
        told=_told(connection, episode_id, most),
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


def _told(connection: sa.Connection, episode_id: str, most: int) -> tuple[str, ...]:
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
