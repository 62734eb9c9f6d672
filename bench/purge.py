"""Deleting for good, one thing and ten thousand of 100 000, beside copying and writing as much."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench._figure import at_most, seconds
from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

ITEMS, OF_ONE, BATCH = 100_000, 10_000, 1000


def _items(first: int, count: int, who: str) -> list[MemoryItem]:
    return [
        MemoryItem(
            kind='semantic',
            key=f'k{number}',
            content=f'fact {number} of house {number % 97}, room {number % 13}, word{number * 7919 % 50021}',
            entities=[who],
            valid_from=1,
        )
        for number in range(first, first + count)
    ]


def _write(memory: MemoryService, first: int, count: int, who: str) -> None:
    for start in range(first, first + count, BATCH):
        memory.write(_items(start, BATCH, who))


def purge() -> Iterator[dict[str, Any]]:
    """A purge writes the file anew, whatever it takes away: it is held against a copy of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'memory.db'
        with MemoryService.open(f'sqlite:///{path}') as memory:
            _write(memory, 0, ITEMS - OF_ONE, 'house')
            written_s = seconds(lambda: _write(memory, ITEMS - OF_ONE, OF_ONE, 'ann'))
            copied_s = seconds(lambda: memory.snapshot(str(Path(folder) / 'copy.db')))
            one_s = seconds(lambda: memory.purge(MemoryQuery(key='k7')))
            many_s = seconds(lambda: memory.purge(MemoryQuery(entities=['ann'])))
            megabytes = path.stat().st_size / 1e6
    size = {'memory_mb': round(megabytes, 1)}
    yield at_most('purge_one_of_100k_over_copying', one_s / copied_s, 12.0, seconds=round(one_s, 2), **size)
    yield at_most('purge_10k_of_100k_over_writing', many_s / written_s, 3.0, seconds=round(many_s, 2), **size)


FIGURES = {'purge': purge}
