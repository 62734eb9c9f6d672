"""The first stage of a scan over codes: signs of rotated components, compared 64 at a time.

The share of signs in which two directions differ estimates the angle between them (Charikar, 2002,
https://doi.org/10.1145/509907.509965). It is coarse, and only chooses which codes are decoded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ['Signs']

_FEW = np.array([bin(number).count('1') for number in range(1 << 16)], np.uint8)


def _count_bits(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    if hasattr(np, 'bitwise_count'):
        counted: NDArray[np.uint8] = np.bitwise_count(words)
        return counted
    # Before NumPy 2.0.
    few = _FEW[words.view(np.uint16)].reshape(*words.shape, 4)
    return np.asarray(few.sum(axis=-1, dtype=np.uint8), np.uint8)


class Signs:
    """Signs of n vectors, word by word.

    Parameters
    ----------
    packed : ndarray, shape (n, ceil(d / 8)), uint8
        Bits as `np.packbits` leaves them; set where a component is positive.
    dimension : int
    """

    def __init__(self, packed: NDArray[np.uint8], dimension: int) -> None:
        self._dimension = dimension
        # Word by word, so that every pass runs along memory.
        self._words = np.ascontiguousarray(_words(packed).T)

    def differing(self, components: NDArray[np.float32]) -> NDArray[np.uint16]:
        """Return in how many signs each vector differs from components, shape (n,)."""
        asked = _words(np.packbits(components > 0)[None, :])[0]
        total = np.zeros(self._words.shape[1], np.uint16)
        for word, column in zip(asked, self._words, strict=True):
            total += _count_bits(column ^ word)
        return total

    def nearest(
        self, components: NDArray[np.float32], count: int, allowed: NDArray[np.bool_] | None
    ) -> NDArray[np.int64]:
        """Return at least `count` vectors, or all that are allowed, that differ least from components."""
        total = self.differing(components)
        if allowed is not None:
            total[~allowed] = self._dimension + 1
        reached = np.cumsum(np.bincount(total, minlength=self._dimension + 2)[: self._dimension + 1])
        limit = int(np.searchsorted(reached, min(count, reached[-1])))
        return np.asarray(np.flatnonzero(total <= min(limit, self._dimension)))


def _words(packed: NDArray[np.uint8]) -> NDArray[np.uint64]:
    width = -(-packed.shape[1] // 8) * 8
    padded = np.zeros((len(packed), width), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)
