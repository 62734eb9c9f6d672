"""Service of a memory: `MemoryService`, in which each operation is composed from the parts below.

`ros`, `cli` and `replay` use it instead of the store; state that operations share is in `core`.
"""

from __future__ import annotations

from hylo_memory_ros.service.memory import MemoryService

__all__ = ['MemoryService']
