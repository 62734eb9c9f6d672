"""geometry_msgs/PoseStamped and PoseArray: things without a class, which the input's settings name."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.ingestion.decoders.cdr import Cursor, decode_whole
from hylo_memory_ros.perception.ingestion.observation import Detections, Message, digest32
from hylo_memory_ros.transforms.frame_tree import RawTransform

__all__ = [
    'POSE',
    'LocalisationReport',
    'decode_clock',
    'decode_localisation',
    'decode_pose',
    'decode_poses',
    'decode_transforms',
]

POSE = {order: struct.Struct(order + '7d') for order in '<>'}
"""A geometry_msgs/Pose, by byte order: x y z, and the quaternion x y z w."""


def decode_pose(message: bytes, source: str) -> Message:
    """Read a geometry_msgs/PoseStamped: one thing.

    Parameters
    ----------
    message : bytes
        CDR with its four bytes of encapsulation, either byte order.
    source : str
        Name of the input.

    Raises
    ------
    ValueError
        If the bytes are no such message.
    """

    def read(cursor: Cursor) -> Message:
        stamp_ns, frame_id = cursor.header()
        poses = np.array(cursor.numbers(POSE[cursor.order], 8)).reshape(1, 7)
        return _pose_message(cursor, source, stamp_ns, frame_id, poses)

    return decode_whole(message, read)


def decode_poses(message: bytes, source: str) -> Message:
    """Read a geometry_msgs/PoseArray: several things of one kind; parameters as for `decode_pose`."""

    def read(cursor: Cursor) -> Message:
        stamp_ns, frame_id = cursor.header()
        count = cursor.count(POSE[cursor.order].size)
        size = count * 56
        if count:
            cursor.skip(size, 8)
        given = cursor.data[cursor.at - size : cursor.at]
        poses = np.frombuffer(given, dtype=cursor.order + 'f8').reshape(-1, 7).astype(np.float64)
        return _pose_message(cursor, source, stamp_ns, frame_id, poses)

    return decode_whole(message, read)


def _pose_message(
    cursor: Cursor, source: str, stamp_ns: int, frame_id: str, poses: NDArray[np.float64]
) -> Message:
    things = Detections(labels=[''] * len(poses), positions=poses[:, :3], orientations=poses[:, 3:])
    return Message(source, stamp_ns, frame_id, digest32(cursor.end()), things)


_COVARIANCE = {order: struct.Struct(order + '36d') for order in '<>'}


class LocalisationReport(NamedTuple):
    """What a report says, the pose itself aside."""

    stamp_ns: int
    """When it was so, nanoseconds."""
    frame_id: str
    """Frame of the pose."""
    covariance: tuple[float, ...]
    """36 numbers, row-major over x y z rotX rotY rotZ."""


def decode_localisation(message: bytes) -> LocalisationReport:
    """Read a report.

    Parameters
    ----------
    message : bytes
        CDR with its four bytes of encapsulation, either byte order.

    Raises
    ------
    ValueError
        If the bytes are no such message.
    """

    def read(cursor: Cursor) -> LocalisationReport:
        stamp_ns, frame_id = cursor.header()
        cursor.numbers(POSE[cursor.order], 8)
        return LocalisationReport(stamp_ns, frame_id, cursor.numbers(_COVARIANCE[cursor.order], 8))

    return decode_whole(message, read)


# CDR: the four bytes before the data, of which the second gives the byte order.
_ENCAPSULATION = 4
# No TransformStamped is shorter: two stamps' parts, two empty strings, seven float64.
_SMALLEST = 4 + 4 + 5 + 5 + 56


def decode_transforms(message: bytes) -> list[RawTransform]:
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


def _transforms(data: memoryview, count: int, order: str) -> list[RawTransform]:
    head, length, pose = (struct.Struct(order + form) for form in ('iII', 'I', '7d'))
    transforms: list[RawTransform] = []
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
        transforms.append(RawTransform(parent, child, stamp_ns, (x, y, z), rotation))
    return transforms


def _text(data: memoryview, start: int, size: int) -> tuple[str, int]:
    """Return a string whose size in bytes, its closing zero included, is known, and where it ends."""
    end = start + size
    if end > len(data):
        raise ValueError(f'a text of {size} bytes does not fit into the message')
    return str(data[start : max(start, end - 1)], 'utf-8'), end


def decode_clock(message: bytes) -> int:
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
    return decode_whole(message, Cursor.stamp)
