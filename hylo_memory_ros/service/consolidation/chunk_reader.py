"""Reader of the statements of consolidation chunks, slice by slice, dry runs included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from hylo_memory_ros.domain.consolidation import Chunk, without_lineage
from hylo_memory_ros.domain.consolidation.planner import ConsolidationCandidate
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.storage import Store
from hylo_memory_ros.storage.consolidation.candidates import as_consolidable
from hylo_memory_ros.storage.consolidation.summaries import Group
from hylo_memory_ros.storage.statements.mapper import ItemRow, item_of

__all__ = ['ChunkReader', 'DryRunOverlay']


class DryRunOverlay:
    """Summaries that are not stored, under numbers below 0 in the order in which they would be."""

    def __init__(self) -> None:
        self._ended: set[int] = set()
        self._items: dict[int, MemoryItem] = {}
        self._rows: dict[int, ConsolidationCandidate] = {}

    def add(self, groups: Sequence[Group], level: int) -> None:
        """Record summaries that would replace groups."""
        for group in groups:
            number = -1 - len(self._items)
            self._items[number] = group.summary
            self._rows[number] = as_consolidable(group.summary, number, group.episode, level)
            self._ended.update(group.version_rows)

    def without_replaced(self, rows: Sequence[ConsolidationCandidate]) -> Iterator[ConsolidationCandidate]:
        """Yield the rows that no summary of the overlay replaces."""
        return (row for row in rows if row.version_row not in self._ended)

    @property
    def summaries(self) -> Iterator[ConsolidationCandidate]:
        """Summaries that no other one replaces, in order."""
        return self.without_replaced(list(self._rows.values()))

    def item(self, number: int) -> MemoryItem:
        """Return a summary."""
        return self._items[number]


_Vectors = Mapping[str, tuple[float, ...]]


class ChunkReader:
    """Reads the members of chunks.

    Parameters
    ----------
    store : Store
    overlay : DryRunOverlay
        Summaries of a dry run, which are not stored.
    slice_items : int
        Approximate number of statements that are read at once.
    """

    def __init__(self, store: Store, overlay: DryRunOverlay, slice_items: int) -> None:
        self._store = store
        self._overlay = overlay
        self._slice_items = slice_items
        self._rows: Mapping[int, ItemRow] = {}
        self._vectors: Mapping[int, _Vectors] = {}
        self._summaries: set[int] = set()

    def read(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, list[MemoryItem]]]:
        """Yield chunks with the items of their members; a chunk with a missing member is left out."""
        for ahead in self._ahead(chunks):
            self._load(ahead)
            for chunk in ahead:
                if all(number < 0 or number in self._rows for number in chunk.version_rows):
                    yield chunk, self._items(chunk)

    def _ahead(self, chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
        ahead, size = list[Chunk](), 0
        for chunk in chunks:
            if ahead and size + len(chunk.members) > self._slice_items:
                yield ahead
                ahead, size = [], 0
            ahead.append(chunk)
            size += len(chunk.members)
        if ahead:
            yield ahead

    def _load(self, chunks: Sequence[Chunk]) -> None:
        members = [member for chunk in chunks for member in chunk.members if member.version_row > 0]
        self._rows = self._store.reader.fetch([member.version_row for member in members])
        self._vectors = self._store.reader.vectors(list(self._rows.values()))
        # A payload is the word of its writer: only the records of consolidation name the summaries.
        identities = [member.identity_id for member in members]
        with self._store.read() as view:
            self._summaries = view.consolidations.summaries_among(identities)

    def _items(self, chunk: Chunk) -> list[MemoryItem]:
        items = []
        for member in chunk.members:
            number = member.version_row
            if number < 0:
                items.append(self._overlay.item(number))
                continue
            item = item_of(self._rows[number], self._vectors.get(number))
            items.append(item if member.identity_id in self._summaries else without_lineage(item))
        return items
