"""Columns of one space in memory: its version rows, and its authoritative vectors.

One writer appends; any number of readers read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index.spatial.rows import OPEN
from hylo_memory_ros.index.vectors.metric import lengths_of

__all__ = ['BLOCK', 'Part', 'VectorColumn', 'VectorRow', 'VectorSource', 'VersionColumns', 'VersionTuple']

_FIRST = 1024
BLOCK = 4096
"""Vectors in one block of a scan: with 384 components 6 MB, what a core's cache holds."""


Part = tuple[int, NDArray[np.float32], NDArray[np.bool_] | None]
"""First slot, vectors, and a mask of those that exist; None: all."""

VectorRow = tuple[int, str, str, bytes, bytes]
"""Assertion, item id, space, digest and float32 bytes of a vector."""

VersionTuple = tuple[int, int, int, int, int, int]
"""Version row, assertion, valid from, valid to, from seq, to seq; `OPEN` for no end."""


class VectorSource(Protocol):
    """Port through which authoritative vectors are read from the store."""

    def vector_records(self, space: str) -> list[tuple[int, str, bytes]]:
        """Return assertion, item id and SHA-256 of every vector of a space, in order of the assertion."""

    def vectors_of(self, space: str, assertions: Sequence[int]) -> dict[int, bytes]:
        """Return float32 bytes, little endian, by assertion, without those that no longer exist."""


