"""Table of one embedding space in memory: columns of versions and vectors, and exact search.

Threads: one writer at a time; readers take no lock. A reader notes the sequence first and counts rows and
vectors second, and rows carry the sequences between which they are believed, so it finds what was believed
at that sequence, whatever is committed meanwhile.

One writer appends; any number of readers read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index.spatial.rows import OPEN
from hylo_memory_ros.index.vectors.metric import lengths_of, rank_estimates, similarities_of
from hylo_memory_ros.model.embedding import EmbeddingSpace, Metric

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


# Bound of the error of float32 sums of products, relative to the lengths compared.
_MARGIN = 1e-5
_CHUNK = 16_384


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """Query of one space."""

    vector: NDArray[np.float32]
    k: int
    window: tuple[int, int, int]
    """(t0, t1, seq): rows that end after t0, begin at or before t1, and are believed at seq; times in ns."""


@dataclass(frozen=True, slots=True)
class RankedRows:
    """Rows in order of similarity, with the counts of the search."""

    version_rows: NDArray[np.int64]
    similarities: NDArray[np.float64]
    scanned: int
    reranked: int
    matching: int
    missing: int = 0


class SpaceTable:
    """Versions and vectors of one space, and exact search over them."""

    def __init__(self, name: str, space: EmbeddingSpace, source: VectorSource) -> None:
        self.name = name
        self.space = space
        self.slots = VectorColumn(name, space.dimension, source)
        self.versions = VersionColumns()

    @property
    def metric(self) -> Metric:
        """Metric of the space."""
        return self.space.metric

    def add_vectors(self, assertions: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Append vectors, in order of their assertions."""
        self.versions.add_slots(len(assertions))
        self.slots.add(assertions, vectors)

    def without(self, assertions: Sequence[int]) -> SpaceTable | None:
        """Return a table without the vectors of assertions and their versions; None if it has none."""
        versions, lost = self.versions, self.slots.find(assertions)
        lost = lost[lost >= 0]
        if not len(lost):
            return None
        gone = np.isin(versions.slot.values, lost)
        fresh, kept = copy(self), np.setdiff1d(np.arange(len(self.slots)), lost)
        fresh.slots, fresh.versions = self.slots.keep(kept), VersionColumns()
        fresh.versions.add_slots(len(kept))
        columns = versions.columns()[~gone]
        columns[:, 1] = np.searchsorted(kept, columns[:, 1])
        if len(columns):
            fresh.versions.add(columns)
        return fresh

    def exact(self, query: VectorQuery, version_rows: NDArray[np.int64] | None = None) -> RankedRows:
        """Compare every vector, or those of some rows, in float32, and the best again in double."""
        positions = self.eligible(query, version_rows)
        slots = self.versions.slot.values[positions]
        held = np.zeros(len(self.slots), np.bool_)
        held[slots] = True
        wanted = np.flatnonzero(held)
        if not len(wanted) or not query.k:
            return RankedRows(_NO_ROWS, _NO_SIMILARITIES, 0, 0, len(positions))
        if len(wanted) <= max(4 * query.k, 1024):
            return self.rerank(query, positions, slots)
        estimates, missing = self._estimates(query, wanted)
        margin = _MARGIN * self._scale(query)
        kth = (
            np.partition(estimates, len(estimates) - query.k)[-query.k] if query.k < len(wanted) else -np.inf
        )
        held[:] = False
        held[wanted[estimates >= kth - margin]] = True
        keep = held[slots]
        ranked = self.rerank(query, positions[keep], slots[keep])
        return RankedRows(
            ranked.version_rows, ranked.similarities, len(wanted), ranked.reranked, len(positions), missing
        )

    def rerank(
        self,
        query: VectorQuery,
        positions: NDArray[np.int64],
        slots: NDArray[np.int64],
    ) -> RankedRows:
        """Compare the rows at `positions` exactly, each by the vector of its slot, and order them."""
        compared, similar, missing = len(slots), np.empty(len(slots)), 0
        kept: NDArray[np.bool_] | None = None
        for start in range(0, compared, _CHUNK):
            part = slots[start : start + _CHUNK]
            vectors, present = self.slots.take(part)
            lengths = self.slots.lengths.values[part]
            similar[start : start + _CHUNK] = similarities_of(self.metric, vectors, query.vector, lengths)
            if present is not None and not present.all():
                kept = np.ones(compared, np.bool_) if kept is None else kept
                kept[start : start + _CHUNK] = present
                missing += len(np.unique(part[~present]))
        if kept is not None:
            positions, similar = positions[kept], similar[kept]
        order = np.lexsort(
            (
                self.versions.version_row.values[positions],
                -self.versions.valid_from_ns.values[positions],
                -similar,
            )
        )[: query.k]
        return RankedRows(
            self.versions.version_row.values[positions[order]],
            similar[order],
            compared,
            compared,
            len(positions),
            missing,
        )

    def newest(
        self, query: VectorQuery, first: int, pool: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of the `pool` best of the slots from `first` on, in the form of `rows_of`."""
        positions, slots = self.rows_of(query, np.arange(first, len(self.slots)))
        late = np.unique(slots)
        if len(late) <= pool:
            return positions, slots
        estimates, _ = self._estimates(query, late)
        keep = np.isin(slots, late[np.argpartition(estimates, -pool)[-pool:]])
        return positions[keep], slots[keep]

    def rows_of(
        self, query: VectorQuery, slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the rows of slots that hold in the window, and the slot of each."""
        positions, owners = self.versions.of_slots(slots)
        held = self.versions.holding(positions, query.window)
        return positions[held], slots[owners[held]]

    def eligible(self, query: VectorQuery, version_rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return the positions of the rows that hold in the window; of `version_rows` only, if given."""
        known = self.versions.version_row.values
        if version_rows is None:
            everything = self.versions.holding(slice(0, len(known)), query.window)
            return np.asarray(np.flatnonzero(everything))
        if not len(known):
            return _NO_ROWS
        wanted = np.unique(version_rows)
        found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        found = found[known[found] == wanted]
        return np.asarray(found[self.versions.holding(found, query.window)])

    def _scale(self, query: VectorQuery) -> float:
        if self.metric == 'cosine':
            return 1.0
        norm = float(np.linalg.norm(query.vector.astype(np.float64)))
        longest = float(self.slots.lengths.values.max(initial=1.0))
        return max(1.0, norm) * longest if self.metric == 'dot' else max(longest, norm) ** 2

    def _estimates(self, query: VectorQuery, wanted: NDArray[np.int64]) -> tuple[NDArray[np.float32], int]:
        estimates = np.full(len(wanted), -np.inf, np.float32)
        query_norm = float(np.linalg.norm(query.vector))
        missing = 0
        everything = len(wanted) * 4 > len(self.slots)
        first, last = int(wanted[0]), int(wanted[-1]) + 1
        parts: Iterator[Part] = self.slots.blocks(first, last) if everything else self._gathered(wanted)
        for start, vectors, present in parts:
            if everything:
                low, high = np.searchsorted(wanted, [start, start + len(vectors)])
            else:
                low, high = start, start + len(vectors)
            which = slice(start, start + len(vectors)) if everything else wanted[low:high]
            norms = self.slots.lengths.values[which].astype(np.float32)
            values = rank_estimates(self.metric, vectors @ query.vector, norms, query_norm)
            if present is not None:
                values[~present] = -np.inf
                missing += int(len(present) - present.sum())
            estimates[low:high] = values[wanted[low:high] - start] if everything else values
        return estimates, missing

    def _gathered(self, wanted: NDArray[np.int64]) -> Iterator[Part]:
        for start in range(0, len(wanted), 4096):
            vectors, present = self.slots.take(wanted[start : start + 4096])
            yield start, vectors, present


_NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)
_NO_SIMILARITIES: NDArray[np.float64] = np.empty(0)
