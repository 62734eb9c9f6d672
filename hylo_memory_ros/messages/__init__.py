"""Messages read from their bytes, without ROS: the same way from a topic and from a bag."""

from __future__ import annotations

from hylo_memory_ros.messages.clock import read_clock
from hylo_memory_ros.messages.localisation import read_localisation
from hylo_memory_ros.messages.readers import READERS, Reader
from hylo_memory_ros.messages.reading import Reading
from hylo_memory_ros.messages.transforms import read_transforms

__all__ = ['READERS', 'Reader', 'Reading', 'read_clock', 'read_localisation', 'read_transforms']
