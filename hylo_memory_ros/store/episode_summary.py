"""The item that tells how an episode ended: its name, and its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ['SUMMARY_PREFIX', 'SUMMARY_SOURCE', 'summary_key', 'summary_text']

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
    """Return the key of the item that tells how an episode ended."""
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