class GrowingColumn:
    """Column that grows at its end; a view that a reader holds changes only by ends set in place."""

    def __init__(self, dtype: Any = np.int64) -> None:
        self._data: NDArray[Any] = np.empty(_FIRST, dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> NDArray[Any]:
        """View of the elements."""
        return self._data[: self._count]

    def extend(self, values: Sequence[int] | NDArray[Any]) -> None:
        """Append elements."""
        needed = self._count + len(values)
        if needed > len(self._data):
            grown: NDArray[Any] = np.empty(max(needed, 2 * len(self._data)), self._data.dtype)
            grown[: self._count] = self.values
            self._data = grown
        self._data[self._count : needed] = values
        self._count = needed


class VersionColumns:
    """Version rows of one space, each with the slot of its vector."""

    def __init__(self) -> None:
        self.version_row = GrowingColumn()
        self.slot = GrowingColumn()
        self.valid_from_ns = GrowingColumn()
        self.valid_to_ns = GrowingColumn()
        self.from_seq = GrowingColumn()
        self.to_seq = GrowingColumn()
        # The rows of a slot as a linked list, so that candidates find theirs without a pass over all.
        self.following = GrowingColumn()
        self.first_of = GrowingColumn()

    def __len__(self) -> int:
        return len(self.version_row)

    def add_slots(self, count: int) -> None:
        """Append slots without rows."""
        self.first_of.extend(np.full(count, -1, np.int64))

    def add(self, rows: NDArray[np.int64]) -> None:
        """Append rows: version row, slot, valid from, valid to, from seq, to seq; in order of the row."""
        start = len(self)
        known = self.version_row.values
        rows = rows[~np.isin(rows[:, 0], known)] if start and rows[0, 0] <= known[-1] else rows
        heads = self.first_of.values
        chain = np.empty(len(rows), np.int64)
        for index, slot in enumerate(rows[:, 1].tolist()):
            chain[index] = heads[slot]
            heads[slot] = start + index
        self.following.extend(chain)
        columns = (self.slot, self.valid_from_ns, self.valid_to_ns, self.from_seq, self.to_seq)
        for position, column in enumerate(columns, start=1):
            column.extend(rows[:, position])
        # Last: a reader counts the rows by it.
        self.version_row.extend(rows[:, 0])

    def columns(self) -> NDArray[np.int64]:
        """Return a copy of all rows, as `add` takes them."""
        parts = (
            self.version_row, self.slot, self.valid_from_ns, self.valid_to_ns, self.from_seq, self.to_seq
        )  # fmt: skip
        return np.column_stack([part.values[: len(self)] for part in parts])

    def end(self, ended: Sequence[int], sequence: int) -> None:
        """End the belief in version rows; unknown ones are ignored."""
        known = self.version_row.values
        if not len(known) or not len(ended):
            return
        wanted = np.asarray(ended, np.int64)
        positions = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        found = positions[known[positions] == wanted]
        to_seq = self.to_seq.values
        to_seq[found] = np.minimum(to_seq[found], sequence)

    def holding(
        self, positions: NDArray[np.int64] | slice, window: tuple[int, int, int]
    ) -> NDArray[np.bool_]:
        """Test which rows hold in a window: (not over at, begun by, sequence)."""
        not_over_ns, begun_ns, sequence = window
        held: NDArray[np.bool_] = self.to_seq.values[positions] > sequence
        held &= self.from_seq.values[positions] <= sequence
        if begun_ns < OPEN:
            held &= self.valid_from_ns.values[positions] <= begun_ns
            held &= self.valid_to_ns.values[positions] > not_over_ns
        return held

    def of_slots(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the rows of slots, and for each the index of its slot in `slots`."""
        owner = np.arange(len(slots))
        positions = self.first_of.values[slots]
        if len(positions) and positions.min() >= 0 and self.following.values[positions].max() < 0:
            return positions, owner
        found, owners = [], []
        while (remaining := positions >= 0).any():
            positions, owner = positions[remaining], owner[remaining]
            found.append(positions)
            owners.append(owner)
            positions = self.following.values[positions]
        empty = np.empty(0, np.int64)
        return np.concatenate([empty, *found]), np.concatenate([empty, *owners])


class VectorColumn:
    """Vectors in slots, in the order of their assertions.

    Vectors from `resident_from` on are held in memory; earlier ones are read from the store on demand,
    which is the memory that a derived index saves.
    """

    def __init__(self, space: str, dimension: int, source: VectorSource) -> None:
        self.assertion = GrowingColumn()
        self.lengths = GrowingColumn(np.float64)
        self.space = space
        self.dimension = dimension
        self._source = source
        # One thread adds, another releases.
        self._writing = threading.Lock()
        # One attribute, so that a reader never sees one of the two change alone.
        self._held: tuple[int, NDArray[np.float32]] = (0, np.empty((0, dimension), np.float32))

    @property
    def resident_from(self) -> int:
        """First slot whose vector is held in memory."""
        return self._held[0]

    def __len__(self) -> int:
        return len(self.assertion)

    def add(self, assertions: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Append vectors, in order of their assertions."""
        with self._writing:
            self._add(assertions, vectors)

    def _add(self, assertions: Sequence[int], vectors: NDArray[np.float32]) -> None:
        first, held = self._held
        start = len(self) - first
        end = start + len(vectors)
        if end > len(held):
            # Pages not yet written take no memory; views that readers hold stay valid.
            grown = np.empty((max(end, BLOCK, len(held) * 3 // 2), self.dimension), np.float32)
            grown[:start] = held[:start]
            held = grown
        held[start:end] = vectors
        self._held = first, held
        self.lengths.extend(lengths_of(vectors))
        # Last: a reader counts the slots by it.
        self.assertion.extend(np.asarray(assertions, np.int64))

    def skip(self, assertions: NDArray[np.int64], lengths: NDArray[np.float64]) -> None:
        """Append slots of vectors that stay in the store, with their lengths."""
        self._held = len(self) + len(assertions), self._held[1]
        self.lengths.extend(lengths)
        self.assertion.extend(assertions)

    def release(self, until: int) -> None:
        """Release the memory of the vectors before a slot."""
        with self._writing:
            first, held = self._held
            if until > first:
                self._held = until, held[until - first : len(self) - first].copy()

    def keep(self, kept: NDArray[np.int64]) -> VectorColumn:
        """Return a column of the kept slots, in order, that shares no memory with this one."""
        fresh = VectorColumn(self.space, self.dimension, self._source)
        stored = kept[kept < self.resident_from]
        fresh.skip(self.assertion.values[stored], self.lengths.values[stored])
        for start in range(len(stored), len(kept), BLOCK):
            part = kept[start : start + BLOCK]
            fresh.add(self.assertion.values[part].tolist(), self.take(part)[0])
        return fresh

    def find(self, assertions: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slots of assertions; -1 for an unknown assertion."""
        known, wanted = self.assertion.values, np.asarray(assertions, np.int64)
        if not len(known):
            return np.full(len(wanted), -1, np.int64)
        positions = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[positions] == wanted, positions, -1)

    def take(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        """Return vectors, shape (n, d), and a mask of those that still exist; None: all."""
        first, held = self._held
        if not first:
            return held.take(slots, axis=0), None
        vectors = np.zeros((len(slots), self.dimension), np.float32)
        found = np.ones(len(slots), np.bool_)
        resident = slots >= first
        vectors[resident] = held[slots[resident] - first]
        stored = np.flatnonzero(~resident)
        wanted = self.assertion.values[slots[stored]].tolist()
        raw = self._source.vectors_of(self.space, wanted) if wanted else {}
        for index, assertion in zip(stored.tolist(), wanted, strict=True):
            if (data := raw.get(assertion)) is None:
                found[index] = False
            else:
                vectors[index] = np.frombuffer(data, '<f4')
        return vectors, found

    def blocks(self, start: int, end: int) -> Iterator[Part]:
        """Yield consecutive slots as (first slot, vectors, mask of those that exist); None: all."""
        first, held = self._held
        while start < end:
            until = min((start // BLOCK + 1) * BLOCK, end)
            if start >= first:
                yield start, held[start - first : until - first], None
            else:
                until = min(until, first)
                yield start, *self.take(np.arange(start, until))
            start = until
