"""What the tests of the services ask for."""

from typing import Any

from hylo_memory_ros.msg import MemoryFilter


def keys(*names: str, **fields: Any) -> MemoryFilter:
    return MemoryFilter(keys=list(names), **fields)
