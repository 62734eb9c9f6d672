"""Which messages are refused before they are ordered: by their stamp, and by the name of their frame."""

from __future__ import annotations

from hylo_memory_ros.landmarks.observation import Message
from hylo_memory_ros.landmarks.settings import LandmarkSettings
from hylo_memory_ros.model import MAX_STAMP_NS, normal_frame

__all__ = ['broken_rule']


def broken_rule(message: Message, settings: LandmarkSettings, now_ns: int) -> str:
    """Return the name of the rule that a message breaks; empty: none.

    Parameters
    ----------
    now_ns : int
        The clock, nanoseconds; 0: it has not started.
    """
    stamp_ns = message.stamp_ns
    if stamp_ns == 0:
        return 'zero_stamp'
    if not 0 < stamp_ns <= MAX_STAMP_NS:
        return 'bad_stamp'
    if stamp_ns < settings.min_valid_stamp_s * 1e9:
        return 'before_min_valid_stamp'
    if now_ns and stamp_ns > now_ns + settings.max_ahead_s * 1e9:
        return 'ahead_of_clock'
    if message.needs_frame:
        try:
            normal_frame(message.frame_id)
        except ValueError:
            return 'bad_frame'
    return ''
