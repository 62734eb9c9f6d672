"""How each type of message is read; the same for what comes over a topic and for what is in a bag."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hylo_memory_ros.landmarks import Message
from hylo_memory_ros.messages.detections import read_detections
from hylo_memory_ros.messages.markers import MarkerReader
from hylo_memory_ros.messages.poses import read_pose, read_poses
from hylo_memory_ros.messages.reading import Reading
from hylo_memory_ros.messages.tags import read_tags
from hylo_memory_ros.messages.views import read_camera_info, read_depth, read_grid

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
