"""What the tests of episodes say, do and look at."""

from __future__ import annotations

from typing import Any

from hylo_memory_ros.model import Episode, MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

HERE = Pose(frame_id='map', position=(1.0, 2.0, 0.0))
EPISODIC = frozenset({'episodic'})


def fact(key: str, content: str = '', **fields: Any) -> MemoryItem:
    return MemoryItem(kind='semantic', key=key, content=content or f'about {key}', **fields)


def keys_of(memory: MemoryService, **asked: Any) -> set[str]:
    hits = memory.query(MemoryQuery(k=100, any_map=True, **asked))
    return {hit.item.key or hit.item.content for hit in hits}


def facts_of(memory: MemoryService, **asked: Any) -> set[str]:
    return keys_of(memory, kinds=frozenset({'semantic', 'spatial'}), **asked)


def summary_of(memory: MemoryService, name: str) -> MemoryItem:
    (hit,) = memory.query(MemoryQuery(key=f'episode/{name}'))
    return hit.item


def events_of(memory: MemoryService, name: str) -> list[str]:
    query = MemoryQuery(labels=['episode_event'], scope={'episode_id': name}, k=100)
    hits = sorted(memory.query(query), key=lambda hit: hit.item.event_time.start_ns)  # type: ignore[union-attr]
    return [hit.item.content for hit in hits]


def an_episode(memory: MemoryService, name: str, outcome: str, *items: MemoryItem, **fields: Any) -> Episode:
    memory.begin_episode(name, **fields)
    if items:
        memory.write(items)
    return memory.end_episode(outcome=outcome)
