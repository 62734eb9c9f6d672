"""A stretch of the robot's work, from its begin to its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hylo_memory_ros.model.time import seconds_from_ns

__all__ = ['Episode']


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode as it is known: open, or ended with an outcome."""

    id: str
    """Its name."""
    begun_ns: int
    """Service clock at its begin, nanoseconds."""
    begin_seq: int
    """The transaction that began it, its first one."""
    ended_ns: int | None = None
    """Service clock at its end, nanoseconds; None: it is open."""
    end_seq: int | None = None
    """The transaction that ended it, its last one; None: it is open."""
    outcome: str = ''
    """How it ended, such as ``success``; empty: it is open."""
    scope: Mapping[str, str] = field(default_factory=dict)
    """Where it belongs: ``task_id``, ``robot_id`` …"""
    note: str = ''
    """What was said of it at its begin."""
    end_note: str = ''
    """What was said of it at its end."""
    actor: str = ''
    """Who began it."""

    @property
    def is_open(self) -> bool:
        """True until the episode ends."""
        return self.end_seq is None

    @property
    def begun(self) -> float:
        """Service clock at its begin, seconds."""
        return self.begun_ns / 1e9

    @property
    def ended(self) -> float | None:
        """Service clock at its end, seconds; None: it is open."""
        return seconds_from_ns(self.ended_ns)

    @property
    def duration_s(self) -> float | None:
        """Duration in seconds; None while the episode is open."""
        return None if self.ended_ns is None else (self.ended_ns - self.begun_ns) / 1e9
