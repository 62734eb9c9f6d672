"""The memory as a whole: the one place where an operation is composed from the parts below."""

from __future__ import annotations

from hylo_memory_ros.service.memory import MemoryService

__all__ = ['MemoryService']
