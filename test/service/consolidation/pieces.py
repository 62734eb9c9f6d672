"""What the tests of consolidation say and look at."""

from __future__ import annotations

from typing import Any

from hylo_memory_ros.config import ConsolidationSettings, MemoryConfig
from hylo_memory_ros.model import MemoryItem, MemoryQuery, TimeSpan
from hylo_memory_ros.service import MemoryService

NOW_S = 2_000_000_000.0
SMALL = MemoryConfig(consolidation=ConsolidationSettings(group_items=8, slice_items=16))


def event(content: str, at_s: float, **fields: Any) -> MemoryItem:
    span = TimeSpan(start=at_s, end=at_s + 1)
    return MemoryItem(kind='episodic', content=content, event_time=span, **fields)


def diary(count: int, first_s: float = 1_000_000.0) -> list[MemoryItem]:
    """Return what nobody would take for the same, ten minutes apart."""
    words = ('kitchen', 'hall', 'dock', 'office', 'stairs', 'garden', 'lab')
    return [
        event(f'went {words[number % 7]} by {words[number * 3 % 7]} for task{number}', first_s + 600 * number)
        for number in range(count)
    ]


def contents(memory: MemoryService, **asked: Any) -> list[str]:
    return sorted(hit.item.content for hit in memory.query(MemoryQuery(k=1000, **asked)))
