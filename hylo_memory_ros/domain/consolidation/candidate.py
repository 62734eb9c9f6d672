"""An event that consolidation may merge or summarize."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ['ConsolidationCandidate']


class ConsolidationCandidate(NamedTuple):
    """One event that holds now, with the columns that planning reads."""

    version_row: int
    identity_id: int
    assertion_id: int
    valid_from_ns: int
    event_start_ns: int | None
    event_clock: str | None
    label: str
    content: str
    map_id: str
    scope: str | None
    """JSON, or None: nothing beside its map."""
    named: str | None
    """Entities and object ids as JSON, or None: there are none."""
    has_payload: int
    frame_id: str | None
    """Frame of its place, or None: it has none."""
    x: float
    y: float
    z: float
    episode: str
    """The episode in which it was stored; empty: none."""
    source: str
    level: int
    """0: an event; else a summary, 1 above the highest level that it may replace."""
    items: int
    """Accepted statements of its identity, duplicates too."""
    bytes: int
    """Approximate size of them with their vectors."""
