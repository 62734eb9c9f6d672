"""Decoders of detections: vision_msgs/Detection3DArray and apriltag_msgs/AprilTagDetectionArray.

Columns for numpy instead of Python objects: an array of 100 detections costs 14 ms as Python messages
and about 1 ms here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.ingestion.decoders.cdr import CdrCursor, decode_whole
from hylo_memory_ros.perception.ingestion.observation import Detections, Message, digest32

# The least that a Detection3D and a hypothesis take.
LEAST_DETECTION = 12 + 4 + 80
LEAST_HYPOTHESIS = 4 + 8 + 56 + 288

# Score, pose, and the rows of the covariance, of which the first three hold the position.
HYPOTHESIS = {order: struct.Struct(order + 'd3d4d18d144x') for order in '<>'}
# Pose and size of the box.
BOX = {order: struct.Struct(order + '10d') for order in '<>'}


@dataclass(slots=True)
class _Found:
    label: str = ''
    score: float = 0.0
    position: tuple[float, ...] = (0.0, 0.0, 0.0)
    orientation: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)
    covariance: tuple[float, ...] = (0.0,) * 9
    extent: tuple[float, ...] = (0.0, 0.0, 0.0)
    known: bool = False


def decode_detections(message: bytes, source: str) -> Message:
    """Decode a vision_msgs/Detection3DArray.

    Of each detection the hypothesis with the highest score counts; its pose is where the thing
    is, or that of the box where its position is left at zero. The frame is the array's, or that of
    the detections where the array has none. A tracker's `id` names nothing for good, and is left.

    Parameters
    ----------
    message : bytes
        CDR with its four bytes of encapsulation, either byte order.
    source : str
        Name of the input.

    Raises
    ------
    ValueError
        If the bytes are no such message, a text is no UTF-8, or its detections are in several
        frames.
    """
    return decode_whole(message, lambda cursor: _array(cursor, source))


def _array(cursor: CdrCursor, source: str) -> Message:
    stamp_ns, frame_id = cursor.header()
    found, frames = [], set()
    for _ in range(cursor.count(LEAST_DETECTION)):
        detection, own_frame = _detection(cursor, frame_id)
        found.append(detection)
        frames.add(own_frame)
    if len(frames) > 1 or (frame_id and frames - {frame_id}):
        raise ValueError(f'detections: frames {sorted(frames | {frame_id})} in one array; all must be one')
    digest = digest32(cursor.end())
    return Message(source, stamp_ns, frame_id or next(iter(frames), ''), digest, _columns(found))


def _detection(cursor: CdrCursor, frame_id: str) -> tuple[_Found, str]:
    _, own_frame = cursor.header()
    found = _Found()
    for _ in range(cursor.count(LEAST_HYPOTHESIS)):
        _hypothesis(cursor, found)
    x, y, z, *box = cursor.numbers(BOX[cursor.order], 8)
    found.extent = tuple(box[4:])
    if not any(found.position):
        # Many detectors fill in the box only.
        found.position, found.orientation = (x, y, z), tuple(box[:4])
    cursor.text()
    return found, own_frame or frame_id


def _hypothesis(cursor: CdrCursor, found: _Found) -> None:
    class_id = cursor.text()
    score, x, y, z, qx, qy, qz, qw, *rows = cursor.numbers(HYPOTHESIS[cursor.order], 8)
    # A score that is no number is kept only where there is no other.
    if not found.known or score > found.score or found.score != found.score:
        found.known, found.label, found.score = True, class_id, score
        found.position, found.orientation = (x, y, z), (qx, qy, qz, qw)
        found.covariance = (*rows[0:3], *rows[6:9], *rows[12:15])


def _columns(found: list[_Found]) -> Detections:
    return Detections(
        labels=[detection.label for detection in found],
        positions=_column([detection.position for detection in found], 3),
        scores=_column([detection.score for detection in found]),
        covariances=_column([detection.covariance for detection in found], 3, 3),
        extents=_column([detection.extent for detection in found], 3),
        orientations=_column([detection.orientation for detection in found], 4),
    )


def _column(rows: list[Any], *shape: int) -> NDArray[np.float64]:
    return np.array(rows, dtype=np.float64).reshape(len(rows), *shape)


INT = {order: struct.Struct(order + 'i') for order in '<>'}


# Family, id, hamming, goodness, margin; then nineteen float64: centre, corners, homography.
LEAST_TAG = 4 + 16


CORNERS_AND_HOMOGRAPHY = 8 * (2 + 8 + 9)


def decode_tags(message: bytes, source: str) -> Message:
    """Decode an apriltag_msgs/AprilTagDetectionArray.

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
    return decode_whole(message, lambda cursor: _tag_array(cursor, source))


def _tag_array(cursor: CdrCursor, source: str) -> Message:
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
