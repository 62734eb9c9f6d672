"""Configuration with and without ROS: typed settings, and one parameter for each field.

`node_config` composes the settings of memory and perception, `declarations` derives the parameters from
them, and `parameter_file` reads a file without ROS. Used by `ros`, `replay` and `cli`.
"""

from __future__ import annotations

from hylo_memory_ros.parameters.declarations import (
    ParameterSpec,
    build_configuration,
    input_entries,
    node_entries,
    space_entries,
)
from hylo_memory_ros.parameters.node_config import NodeConfig
from hylo_memory_ros.parameters.parameter_file import ParameterFile

__all__ = [
    'NodeConfig',
    'ParameterFile',
    'ParameterSpec',
    'build_configuration',
    'input_entries',
    'node_entries',
    'space_entries',
]
