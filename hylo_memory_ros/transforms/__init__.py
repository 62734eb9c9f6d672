"""Frames: where a frame was, seen from another, at a time; without ROS.

`port` is the interface the product knows, `buffer` the stand-in that answers as tf2 does,
`pending` the queue of questions whose transforms have not arrived yet.
"""

from __future__ import annotations

from hylo_memory_ros.transforms.buffer import TransformBuffer
from hylo_memory_ros.transforms.geometry import Quaternion, Transform, Vector, interpolate, unit_quaternion
from hylo_memory_ros.transforms.pending_queue import PendingQueue
from hylo_memory_ros.transforms.source import LATEST, TransformSource

__all__ = [
    'LATEST',
    'PendingQueue',
    'Quaternion',
    'Transform',
    'TransformBuffer',
    'TransformSource',
    'Vector',
    'interpolate',
    'unit_quaternion',
]
