"""Messages read from their bytes, without ROS: the same way from a topic and from a bag."""

from __future__ import annotations

from hylo_memory_ros.messages.cdr import READERS

__all__ = ['READERS']
