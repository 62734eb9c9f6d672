"""What is remembered of an episode when it is over: its outcome, and the events that say most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hylo_memory_ros.model import Episode, MemoryItem, MemoryKind, TimeSpan
from hylo_memory_ros.model.span import ClockName
from hylo_memory_ros.store.episode_facts import EpisodeFacts, KeyEvent
from hylo_memory_ros.store.episode_summary import SUMMARY_SOURCE, summary_key, summary_text

__all__ = ['event_items', 'summary_item']

# Of what an item says, so much is repeated.
_MOST_CHARACTERS = 280

_VERBS = {
    'ADD': 'learned',
    'INVALIDATE': 'changed',
    'MERGE': 'found to be another',
    'END': 'ended',
    'FORGET': 'forgot',
    'RETRACT': 'withdrew',
    'useful': 'judged useful',
    'misleading': 'judged misleading',
    'wrong': 'judged wrong',
}


def event_items(begun: Episode, events: Sequence[KeyEvent], clock: ClockName) -> list[MemoryItem]:
    """Return an EPISODIC item for each key event, at its own time.

    Each links to the item that it is about, with which it is purged, and to the episode.
    """
    return [_event_item(begun, event, clock) for event in events]


def _event_item(begun: Episode, event: KeyEvent, clock: ClockName) -> MemoryItem:
    about = event.content or event.label
    if len(about) > _MOST_CHARACTERS:
        about = about[:_MOST_CHARACTERS] + '…'
    named = ' '.join(part for part in (event.kind, event.key) if part)
    return MemoryItem(
        kind=MemoryKind.EPISODIC,
        label='episode_event',
        content=f'{_VERBS[event.event]} {named}: {about}' if about else f'{_VERBS[event.event]} {named}',
        payload={'episode': begun.id, 'event': event.event, 'kind': event.kind},
        entities=event.entities,
        links=(('about', event.id), ('part_of', summary_key(begun.id))),
        scope=_scope(begun),
        event_time=TimeSpan(start_ns=event.at_ns, end_ns=event.at_ns, clock=clock),
        source=SUMMARY_SOURCE,
    )


def summary_item(
    ended: Episode, facts: EpisodeFacts, clock: ClockName, evidence: Sequence[str]
) -> MemoryItem:
    """Return the EPISODIC item that tells how an episode ended; it holds from then on.

    Parameters
    ----------
    ended : Episode
        With its outcome.
    facts : EpisodeFacts
        What happened in it.
    clock : {'sim', 'wall'}
        The service clock.
    evidence : sequence of str
        Ids of the EPISODIC items that were written in it.
    """
    assert ended.ended_ns is not None
    payload: dict[str, Any] = {
        'episode': ended.id,
        'outcome': ended.outcome,
        'begun_ns': ended.begun_ns,
        'ended_ns': ended.ended_ns,
        'counts': dict(facts.outcomes),
        'kinds': dict(facts.kinds),
        'transactions': facts.transactions,
        'retrievals': facts.retrievals,
        'verdicts': dict(facts.verdicts),
    }
    if not facts.complete:
        payload['complete'] = False
    return MemoryItem(
        kind=MemoryKind.EPISODIC,
        key=summary_key(ended.id),
        label='episode',
        content=summary_text(payload, (ended.note, ended.end_note)),
        payload=payload,
        scope=_scope(ended),
        event_time=TimeSpan(start_ns=ended.begun_ns, end_ns=ended.ended_ns, clock=clock),
        valid_from_ns=ended.ended_ns,
        evidence=tuple(evidence),
        source=SUMMARY_SOURCE,
    )


def _scope(one: Episode) -> dict[str, str]:
    return {**one.scope, 'episode_id': one.id}
