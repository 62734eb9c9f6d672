"""What is counted of each input, and whether everything was seen."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

__all__ = ['InputCounts']

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class InputCounts:
    """The counters of one input."""

    name: str
    """Name of the input."""
    dropped: int = 0
    """Messages lost, ever."""
    late: int = 0
    """Messages behind the watermark, ever."""
    consumed: int = 0
    """Messages processed since the start."""
    repeated: int = 0
    """Messages that were consumed before, since the start."""
    lost: Counter[str] = field(default_factory=Counter)
    """Messages lost since the start, by reason."""
    refused: Counter[str] = field(default_factory=Counter)
    """Messages and detections that break a rule, since the start, by reason."""
    changed: bool = False
    """Whether `dropped` or `late` grew since they were stored."""

    def drop(self, reason: str, count: int = 1) -> None:
        """Count messages that are lost: what is remembered is no longer all that was seen."""
        if reason not in self.lost:
            _log.warning('input %s: a message was dropped (%s)', self.name, reason)
        self.lost[reason] += count
        self.dropped += count
        self.changed = True

    def miss(self) -> None:
        """Count a message that came behind the watermark: its place in the order is gone."""
        if not self.late:
            _log.warning('input %s: a message came behind the watermark and was dropped', self.name)
        self.late += 1
        self.changed = True

    def refuse(self, reason: str, count: int = 1) -> None:
        """Count messages or detections that break a rule."""
        if count:
            self.refused[reason] += count
