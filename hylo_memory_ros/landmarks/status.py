"""What a pipeline tells of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ['InputStatus', 'PipelineStatus']


@dataclass(frozen=True, slots=True)
class InputStatus:
    """How one input stands."""

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
    """How perception stands."""

    watermark_ns: int
    """Stamp up to which the order of observations is decided; 0: nothing was received."""
    inputs: tuple[InputStatus, ...]
    """Each declared input, in the order of the settings."""
    landmarks: int
    """Landmarks of the current map, tentative ones included, forgotten ones not."""
    confirmed: int
    """Those among them that were written."""
    uncommitted: int
    """Consumed messages that the next commit will store."""
