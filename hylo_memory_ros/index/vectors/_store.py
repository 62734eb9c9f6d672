"""The authoritative vectors of one space: where each stands, and the float32 of those held in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index.vectors._columns import Growing
from hylo_memory_ros.index.vectors.metric import lengths_of

__all__ = ['BLOCK', 'Part', 'Slots', 'VectorRow', 'VectorSource', 'VersionTuple']

BLOCK = 4096
"""Vectors in one block of a scan: with 384 components 6 MB, what a core's cache holds."""


Part = tuple[int, NDArray[np.float32], NDArray[np.bool_] | None]
"""First slot, vectors, and which of them there are; None: all."""

VectorRow = tuple[int, str, str, bytes, bytes]
"""Assertion, item id, space, digest and float32 bytes of a vector."""

VersionTuple = tuple[int, int, int, int, int, int]
"""Version row, assertion, valid from, valid to, from seq, to seq; `OPEN` for no end."""


class VectorSource(Protocol):
    """Reads authoritative vectors from the store."""

    def vector_records(self, space: str) -> list[tuple[int, str, bytes]]:
        """Return assertion, item id and SHA-256 of every vector of a space, in order of the assertion."""

    def vectors_of(self, space: str, assertions: Sequence[int]) -> dict[int, bytes]:
        """Return float32 bytes, little endian, by assertion; one that is gone is left out."""


class Slots:
    """One place for each vector, in the order of its assertion.

    Vectors from `resident_from` on are held in memory; those before are read from the store when
    they are needed, which is what a derived index saves.
    """

    def __init__(self, space: str, dimension: int, source: VectorSource) -> None:
        self.assertion = Growing()
        self.lengths = Growing(np.float64)
        self.space = space
        self.dimension = dimension
        self._source = source
        # One thread adds, another releases.
        self._writing = threading.Lock()
        # One attribute, so that a reader never sees the one without the other.
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
            # What is not written to takes no memory; what readers have stays as it is.
            grown = np.empty((max(end, BLOCK, len(held) * 3 // 2), self.dimension), np.float32)
            grown[:start] = held[:start]
            held = grown
        held[start:end] = vectors
        self._held = first, held
        self.lengths.extend(lengths_of(vectors))
        # Last: a reader counts the slots by it.
        self.assertion.extend(np.asarray(assertions, np.int64))

    def skip(self, assertions: NDArray[np.int64], lengths: NDArray[np.float64]) -> None:
        """Append places of vectors that stay in the store, and the lengths of these."""
        self._held = len(self) + len(assertions), self._held[1]
        self.lengths.extend(lengths)
        self.assertion.extend(assertions)

    def release(self, until: int) -> None:
        """Hold the vectors before a slot no longer in memory."""
        with self._writing:
            first, held = self._held
            if until > first:
                self._held = until, held[until - first : len(self) - first].copy()

    def without(self, kept: NDArray[np.int64]) -> Slots:
        """Return the slots that are kept, in order; nothing of the others stays in memory."""
        fresh = Slots(self.space, self.dimension, self._source)
        stored = kept[kept < self.resident_from]
        fresh.skip(self.assertion.values[stored], self.lengths.values[stored])
        for start in range(len(stored), len(kept), BLOCK):
            part = kept[start : start + BLOCK]
            fresh.add(self.assertion.values[part].tolist(), self.take(part)[0])
        return fresh

    def find(self, assertions: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slots of assertions; -1 where there is none."""
        known, wanted = self.assertion.values, np.asarray(assertions, np.int64)
        if not len(known):
            return np.full(len(wanted), -1, np.int64)
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[places] == wanted, places, -1)

    def take(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
        """Return vectors, shape (n, d), and which of them there still are; None: all."""
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
        """Yield (first slot, vectors, which there are) of consecutive slots; None: all."""
        first, held = self._held
        while start < end:
            until = min((start // BLOCK + 1) * BLOCK, end)
            if start >= first:
                yield start, held[start - first : until - first], None
            else:
                until = min(until, first)
                yield start, *self.take(np.arange(start, until))
            start = until
