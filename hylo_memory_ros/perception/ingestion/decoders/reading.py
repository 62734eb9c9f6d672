"""What came out of one message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hylo_memory_ros.perception import Message

__all__ = ['Reading']


class Reading(NamedTuple):
    """What one message of a topic amounts to."""

    messages: tuple[Message, ...]
    """Observations, one for each stamp and frame in it."""
    refused: Mapping[str, int]
    """Parts of it that are no observation, by reason."""
