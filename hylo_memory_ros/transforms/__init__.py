"""Transforms between frames over time, without ROS.

`source` holds the port `TransformSource`, `buffer` an implementation that behaves like tf2, and
`pending_lookups` the queue of lookups whose transforms have not arrived yet.
"""

from __future__ import annotations

from hylo_memory_ros.transforms.buffer import TransformBuffer
from hylo_memory_ros.transforms.geometry import Quaternion, Transform, Vector, interpolate, unit_quaternion
from hylo_memory_ros.transforms.pending_lookups import PendingLookups
from hylo_memory_ros.transforms.source import LATEST, TransformSource

__all__ = [
    'LATEST',
    'PendingLookups',
    'Quaternion',
    'Transform',
    'TransformBuffer',
    'TransformSource',
    'Vector',
    'interpolate',
    'unit_quaternion',
]
