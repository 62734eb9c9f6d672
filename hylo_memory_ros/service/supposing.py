"""What a dry run supposes to be stored: summaries that it would make, and what they would stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.store.condensing import Group
from hylo_memory_ros.store.consolidable import Consolidable, as_consolidable

__all__ = ['Supposed']


class Supposed:
    """Summaries that are not stored, under numbers below 0 in the order in which they would be."""

    def __init__(self) -> None:
        self._ended: set[int] = set()
        self._items: dict[int, MemoryItem] = {}
        self._rows: dict[int, Consolidable] = {}

    def add(self, groups: Sequence[Group], level: int) -> None:
        """Suppose that summaries stand for groups."""
        for group in groups:
            number = -1 - len(self._items)
            self._items[number] = group.summary
            self._rows[number] = as_consolidable(group.summary, number, group.episode, level)
            self._ended.update(group.version_rows)

    def holding(self, rows: Sequence[Consolidable]) -> Iterator[Consolidable]:
        """Yield those of stored rows for which no summary stands."""
        return (row for row in rows if row.version_row not in self._ended)

    @property
    def summaries(self) -> Iterator[Consolidable]:
        """Summaries for which no other stands, in order."""
        return self.holding(list(self._rows.values()))

    def item(self, number: int) -> MemoryItem:
        """Return a summary."""
        return self._items[number]
