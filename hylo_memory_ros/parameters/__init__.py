"""What can be configured, with ROS or without: typed settings, and one parameter for each field."""

from __future__ import annotations

from hylo_memory_ros.parameters.entry import Entry, input_entries, node_entries, space_entries
from hylo_memory_ros.parameters.file import ParameterFile
from hylo_memory_ros.parameters.reading import configured
from hylo_memory_ros.parameters.settings import InputConfig, NodeConfig

__all__ = [
    'Entry',
    'InputConfig',
    'NodeConfig',
    'ParameterFile',
    'configured',
    'input_entries',
    'node_entries',
    'space_entries',
]
