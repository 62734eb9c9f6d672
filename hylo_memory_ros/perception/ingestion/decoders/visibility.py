"""Decoders of visibility data: sensor_msgs/Image, sensor_msgs/CameraInfo and nav_msgs/OccupancyGrid."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from hylo_memory_ros.errors import HyloMemoryError
from hylo_memory_ros.perception.existence.visibility import CameraModel, DepthImage, OccupancyGrid, View
from hylo_memory_ros.perception.ingestion.decoders.cdr import (
    CdrCursor,
    UnusableMessageError,
    decode_whole,
)
from hylo_memory_ros.perception.ingestion.decoders.geometry import POSE
from hylo_memory_ros.perception.ingestion.observation import Detections, Message
from hylo_memory_ros.transforms import Transform
from hylo_memory_ros.transforms.geometry import IDENTITY_ROTATION, unit_quaternion

# Pixel type, and its scale to metres (REP-118).
_ENCODINGS = {'16UC1': ('u2', 0.001), 'mono16': ('u2', 0.001), '32FC1': ('f4', 1.0)}
_NO_RETURN = 2**16 - 1
# Visibility needs no finer image than this many columns.
_COLUMNS = 160
_NOTHING = Detections(labels=(), positions=np.zeros((0, 3)))
_SIZE = {order: struct.Struct(order + '2I') for order in '<>'}
_MATRIX = {order: struct.Struct(order + '9d') for order in '<>'}
_PROJECTION = {order: struct.Struct(order + '12d') for order in '<>'}
# Binning x, y, and the region of interest: x, y, height, width.
_SECTION = {order: struct.Struct(order + '6I') for order in '<>'}
_GRID = {order: struct.Struct(order + 'f2I') for order in '<>'}


def decode_depth_image(message: bytes, source: str) -> Message:
    """Decode a sensor_msgs/Image of distances: 16UC1 in millimetres, or 32FC1 in metres.

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
    UnusableMessageError
        ``bad_encoding``: the pixels are no distances.
    """

    def read(cursor: CdrCursor) -> Message:
        stamp_ns, frame_id = cursor.header()
        height, width = map(int, cursor.numbers(_SIZE[cursor.order], 4))
        encoding = cursor.text()
        cursor.skip(1)
        big = cursor.data[cursor.at - 1]
        step = cursor.count(0)
        size = cursor.count(1)
        start = cursor.at
        cursor.skip(size)
        if encoding not in _ENCODINGS:
            expected = ', '.join(sorted(_ENCODINGS))
            raise UnusableMessageError(
                'bad_encoding', f'encoding: expected one of {expected}, got {encoding!r}'
            )
        kind, metres = _ENCODINGS[encoding]
        dtype = np.dtype(('>' if big else '<') + kind)
        if not width or not height or step < width * dtype.itemsize or size != step * height:
            raise ValueError(
                f'expected an image of {width} x {height} {encoding}, got {size} bytes in rows of {step}'
            )
        rows = np.frombuffer(cursor.data[start : start + size], dtype=np.uint8).reshape(height, step)
        pixels = rows[:, : width * dtype.itemsize].copy().view(dtype)
        stride = -(-width // _COLUMNS)
        pixels = pixels[::stride, ::stride]
        depth = (pixels * np.float32(metres)).astype(np.float32)
        if dtype.itemsize == 2:
            # The largest number is "no return" for some drivers; no depth camera sees 65 m far.
            depth[pixels == _NO_RETURN] = 0.0
        image = DepthImage(depth, stride, (width, height))
        return _message(cursor, source, stamp_ns, frame_id, image)

    return decode_whole(message, read)


def decode_camera_info(message: bytes, source: str) -> Message:
    """Decode a sensor_msgs/CameraInfo; parameters as for `decode_depth_image`.

    The camera is that of the rectified image, P, where it is given, otherwise K; in the pixels that are
    left by region of interest and binning.

    Raises
    ------
    UnusableMessageError
        ``uncalibrated``: it has no focal lengths.
    """

    def read(cursor: CdrCursor) -> Message:
        stamp_ns, frame_id = cursor.header()
        height, width = map(int, cursor.numbers(_SIZE[cursor.order], 4))
        cursor.text()
        cursor.skip_sequence(8, 8)
        k = cursor.numbers(_MATRIX[cursor.order], 8)
        cursor.skip(9 * 8, 8)
        p = cursor.numbers(_PROJECTION[cursor.order], 8)
        *binning, left, top, roi_height, roi_width = map(int, cursor.numbers(_SECTION[cursor.order], 4))
        cursor.skip(1)
        fx, fy, cx, cy = (p[0], p[5], p[2], p[6]) if p[0] > 0.0 and p[5] > 0.0 else (k[0], k[4], k[2], k[5])
        across, down = (max(1, pixels) for pixels in binning)
        camera = CameraModel(
            (fx / across, fy / down, (cx - left) / across, (cy - top) / down),
            (roi_width or width) // across,
            (roi_height or height) // down,
        )
        return _message(cursor, source, stamp_ns, frame_id, camera)

    return _decode(message, read, 'uncalibrated')


def decode_occupancy_grid(message: bytes, source: str) -> Message:
    """Decode a nav_msgs/OccupancyGrid; parameters as for `decode_depth_image`.

    Raises
    ------
    UnusableMessageError
        ``bad_grid``: it has no cells, or they have no size.
    """

    def read(cursor: CdrCursor) -> Message:
        stamp_ns, frame_id = cursor.header()
        cursor.stamp()
        resolution, width, height = cursor.numbers(_GRID[cursor.order], 4)
        x, y, z, *turn = cursor.numbers(POSE[cursor.order], 8)
        size = cursor.count(1)
        start = cursor.at
        cursor.skip(size)
        if size != width * height:
            raise ValueError(f'expected a grid of {width} x {height}, got {size} cells')
        cells = np.frombuffer(cursor.data[start : start + size], dtype=np.int8)
        cells = cells.reshape(int(height), int(width)).copy()
        # An all-zero quaternion means that none was given.
        origin = Transform((x, y, z), unit_quaternion(turn if any(turn) else IDENTITY_ROTATION))
        return _message(cursor, source, stamp_ns, frame_id, OccupancyGrid(cells, resolution, origin))

    return _decode(message, read, 'bad_grid')


def _decode(message: bytes, read: Callable[[CdrCursor], Message], reason: str) -> Message:
    try:
        return decode_whole(message, read)
    except HyloMemoryError as exc:
        raise UnusableMessageError(reason, exc.message) from exc


def _message(cursor: CdrCursor, source: str, stamp_ns: int, frame_id: str, view: View) -> Message:
    return Message(source, stamp_ns, frame_id, cursor.digest(), _NOTHING, view=view)
