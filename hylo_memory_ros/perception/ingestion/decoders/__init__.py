"""Messages read from their bytes, without ROS: the same way from a topic and from a bag."""

from __future__ import annotations

from hylo_memory_ros.perception.ingestion.decoders.localization import read_localisation
from hylo_memory_ros.perception.ingestion.decoders.readers import READERS, Reader
from hylo_memory_ros.perception.ingestion.decoders.reading import Reading
from hylo_memory_ros.perception.ingestion.decoders.transforms import read_clock, read_transforms

__all__ = ['READERS', 'Reader', 'Reading', 'read_clock', 'read_localisation', 'read_transforms']
