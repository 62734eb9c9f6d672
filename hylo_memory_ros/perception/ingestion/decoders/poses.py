"""geometry_msgs/PoseStamped and PoseArray: things without a class, which the input's settings name."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception import Detections, Message, digest32
from hylo_memory_ros.perception.ingestion.decoders.cdr import Cursor, read_whole

__all__ = ['POSE', 'read_pose', 'read_poses', 'read_tags']

POSE = {order: struct.Struct(order + '7d') for order in '<>'}
"""A geometry_msgs/Pose, by byte order: x y z, and the quaternion x y z w."""


def read_pose(message: bytes, source: str) -> Message:
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
        return _message(cursor, source, stamp_ns, frame_id, poses)

    return read_whole(message, read)


def read_poses(message: bytes, source: str) -> Message:
    """Read a geometry_msgs/PoseArray: several things of one kind; parameters as for `read_pose`."""

    def read(cursor: Cursor) -> Message:
        stamp_ns, frame_id = cursor.header()
        count = cursor.count(POSE[cursor.order].size)
        size = count * 56
        if count:
            cursor.skip(size, 8)
        given = cursor.data[cursor.at - size : cursor.at]
        poses = np.frombuffer(given, dtype=cursor.order + 'f8').reshape(-1, 7).astype(np.float64)
        return _message(cursor, source, stamp_ns, frame_id, poses)

    return read_whole(message, read)


def _message(
    cursor: Cursor, source: str, stamp_ns: int, frame_id: str, poses: NDArray[np.float64]
) -> Message:
    things = Detections(labels=[''] * len(poses), positions=poses[:, :3], orientations=poses[:, 3:])
    return Message(source, stamp_ns, frame_id, digest32(cursor.end()), things)


INT = {order: struct.Struct(order + 'i') for order in '<>'}
# Family, id, hamming, goodness, margin; then nineteen float64: centre, corners, homography.
LEAST_TAG = 4 + 16
CORNERS_AND_HOMOGRAPHY = 8 * (2 + 8 + 9)


def read_tags(message: bytes, source: str) -> Message:
    """Read an apriltag_msgs/AprilTagDetectionArray.

    The class of a tag is its family, its instance ``family:id``, which is also the frame in tf
    that has its pose.

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
    return read_whole(message, lambda cursor: _array(cursor, source))


def _array(cursor: Cursor, source: str) -> Message:
    stamp_ns, frame_id = cursor.header()
    families, names = [], []
    for _ in range(cursor.count(LEAST_TAG + CORNERS_AND_HOMOGRAPHY)):
        family = cursor.text()
        (number,) = cursor.numbers(INT[cursor.order], 4)
        cursor.skip(12)
        cursor.skip(CORNERS_AND_HOMOGRAPHY, 8)
        families.append(family)
        names.append(f'{family}:{number}')
    tags = Detections(
        labels=families,
        positions=np.zeros((len(names), 3)),
        instances=names,
        frames=names,
    )
    return Message(source, stamp_ns, frame_id, digest32(cursor.end()), tags)
