"""geometry_msgs/PoseWithCovarianceStamped: how sure the robot is of where it is."""

from __future__ import annotations

import struct
from typing import NamedTuple

from hylo_memory_ros.perception.ingestion.decoders.cdr import Cursor, read_whole
from hylo_memory_ros.perception.ingestion.decoders.poses import POSE

__all__ = ['Localised', 'read_localisation']

_COVARIANCE = {order: struct.Struct(order + '36d') for order in '<>'}


class Localised(NamedTuple):
    """What a report says, the pose itself aside."""

    stamp_ns: int
    """When it was so, nanoseconds."""
    frame_id: str
    """Frame of the pose."""
    covariance: tuple[float, ...]
    """36 numbers, row-major over x y z rotX rotY rotZ."""


def read_localisation(message: bytes) -> Localised:
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

    def read(cursor: Cursor) -> Localised:
        stamp_ns, frame_id = cursor.header()
        cursor.numbers(POSE[cursor.order], 8)
        return Localised(stamp_ns, frame_id, cursor.numbers(_COVARIANCE[cursor.order], 8))

    return read_whole(message, read)
