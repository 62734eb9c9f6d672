"""An event that consolidation may merge or summarize."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ['Consolidable']


class Consolidable(NamedTuple):
    """One happening that holds now, as planning sees it."""

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
    """0: it happened; else a consolidation said it, 1 above the highest that it may stand for."""
    items: int
    """Accepted statements of its identity, duplicates too."""
    bytes: int
    """What they take with their vectors, about."""
