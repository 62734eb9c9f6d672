"""Decoders of serialized messages without ROS, used for topics and bags alike.

`DECODERS` has one by message type; another type is added there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hylo_memory_ros.perception.ingestion.decoders.cdr import UnusableMessageError
from hylo_memory_ros.perception.ingestion.decoders.detections import decode_detections, decode_tags
from hylo_memory_ros.perception.ingestion.decoders.geometry import (
    decode_clock,
    decode_localization,
    decode_pose,
    decode_poses,
    decode_transforms,
)
from hylo_memory_ros.perception.ingestion.decoders.markers import MarkerDecoder
from hylo_memory_ros.perception.ingestion.decoders.visibility import (
    decode_camera_info,
    decode_depth_image,
    decode_occupancy_grid,
)
from hylo_memory_ros.perception.ingestion.observation import DecodedMessage, Message

__all__ = [
    'DECODERS',
    'DecodedMessage',
    'Decoder',
    'UnusableMessageError',
    'decode_clock',
    'decode_localization',
    'decode_transforms',
]


Decoder = Callable[[bytes, str], DecodedMessage]
"""Decodes the bytes of a message of a named input.

It raises `ValueError` for bytes that are no such message, `UnusableMessageError` for a message without use.
"""


def _one(read: Callable[[bytes, str], Message]) -> Callable[[], Decoder]:
    """Return a factory of decoders for messages with one observation each."""
    return lambda: lambda message, source: DecodedMessage((read(message, source),), {})


DECODERS: Mapping[str, Callable[[], Decoder]] = {
    'apriltag_msgs/msg/AprilTagDetectionArray': _one(decode_tags),
    'geometry_msgs/msg/PoseArray': _one(decode_poses),
    'geometry_msgs/msg/PoseStamped': _one(decode_pose),
    'nav_msgs/msg/OccupancyGrid': _one(decode_occupancy_grid),
    'sensor_msgs/msg/CameraInfo': _one(decode_camera_info),
    'sensor_msgs/msg/Image': _one(decode_depth_image),
    'vision_msgs/msg/Detection3DArray': lambda: decode_detections,
    'visualization_msgs/msg/Marker': lambda: MarkerDecoder(array=False),
    'visualization_msgs/msg/MarkerArray': lambda: MarkerDecoder(array=True),
}
"""Decoder factories by message type."""
