"""A bag becomes a memory, without a ROS graph: the pipeline that a node has, fed from a file."""

from __future__ import annotations

from hylo_memory_ros.replay.bag import Bag, Recorded
from hylo_memory_ros.replay.names import Names
from hylo_memory_ros.replay.replaying import Replayed, replay

__all__ = ['Bag', 'Names', 'Recorded', 'Replayed', 'replay']
