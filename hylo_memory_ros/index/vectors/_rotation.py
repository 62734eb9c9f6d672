"""Random matrices that everybody draws alike: from a seed, in the stream of one named generator."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ['gaussian', 'rotation']

_NAME = 0x48594C4F


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
    # Named, so that data drawn from the same small seed elsewhere has nothing to do with it.
    stream = np.random.PCG64([_NAME, seed, purpose])
    return np.random.Generator(stream).normal(size=(dimension, dimension))
