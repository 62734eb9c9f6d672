"""A small memory in a file, to be damaged, held, tampered with or emptied."""

from __future__ import annotations

from pathlib import Path

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

__all__ = ['FACTS', 'ITEMS', 'fact', 'files_in', 'total', 'url']

ITEMS = 300
FACTS = MemoryQuery(kinds=['semantic'], k=0)


def fact(number: int, **fields: object) -> MemoryItem:
    return MemoryItem(kind='semantic', key=f'k{number}', content=f'fact {number}', valid_from=1, **fields)


def url(path: Path) -> str:
    return f'sqlite:///{path}'


def total(path: Path) -> int:
    """Return how many facts a file holds; it must be sound."""
    with MemoryService.open(url(path)) as memory:
        assert memory.verify().ok
        return memory.query(FACTS).total


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, locks aside."""
    files = (path for path in folder.iterdir() if path.is_file() and path.suffix != '.lock')
    return {path.name: path.read_bytes() for path in files}
