"""What all clauses of the contract share: a memory to test, a clock to turn, words to say things with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.clock import NS, ManualClock

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import Hit, MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

FIELDS = frozenset(MemoryItem.model_fields)


def place(x: float, y: float = 0.0, z: float = 0.0, frame: str = 'map') -> Pose:
    return Pose(frame_id=frame, position=(x, y, z))


def fact(content: str, at: float | None = None, key: str | None = 'mug', **fields: Any) -> MemoryItem:
    """Return a semantic statement that is true from `at` (seconds) on."""
    return MemoryItem(**{'kind': 'semantic', 'key': key, 'content': content, 'valid_from': at, **fields})


def thing(x: float, at: float | None = 1.0, key: str | None = None, **fields: Any) -> MemoryItem:
    """Return something that stands at (x, 0, 0) of the map frame, unless `pose` says where."""
    fields = {'kind': 'spatial', 'key': key, 'valid_from': at, 'pose': place(x), **fields}
    return MemoryItem(**fields)


def near(x: float, radius: float, **fields: Any) -> MemoryQuery:
    return MemoryQuery(**{'near': (place(x), radius), 'k': 100, **fields})


def contents(hits: Any) -> list[str]:
    return [hit.item.content for hit in hits]


def spans(memory: MemoryService, key: str = 'mug', **axes: Any) -> list[tuple[Any, ...]]:
    """Return a timeline in order of world time: content, valid_from, valid_to in seconds."""
    query = MemoryQuery(key=key, include_invalidated=True, k=1000, **axes)
    return sorted(
        ((h.item.content, h.item.valid_from, h.valid_to) for h in memory.query(query)), key=lambda s: s[1]
    )


def only(hits: Any) -> Hit:
    (hit,) = hits
    return hit


def state_of(memory: MemoryService) -> tuple[object, ...]:
    """Return what must not move when something is refused."""
    return (
        memory.sequence,
        memory.mirror_sequence,
        memory.snapshot(),
        memory.manifest(),
        memory.counts(),
        len(memory.changes(limit=10_000).changes),
    )


class Clauses:
    """A part of the contract; a back end says how a memory is opened."""

    def open_memory(
        self, clock: ManualClock, config: MemoryConfig | None = None, **options: Any
    ) -> MemoryService:
        """Return a new, empty memory."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock(1000.0)

    @pytest.fixture
    def memory(self, clock: ManualClock) -> Iterator[MemoryService]:
        """Whatever a test does, the memory verifies afterwards."""
        with self.open_memory(clock) as memory:
            yield memory
            report = memory.verify()
            assert report.ok, report.problems


__all__ = [
    'FIELDS', 'NS', 'Clauses', 'ManualClock', 'contents', 'fact', 'near', 'only', 'place', 'spans',
    'state_of', 'thing',
]  # fmt: skip
