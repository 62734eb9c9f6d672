"""tf2_msgs/TFMessage."""

from __future__ import annotations

import struct

from hylo_memory_ros.perception.ingestion.decoders.cdr import Cursor, read_whole
from hylo_memory_ros.transforms.frame_tree import Incoming

__all__ = ['read_clock', 'read_transforms']

# CDR: the four bytes before the data, of which the second gives the byte order.
_ENCAPSULATION = 4
# No TransformStamped is shorter: two stamps' parts, two empty strings, seven float64.
_SMALLEST = 4 + 4 + 5 + 5 + 56


def read_transforms(message: bytes) -> list[Incoming]:
    """Return the transforms in the bytes of a tf2_msgs/TFMessage, unchecked.

    Parameters
    ----------
    message : bytes
        CDR with its four bytes of encapsulation, either byte order.

    Raises
    ------
    ValueError
        If the bytes are no such message, or a frame name in it is not UTF-8.
    """
    if len(message) < _ENCAPSULATION + 4 or message[0] or message[1] > 1:
        raise ValueError(f'{len(message)} bytes that begin with {message[:4].hex()} are no CDR message')
    order = '<' if message[1] else '>'
    data = memoryview(message)[_ENCAPSULATION:]
    (count,) = struct.unpack_from(order + 'I', data, 0)
    if count * _SMALLEST > len(data):
        raise ValueError(f'{count} transforms do not fit into {len(data)} bytes')
    try:
        return _transforms(data, count, order)
    except struct.error as exc:
        raise ValueError(f'the message ends early: {exc}') from exc


def _transforms(data: memoryview, count: int, order: str) -> list[Incoming]:
    head, length, pose = (struct.Struct(order + form) for form in ('iII', 'I', '7d'))
    transforms: list[Incoming] = []
    at = 4
    for _ in range(count):
        at += -at % 4
        sec, nanosec, size = head.unpack_from(data, at)
        parent, at = _text(data, at + 12, size)
        at += -at % 4
        (size,) = length.unpack_from(data, at)
        child, at = _text(data, at + 4, size)
        at += -at % 8
        x, y, z, *rotation = pose.unpack_from(data, at)
        at += pose.size
        # A second's nanoseconds are below 1e9; what is not is refused like a negative stamp.
        stamp_ns = sec * 10**9 + nanosec if nanosec < 10**9 else -1
        transforms.append(Incoming(parent, child, stamp_ns, (x, y, z), rotation))
    return transforms


def _text(data: memoryview, start: int, size: int) -> tuple[str, int]:
    """Return a string whose size in bytes, its closing zero included, is known, and where it ends."""
    end = start + size
    if end > len(data):
        raise ValueError(f'a text of {size} bytes does not fit into the message')
    return str(data[start : max(start, end - 1)], 'utf-8'), end


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
