"""Decoders of geometry_msgs, tf2_msgs/TFMessage and rosgraph_msgs/Clock."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.ingestion.decoders.cdr import NS_PER_S, CdrCursor, decode_whole
from hylo_memory_ros.perception.ingestion.observation import Detections, Message
from hylo_memory_ros.transforms.frame_tree import RawTransform

POSE = {order: struct.Struct(order + '7d') for order in '<>'}
"""A geometry_msgs/Pose, by byte order: x y z, and the quaternion x y z w."""


def decode_pose(message: bytes, source: str) -> Message:
    """Decode a geometry_msgs/PoseStamped.

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

    def read(cursor: CdrCursor) -> Message:
        stamp_ns, frame_id = cursor.header()
        poses = np.array(cursor.numbers(POSE[cursor.order], 8)).reshape(1, 7)
        return _pose_message(cursor, source, stamp_ns, frame_id, poses)

    return decode_whole(message, read)


def decode_poses(message: bytes, source: str) -> Message:
    """Decode a geometry_msgs/PoseArray; parameters as for `decode_pose`."""

    def read(cursor: CdrCursor) -> Message:
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
    cursor: CdrCursor, source: str, stamp_ns: int, frame_id: str, poses: NDArray[np.float64]
) -> Message:
    things = Detections(labels=[''] * len(poses), positions=poses[:, :3], orientations=poses[:, 3:])
    return Message(source, stamp_ns, frame_id, cursor.digest(), things)


_COVARIANCE = {order: struct.Struct(order + '36d') for order in '<>'}


class LocalizationReport(NamedTuple):
    """Uncertainty of the robot pose at a stamp."""

    stamp_ns: int
    """Stamp of the pose, nanoseconds."""
    frame_id: str
    """Frame of the pose."""
    covariance: tuple[float, ...]
    """36 numbers, row-major over x y z rotX rotY rotZ."""


def decode_localization(message: bytes) -> LocalizationReport:
    """Decode a geometry_msgs/PoseWithCovarianceStamped.

    Parameters
    ----------
    message : bytes
        CDR with its four bytes of encapsulation, either byte order.

    Raises
    ------
    ValueError
        If the bytes are no such message.
    """

    def read(cursor: CdrCursor) -> LocalizationReport:
        stamp_ns, frame_id = cursor.header()
        cursor.numbers(POSE[cursor.order], 8)
        return LocalizationReport(stamp_ns, frame_id, cursor.numbers(_COVARIANCE[cursor.order], 8))

    return decode_whole(message, read)


# Two stamps' parts, two empty strings and seven float64: no TransformStamped is shorter.
_LEAST_TRANSFORM = 8 + 4 + 4 + 56
_STAMP = {order: struct.Struct(order + 'iI') for order in '<>'}


def decode_transforms(message: bytes) -> list[RawTransform]:
    """Decode a tf2_msgs/TFMessage into unchecked transforms.

    Parameters
    ----------
    message : bytes
        CDR with its four bytes of encapsulation, either byte order.

    Raises
    ------
    ValueError
        If the bytes are not such a message, or a frame name in it is not UTF-8.
    """
    cursor = CdrCursor(message)
    try:
        return [_transform(cursor) for _ in range(cursor.count(_LEAST_TRANSFORM))]
    except struct.error as exc:
        raise ValueError(f'the message ends early: {exc}') from exc


def _transform(cursor: CdrCursor) -> RawTransform:
    sec, nanosec = map(int, cursor.numbers(_STAMP[cursor.order], 4))
    parent, child = cursor.text(), cursor.text()
    x, y, z, *rotation = cursor.numbers(POSE[cursor.order], 8)
    # A stamp with too many nanoseconds is rejected like a negative one, so that it is counted.
    stamp_ns = sec * NS_PER_S + nanosec if nanosec < NS_PER_S else -1
    return RawTransform(parent, child, stamp_ns, (x, y, z), rotation)


def decode_clock(message: bytes) -> int:
    """Decode a rosgraph_msgs/Clock; return nanoseconds.

    Parameters
    ----------
    message : bytes
        CDR with its four bytes of encapsulation, either byte order.

    Raises
    ------
    ValueError
        If the bytes are no such message.
    """
    return decode_whole(message, CdrCursor.stamp)
