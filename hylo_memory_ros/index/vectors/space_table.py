"""Table of one embedding space in memory: its versions, its vectors, and exact search over them.

Threads: one writer at a time; readers take no lock. A reader notes the sequence first and counts rows and
vectors second, and rows carry the sequences between which they are believed, so it finds what was believed
at that sequence, whatever is committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index.vectors.metric import rank_estimates, similarities_of
from hylo_memory_ros.index.vectors.vector_columns import Part, VectorColumn, VectorSource, VersionColumns
from hylo_memory_ros.model.embedding import EmbeddingSpace, Metric

__all__ = ['RankedRows', 'SpaceTable', 'VectorQuery']

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
