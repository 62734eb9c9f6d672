"""Replay of bags into a memory without a ROS graph: the pipeline of the node, fed from files.

`bag` reads files, `topic_router` gives each topic to its input, and `replay` is the whole.
"""

from __future__ import annotations

from hylo_memory_ros.replay.bag import Bag, RecordedMessage
from hylo_memory_ros.replay.replay import ReplayResult, replay
from hylo_memory_ros.replay.topic_router import TopicNames

__all__ = ['Bag', 'RecordedMessage', 'ReplayResult', 'TopicNames', 'replay']
