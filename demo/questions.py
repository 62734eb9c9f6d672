"""What is asked of the memory after the drive, through its services."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from demo.drive import Drive
from demo.memory_client import MemoryClient, around, time_of
from hylo_memory_ros.msg import MemoryFilter

__all__ = ['RADIUS_M', 'Answer', 'questions']

RADIUS_M = 15.0
_MOST = 50


@dataclass(frozen=True, slots=True)
class Answer:
    """A question in words, and what the node answered."""

    question: str
    """In words."""
    here: Any
    """The response of ~/query to: within `RADIUS_M` of base_link, where it is now."""
    everywhere: Any
    """The response of ~/query to: trees, wherever."""


def questions(client: MemoryClient, drive: Drive) -> Iterator[Answer]:
    """Ask about now, half of the drive, and what was known by then; then forget a tree and ask again."""

    def ask(question: str, **when: Any) -> Answer:
        here = client.call('query', filter=around('base_link', RADIUS_M, **when), k=_MOST)
        trees = MemoryFilter(labels=['tree'], **when)
        return Answer(question, here, client.call('query', filter=trees, k=0))

    half = time_of(drive.half_ns)
    now = ask('now')
    yield now
    yield ask('half-way, as of then', as_of=half)
    yield ask('now, as known half-way', known_at=half)
    if not now.here.hits:
        return
    nearest = now.here.hits[0].item
    client.call('forget', filter=MemoryFilter(ids=[nearest.id]), reason='demonstration', actor='demo')
    yield ask('now, the nearest forgotten')
    yield ask('half-way, asked again', as_of=half)
