"""rosgraph_msgs/Clock."""

from __future__ import annotations

from hylo_memory_ros.messages.cursor import Cursor, read_whole

__all__ = ['read_clock']


def read_clock(message: bytes) -> int:
    """Return the time in a rosgraph_msgs/Clock, nanoseconds.

    Parameters
    ----------
    message : bytes
        CDR with its four bytes of encapsulation, either byte order.

    Raises
    ------
    ValueError
        If the bytes are no such message.
    """
    return read_whole(message, Cursor.stamp)
