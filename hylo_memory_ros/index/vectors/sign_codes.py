"""Random rotations of vectors, and the signs of rotated components as a coarse first stage of a scan.

The share of signs in which two directions differ estimates the angle between them (Charikar, 2002,
https://doi.org/10.1145/509907.509965). It only chooses the codes to decode.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_NAME = 0x48594C4F
_BIT_COUNTS = np.array([bin(number).count('1') for number in range(1 << 16)], np.uint8)


@lru_cache(maxsize=8)
def rotation(dimension: int, seed: int) -> NDArray[np.float32]:
    """Return a random orthogonal matrix, uniform over all of them, shape (d, d).

    The signs of R's diagonal are moved into Q; without that QR is not uniform (Mezzadri, 2007,
    https://arxiv.org/abs/math-ph/0609050).
    """
    q, r = np.linalg.qr(_drawn(dimension, seed, 0))
    turned: NDArray[np.float32] = (q * np.sign(np.diag(r))).astype(np.float32)
    return turned


@lru_cache(maxsize=8)
def gaussian(dimension: int, seed: int) -> NDArray[np.float32]:
    """Return a matrix of independent normal numbers, shape (d, d)."""
    return _drawn(dimension, seed, 1).astype(np.float32)


def _drawn(dimension: int, seed: int, purpose: int) -> NDArray[np.float64]:
    # With a name, so that data drawn from the same small seed elsewhere is independent of it.
    stream = np.random.PCG64([_NAME, seed, purpose])
    return np.random.Generator(stream).normal(size=(dimension, dimension))


def _count_bits(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    if hasattr(np, 'bitwise_count'):
        counted: NDArray[np.uint8] = np.bitwise_count(words)
        return counted
    # Before NumPy 2.0.
    counts = _BIT_COUNTS[words.view(np.uint16)].reshape(*words.shape, 4)
    return np.asarray(counts.sum(axis=-1, dtype=np.uint8), np.uint8)


class SignCodes:
    """Packed signs of n vectors, stored word by word.

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
        """Count the signs in which each vector differs from components, shape (n,)."""
        wanted = _words(np.packbits(components > 0)[None, :])[0]
        total = np.zeros(self._words.shape[1], np.uint16)
        for word, column in zip(wanted, self._words, strict=True):
            total += _count_bits(column ^ word)
        return total

    def nearest(
        self, components: NDArray[np.float32], count: int, allowed: NDArray[np.bool_] | None
    ) -> NDArray[np.int64]:
        """Return the vectors that differ least from components: at least `count`, or all allowed."""
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
