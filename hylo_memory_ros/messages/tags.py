"""apriltag_msgs/AprilTagDetectionArray: which tags were seen; where they were, only tf knows.

The message has no pose: the detector publishes it on `/tf`, as the frame `family:id` below the
camera, with the stamp of the image.
"""

from __future__ import annotations

import struct

import numpy as np

from hylo_memory_ros.landmarks import Detections, Message, digest32
from hylo_memory_ros.messages.cursor import Cursor, read_whole

__all__ = ['read_tags']

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
