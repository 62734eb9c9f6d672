"""How each type of message is read; the same for what comes over a topic and for what is in a bag."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hylo_memory_ros.perception import Message
from hylo_memory_ros.perception.ingestion.decoders.detections import read_detections
from hylo_memory_ros.perception.ingestion.decoders.markers import MarkerReader
from hylo_memory_ros.perception.ingestion.decoders.poses import read_pose, read_poses, read_tags
from hylo_memory_ros.perception.ingestion.decoders.reading import Reading
from hylo_memory_ros.perception.ingestion.decoders.witnesses import read_camera_info, read_depth, read_grid

__all__ = ['READERS', 'Reader']

Reader = Callable[[bytes, str], Reading]
"""Reads the bytes of a message of the input that is named; raises `ValueError` where they are none."""


def _one(read: Callable[[bytes, str], Message]) -> Callable[[], Reader]:
    """Return what makes a reader of messages that are one observation each."""
    return lambda: lambda message, source: Reading((read(message, source),), {})


READERS: Mapping[str, Callable[[], Reader]] = {
    'apriltag_msgs/msg/AprilTagDetectionArray': _one(read_tags),
    'geometry_msgs/msg/PoseArray': _one(read_poses),
    'geometry_msgs/msg/PoseStamped': _one(read_pose),
    'nav_msgs/msg/OccupancyGrid': _one(read_grid),
    'sensor_msgs/msg/CameraInfo': _one(read_camera_info),
    'sensor_msgs/msg/Image': _one(read_depth),
    'vision_msgs/msg/Detection3DArray': _one(read_detections),
    'visualization_msgs/msg/Marker': lambda: MarkerReader(array=False),
    'visualization_msgs/msg/MarkerArray': lambda: MarkerReader(array=True),
}
"""What makes a reader for one input, by type of its messages."""
