"""Status of a pipeline: watermarks and counters."""

from __future__ import annotations

import logging
import time
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
    """Messages lost since the start: to overload, a missing transform, a switch of maps or clocks."""
    late: int
    """Messages that came behind the node's watermark, since the start."""
    repeated: int
    """Messages that had been consumed before, since the start."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Messages and detections that break a rule, by reason, since the start."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """The dropped messages since the start, by reason."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """Cause of the newest loss in words, by reason, where more than the reason is known."""
    older_run: str = ''
    """Description of stamps far behind the watermark, as of a restarted simulator; empty: they are not."""


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

# A loss mostly goes on, and whoever looks at the log later must find it too, seconds.
_REPEAT_S = 30.0
# No reordering explains that a message is so far behind, seconds of stamps.
_OLDER_RUN_S = 60.0


@dataclass(slots=True)
class InputCounts:
    """The counters of one input."""

    name: str
    """Name of the input."""
    dropped: int = 0
    """Messages lost, ever: the memory does not contain them."""
    late: int = 0
    """Messages behind the watermark, ever."""
    consumed: int = 0
    """Messages processed since the start."""
    repeated: int = 0
    """Messages that were consumed before, since the start."""
    late_since_start: int = 0
    """Messages behind the watermark, since the start."""
    lost: Counter[str] = field(default_factory=Counter)
    """Messages lost since the start, by reason."""
    causes: dict[str, str] = field(default_factory=dict)
    """Cause of the newest loss in words, by reason."""
    refused: Counter[str] = field(default_factory=Counter)
    """Messages and detections that break a rule, since the start, by reason."""
    changed: bool = False
    """Whether `dropped` or `late` grew since they were stored."""
    older_run: str = ''
    """Description of stamps far behind the watermark; empty: the newest message was not."""
    _warned_s: dict[str, float] = field(default_factory=dict)

    def drop(self, reason: str, count: int = 1, cause: str = '') -> None:
        """Count lost messages: the memory no longer contains all observations.

        Parameters
        ----------
        reason : str
            Name of the count.
        count : int
            Number of messages.
        cause : str
            The cause in words, with the frames that it is about; empty: the reason says all.
        """
        self.lost[reason] += count
        self.dropped += count
        self.changed = True
        if cause:
            self.causes[reason] = cause
        self._warn(reason, f'{self.lost[reason]} dropped so far ({reason})' + (f': {cause}' if cause else ''))

    def count_late(self, stamp_ns: int, watermark_ns: int) -> None:
        """Count a message that arrived behind the watermark."""
        self.late += 1
        self.late_since_start += 1
        self.changed = True
        behind_s = (watermark_ns - stamp_ns) / 1e9
        self.older_run = ''
        if behind_s > _OLDER_RUN_S:
            self.older_run = (
                f'its messages are of {stamp_ns / 1e9:.3f} s, {behind_s:.0f} s behind what this memory has '
                'consumed, and none is used: after a restart of the simulator or the clock give a new '
                'database_path'
            )
        text = f'{self.late_since_start} came behind the watermark so far, and were dropped'
        self._warn('late', f'{text}; {self.older_run}' if self.older_run else text)

    def reject(self, reason: str, count: int = 1, *, warn: bool = False) -> None:
        """Count messages or detections that break a rule.

        Parameters
        ----------
        reason : str
            Name of the count.
        count : int
            Number of messages or detections.
        warn : bool
            Log it as well: whole messages of this kind are of no use.
        """
        if count:
            self.refused[reason] += count
        if warn:
            self._warn(reason, f'{self.refused[reason]} refused so far ({reason})')

    def _warn(self, reason: str, text: str) -> None:
        now_s = time.monotonic()
        if now_s - self._warned_s.get(reason, -_REPEAT_S) >= _REPEAT_S:
            self._warned_s[reason] = now_s
            # Limited here, for each input and reason; a limit for this line of code would hide the others.
            _log.warning('input %s: %s', self.name, text, extra={'unthrottled': True})
