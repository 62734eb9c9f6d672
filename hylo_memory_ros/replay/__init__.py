"""A bag becomes a memory, without a ROS graph: the pipeline that a node has, fed from a file."""

from __future__ import annotations

from hylo_memory_ros.replay.bag import Bag, Recorded
from hylo_memory_ros.replay.replay import Replayed, replay
from hylo_memory_ros.replay.topic_router import Names

__all__ = ['Bag', 'Names', 'Recorded', 'Replayed', 'replay']
