"""Status of a pipeline: watermarks and counters."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class InputStatus:
    """Status of one input."""

    name: str
    """Name of the input."""
    watermark_ns: int
    """Its newest stamp less the reorder window, or what a flush lifted it to; 0: nothing was received."""
    pending: int
    """Messages received that are not processed yet."""
    consumed: int
    """Messages processed since the start."""
    dropped: int
    """Messages lost to overload, to a missing transform, or to a switch of maps or clocks, ever."""
    late: int
    """Messages that came behind the node's watermark, ever."""
    repeated: int
    """Messages that had been consumed before, since the start."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Messages and detections that break a rule, by reason, since the start."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """The dropped messages since the start, by reason."""


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """Status of perception."""

    watermark_ns: int
    """Stamp up to which the order of observations is decided; 0: nothing was received."""
    inputs: tuple[InputStatus, ...]
    """Each declared input, in the order of the settings."""
    landmarks: int
    """Landmarks of the current map, tentative ones included, forgotten ones not."""
    confirmed: int
    """Number of those that were written."""
    uncommitted: int
    """Consumed messages that the next commit will store."""


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
        """Count lost messages: the memory no longer contains all observations."""
        if reason not in self.lost:
            _log.warning('input %s: a message was dropped (%s)', self.name, reason)
        self.lost[reason] += count
        self.dropped += count
        self.changed = True

    def count_late(self) -> None:
        """Count a message that arrived behind the watermark."""
        if not self.late:
            _log.warning('input %s: a message came behind the watermark and was dropped', self.name)
        self.late += 1
        self.changed = True

    def reject(self, reason: str, count: int = 1) -> None:
        """Count messages or detections that break a rule."""
        if count:
            self.refused[reason] += count
