"""One embedding space in memory: its versions, its vectors, and the searches over them.

Threads: one writer at a time; readers take no lock. A reader notes the sequence first and counts rows and
vectors second, and rows carry the sequences between which they are believed, so it finds what was believed
at that sequence whatever is committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index.vectors._columns import Versions
from hylo_memory_ros.index.vectors._store import Part, Slots, VectorSource
from hylo_memory_ros.index.vectors.metric import estimated, similarities_of
from hylo_memory_ros.model.embedding import EmbeddingSpace, Metric

__all__ = ['Asking', 'Compared', 'SpaceTable']

# Float32 sums of products differ from exact ones by less than this part of the lengths compared.
_MARGIN = 1e-5
_CHUNK = 16_384


@dataclass(frozen=True, slots=True)
class Asking:
    """A question to one space."""

    query: NDArray[np.float32]
    k: int
    window: tuple[int, int, int]
    """Begun by, not over at, sequence."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Rows in order, with what it took to find them."""

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
        self.slots = Slots(name, space.dimension, source)
        self.versions = Versions()

    @property
    def metric(self) -> Metric:
        return self.space.metric

    def add_vectors(self, assertions: Sequence[int], vectors: NDArray[np.float32]) -> None:
        self.versions.add_slots(len(assertions))
        self.slots.add(assertions, vectors)

    def without(self, assertions: Sequence[int]) -> SpaceTable | None:
        """Return a table without the vectors of assertions and their versions; None: it has none of them."""
        versions, lost = self.versions, self.slots.find(assertions)
        lost = lost[lost >= 0]
        if not len(lost):
            return None
        gone = np.isin(versions.slot.values, lost)
        fresh, kept = copy(self), np.setdiff1d(np.arange(len(self.slots)), lost)
        fresh.slots, fresh.versions = self.slots.without(kept), Versions()
        fresh.versions.add_slots(len(kept))
        columns = versions.columns()[~gone]
        columns[:, 1] = np.searchsorted(kept, columns[:, 1])
        if len(columns):
            fresh.versions.add(columns)
        return fresh

    def exact(self, asked: Asking, version_rows: NDArray[np.int64] | None = None) -> Compared:
        """Compare every vector, or those of some rows, in float32, and the best again in double."""
        places = self.eligible(asked, version_rows)
        slots = self.versions.slot.values[places]
        held = np.zeros(len(self.slots), np.bool_)
        held[slots] = True
        wanted = np.flatnonzero(held)
        if not len(wanted) or not asked.k:
            return Compared(_NO_ROWS, _NO_SIMILARITIES, 0, 0, len(places))
        if len(wanted) <= max(4 * asked.k, 1024):
            return self.rerank(asked, places, slots)
        estimates, missing = self._estimates(asked, wanted)
        margin = _MARGIN * self._scale(asked)
        kth = (
            np.partition(estimates, len(estimates) - asked.k)[-asked.k] if asked.k < len(wanted) else -np.inf
        )
        held[:] = False
        held[wanted[estimates >= kth - margin]] = True
        keep = held[slots]
        ranked = self.rerank(asked, places[keep], slots[keep])
        return Compared(
            ranked.version_rows, ranked.similarities, len(wanted), ranked.reranked, len(places), missing
        )

    def rerank(
        self,
        asked: Asking,
        places: NDArray[np.int64],
        slots: NDArray[np.int64],
    ) -> Compared:
        """Compare the rows at `places` exactly, each by the vector of its slot, and give them in order."""
        compared, similar, missing = len(slots), np.empty(len(slots)), 0
        kept: NDArray[np.bool_] | None = None
        for start in range(0, compared, _CHUNK):
            part = slots[start : start + _CHUNK]
            vectors, there = self.slots.take(part)
            lengths = self.slots.lengths.values[part]
            similar[start : start + _CHUNK] = similarities_of(self.metric, vectors, asked.query, lengths)
            if there is not None and not there.all():
                kept = np.ones(compared, np.bool_) if kept is None else kept
                kept[start : start + _CHUNK] = there
                missing += len(np.unique(part[~there]))
        if kept is not None:
            places, similar = places[kept], similar[kept]
        order = np.lexsort(
            (self.versions.version_row.values[places], -self.versions.valid_from_ns.values[places], -similar)
        )[: asked.k]
        return Compared(
            self.versions.version_row.values[places[order]],
            similar[order],
            compared,
            compared,
            len(places),
            missing,
        )

    def newest(self, asked: Asking, first: int, pool: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return, as `rows_of`, the rows of the `pool` best of the slots from `first` on."""
        places, slots = self.rows_of(asked, np.arange(first, len(self.slots)))
        late = np.unique(slots)
        if len(late) <= pool:
            return places, slots
        estimates, _ = self._estimates(asked, late)
        keep = np.isin(slots, late[np.argpartition(estimates, -pool)[-pool:]])
        return places[keep], slots[keep]

    def rows_of(self, asked: Asking, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places of the rows of slots that hold, and the slot of each."""
        places, owners = self.versions.of_slots(slots)
        held = self.versions.holding(places, asked.window)
        return places[held], slots[owners[held]]

    def eligible(self, asked: Asking, version_rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
        known = self.versions.version_row.values
        if version_rows is None:
            everything = self.versions.holding(slice(0, len(known)), asked.window)
            return np.asarray(np.flatnonzero(everything))
        if not len(known):
            return _NO_ROWS
        wanted = np.unique(version_rows)
        found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        found = found[known[found] == wanted]
        return np.asarray(found[self.versions.holding(found, asked.window)])

    def _scale(self, asked: Asking) -> float:
        if self.metric == 'cosine':
            return 1.0
        norm = float(np.linalg.norm(asked.query.astype(np.float64)))
        longest = float(self.slots.lengths.values.max(initial=1.0))
        return max(1.0, norm) * longest if self.metric == 'dot' else max(longest, norm) ** 2

    def _estimates(self, asked: Asking, wanted: NDArray[np.int64]) -> tuple[NDArray[np.float32], int]:
        estimates = np.full(len(wanted), -np.inf, np.float32)
        query_norm = float(np.linalg.norm(asked.query))
        missing = 0
        everything = len(wanted) * 4 > len(self.slots)
        first, last = int(wanted[0]), int(wanted[-1]) + 1
        parts: Iterator[Part] = self.slots.blocks(first, last) if everything else self._gathered(wanted)
        for start, vectors, there in parts:
            if everything:
                low, high = np.searchsorted(wanted, [start, start + len(vectors)])
            else:
                low, high = start, start + len(vectors)
            which = slice(start, start + len(vectors)) if everything else wanted[low:high]
            norms = self.slots.lengths.values[which].astype(np.float32)
            values = estimated(self.metric, vectors @ asked.query, norms, query_norm)
            if there is not None:
                values[~there] = -np.inf
                missing += int(len(there) - there.sum())
            estimates[low:high] = values[wanted[low:high] - start] if everything else values
        return estimates, missing

    def _gathered(self, wanted: NDArray[np.int64]) -> Iterator[Part]:
        for start in range(0, len(wanted), 4096):
            vectors, there = self.slots.take(wanted[start : start + 4096])
            yield start, vectors, there


_NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)
_NO_SIMILARITIES: NDArray[np.float64] = np.empty(0)
