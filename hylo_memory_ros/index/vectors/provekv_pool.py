"""Pool codec: one block codebook for the whole ordered corpus, with separate lengths.

Vectors are turned by a random rotation, so that every pair of components follows one round distribution;
each pair is one of 256 codewords. The codebook starts as a golden-angle spiral, whose density is the best
for many codewords of a round Gaussian (Gersho, 1979: the density to the power k / (k + 2), here 1/2), and is
then fitted to the pool (Lloyd, 1982). One radius for each vector stands beside its codes, so that directions
alone are quantized. Block codebooks with separate radii are those of product and residual quantizers (Jegou,
Douze and Schmid, 2011, https://doi.org/10.1109/TPAMI.2010.57). By Zador's bound the mean squared error of
a unit vector at 256 codewords is about (5 / (18 sqrt(3))) 4 pi / 256, 0.8 % of its square.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from hylo_memory_ros.index.vectors.sign_codes import SignCodes, rotation

_WORDS = 256
_CELLS = 512
_REACH = 6.0
_ROUNDS = 12


def spiral() -> NDArray[np.float32]:
    """Return the codewords before fitting, for components of variance one, shape (256, 2)."""
    place = (np.arange(_WORDS) + 0.5) / _WORDS
    # A Gaussian to the power 1/2 is one of twice the variance.
    radius = np.sqrt(2.0) * np.sqrt(-2.0 * np.log1p(-place))
    angle = np.arange(_WORDS) * np.pi * (3.0 - np.sqrt(5.0))
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]).astype(np.float32)


class PoolCodec:
    """Codec of 8 bits for each pair of components.

    Parameters
    ----------
    dimension : int
        An odd one gets one component of zero beside the last.
    seed : int
        Of the rotation.
    """

    family = 'provekv_pool'
    version = '1'
    profile = 'spiral_k2_n256'

    def __init__(self, dimension: int, seed: int = 0) -> None:
        self.dimension = dimension
        self.seed = seed
        self._rotation = rotation(dimension, seed)
        self._scale = np.float32(np.sqrt(dimension))
        self.codebook = spiral()

    def rotated(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return vectors in the basis of the codes, of variance one where they have length one."""
        turned = (vectors @ self._rotation.T) * self._scale
        if self.dimension % 2:
            turned = np.concatenate([turned, np.zeros((*turned.shape[:-1], 1), np.float32)], axis=-1)
        return np.asarray(turned, np.float32)

    def train(self, sample: NDArray[np.float32]) -> Mapping[str, NDArray[np.generic]]:
        """Fit the codebook to a sample of the pool, shape (n, d)."""
        radii = np.sqrt(np.einsum('ij,ij->i', sample, sample))
        blocks = self.rotated(sample / radii[:, None]).reshape(-1, 2)
        # The rotation makes pairs exchangeable: a sample represents all of them.
        blocks = blocks[:: max(1, len(blocks) // 100_000)]
        book = spiral()
        for _ in range(_ROUNDS):
            nearest = cKDTree(book).query(blocks)[1]
            held = np.bincount(nearest, minlength=_WORDS)
            for axis in range(2):
                summed = np.bincount(nearest, blocks[:, axis], minlength=_WORDS)
                book[:, axis] = np.where(held > 0, summed / np.maximum(held, 1), book[:, axis])
        self.codebook = book
        return {'codebook': book}

    def encode(self, vectors: NDArray[np.float32]) -> dict[str, NDArray[np.generic]]:
        """Return ``words`` (n, ceil(d / 2)) uint8 and ``radii`` (n,) float32 of vectors of any length."""
        radii = np.sqrt(np.einsum('ij,ij->i', vectors, vectors))
        turned = self.rotated(vectors / radii[:, None])
        # The codeword nearest to the middle of the cell of a point: another one only at borders.
        cells = np.clip((turned + _REACH) * (_CELLS / (2 * _REACH)), 0, _CELLS - 1).astype(np.int32)
        words = self._nearest()[cells[:, 0::2] * _CELLS + cells[:, 1::2]]
        return {'words': words, 'radii': radii}

    def _nearest(self) -> NDArray[np.uint8]:
        middles = (np.arange(_CELLS) + 0.5) * (2 * _REACH / _CELLS) - _REACH
        grid = np.stack(np.meshgrid(middles, middles, indexing='ij'), axis=-1).reshape(-1, 2)
        return np.asarray(cKDTree(self.codebook).query(grid)[1], np.uint8)

    def codes(self, parts: Mapping[str, NDArray[np.generic]]) -> PoolCodes:
        """Return codes ready for search."""
        self.codebook = np.asarray(parts['codebook'], np.float32)
        return PoolCodes(self, parts)


class PoolCodes:
    """Codes of n vectors."""

    def __init__(self, codec: PoolCodec, parts: Mapping[str, NDArray[np.generic]]) -> None:
        self._codec = codec
        self._words: NDArray[np.uint8] = np.asarray(parts['words'], np.uint8)
        self.radii: NDArray[np.float32] = np.asarray(parts['radii'], np.float32)
        positive = codec.codebook > 0
        bits = positive[self._words].reshape(len(self._words), -1)[:, : codec.dimension]
        self.signs = SignCodes(np.packbits(bits, axis=1), codec.dimension)

    def components(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a query in the basis of the codes, without the scale of the codebook."""
        return self._codec.rotated(query)[: self._codec.dimension]

    def decoded(self, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the directions that the codes encode, in the basis of the codes, shape (n, d)."""
        turned = self._codec.codebook[self._words[chosen]].reshape(len(chosen), -1)
        found: NDArray[np.float32] = turned[:, : self._codec.dimension] / np.sqrt(self._codec.dimension)
        return found

    def products(self, components: NDArray[np.float32], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """Estimate inner products of chosen vectors with a query given in the basis of the codes."""
        padded = np.zeros(2 * self._words.shape[1], np.float32)
        padded[: len(components)] = components
        table = padded.reshape(-1, 2) @ self._codec.codebook.T
        places = self._words[chosen].astype(np.intp)
        places += np.arange(len(table)) * _WORDS
        # Components and codewords both carry the square root of the dimension.
        found: NDArray[np.float32] = np.take(table.ravel(), places).sum(axis=1) / self._codec.dimension
        return found * self.radii[chosen]
