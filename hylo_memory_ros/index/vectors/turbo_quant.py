"""TurboQuant codec: a random rotation, the optimal scalar quantizer of its output, and a sketch of the rest.

After a random rotation every component of a unit vector follows one known distribution, whatever the
data, so that one table of levels is near-optimal for all (Zandieh, Daliri, Hadian and Mirrokni, 2025,
https://arxiv.org/abs/2504.19874). Of b bits, b - 1 choose a level; the last is the sign of a random
projection of the residual (QJL: Zandieh, Daliri and Han, 2024, https://arxiv.org/abs/2406.03482), which
makes the estimate of an inner product unbiased. Published bounds for a unit vector: mean squared error of
the levels at most sqrt(3) pi / 2 / 4^b, and of the inner product with y at most sqrt(3) pi^2 |y|^2 / d / 4^b.

Nothing is learnt from the data, and a dimension need not be a power of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index.vectors.sign_codes import SignCodes, gaussian, rotation

_GRID = 20_001


@lru_cache(maxsize=16)
def levels(count: int, dimension: int) -> NDArray[np.float32]:
    """Return the levels of least mean squared error for a component of a random unit vector, ascending.

    Found by Lloyd's iteration on the exact density, (1 - x^2)^((d - 3) / 2).
    """
    spread = min(1.0, 6.0 / np.sqrt(dimension))
    grid = np.linspace(-spread, spread, _GRID)
    with np.errstate(divide='ignore', invalid='ignore'):
        density = np.exp((dimension - 3) / 2 * np.log1p(-np.minimum(grid**2, 1 - 1e-9)))
    mass, moment = np.cumsum(density), np.cumsum(density * grid)
    # Levels as dense as the cube root of the density are best for many (Panter and Dite, 1951).
    thinned = np.cumsum(np.cbrt(density))
    found = np.interp((np.arange(count) + 0.5) / count, thinned / thinned[-1], grid)
    for _ in range(400):
        borders = np.searchsorted(grid, (found[1:] + found[:-1]) / 2)
        ends = np.concatenate([borders, [_GRID - 1]])
        starts = np.concatenate([[0], borders])
        held = np.maximum(mass[ends] - np.where(starts > 0, mass[starts], 0.0), 1e-300)
        moved = (moment[ends] - np.where(starts > 0, moment[starts], 0.0)) / held
        if np.abs(moved - found).max() < 1e-9:
            break
        found = moved
    symmetric: NDArray[np.float32] = ((found - found[::-1]) / 2).astype(np.float32)
    return symmetric


class TurboQuant:
    """Codec of `bits` for each component, 2 to 8.

    Parameters
    ----------
    dimension : int
    bits : int
        The sign of the sketch included.
    seed : int
        Of the rotation and the sketch.
    """

    family = 'turbo_quant'
    version = '1'

    def __init__(self, dimension: int, bits: int = 4, seed: int = 0) -> None:
        if not 2 <= bits <= 8:
            raise ValueError(f'bits: expected 2 to 8, got {bits}')
        self.dimension = dimension
        self.bits = bits
        self.seed = seed
        self.levels = levels(1 << (bits - 1), dimension)
        self._rotation = rotation(dimension, seed)
        self._sketch = gaussian(dimension, seed)

    @property
    def profile(self) -> str:
        """Name of the codec with its bits."""
        return f'turbo_{self.bits}bit'

    def rotated(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return vectors in the basis of the codes."""
        return np.asarray(vectors @ self._rotation.T, np.float32)

    def projected(self, turned: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the projections whose signs sketch a residual."""
        return np.asarray(turned @ self._sketch.T, np.float32)

    def train(self, sample: NDArray[np.float32]) -> Mapping[str, NDArray[np.generic]]:
        """Learn nothing: the codec is independent of the data."""
        del sample
        return {}

    def encode(self, vectors: NDArray[np.float32]) -> dict[str, NDArray[np.generic]]:
        """Return codes of vectors, shape (n, d), float32, of any length.

        Returns
        -------
        dict
            ``planes`` (n, b, ceil(d / 8)) uint8: bit planes, the most significant first, the sketch last;
            ``radii`` (n,) float32; ``residuals`` (n,) float16: lengths of the residuals of the levels.
        """
        radii = np.sqrt(np.einsum('ij,ij->i', vectors, vectors))
        turned = self.rotated(vectors / radii[:, None])
        borders = (self.levels[1:] + self.levels[:-1]) / 2
        codes = np.searchsorted(borders, turned).astype(np.uint8)
        rest = turned - self.levels[codes]
        residuals = np.sqrt(np.einsum('ij,ij->i', rest, rest))
        planes = [codes >> place & 1 for place in reversed(range(self.bits - 1))]
        planes.append((self.projected(rest) > 0).astype(np.uint8))
        packed = np.stack([np.packbits(plane, axis=1) for plane in planes], axis=1)
        return {'planes': packed, 'radii': radii, 'residuals': residuals.astype(np.float16)}

    def codes(self, parts: Mapping[str, NDArray[np.generic]]) -> TurboCodes:
        """Return codes ready for search."""
        return TurboCodes(self, parts)


class TurboCodes:
    """Codes of n vectors."""

    def __init__(self, codec: TurboQuant, parts: Mapping[str, NDArray[np.generic]]) -> None:
        self._codec = codec
        self._planes: NDArray[np.uint8] = np.asarray(parts['planes'], np.uint8)
        self._residuals = np.asarray(parts['residuals'], np.float32)
        self.radii: NDArray[np.float32] = np.asarray(parts['radii'], np.float32)
        # Levels are symmetric and ascending: the first plane is the sign.
        self.signs = SignCodes(self._planes[:, 0], codec.dimension)
        self._combined = _combinations(codec.bits - 1, codec.dimension)

    def components(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a query in the basis of the codes."""
        return self._codec.rotated(query)

    def decoded(self, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the directions that the levels encode, in the basis of the codes, shape (n, d)."""
        bits = np.unpackbits(self._planes[chosen, :-1], axis=2, count=self._codec.dimension)
        codes: NDArray[np.integer[Any]] = bits[:, 0]
        for place in range(1, bits.shape[1]):
            codes = codes << 1 | bits[:, place]
        return np.asarray(np.take(self._codec.levels, codes), np.float32)

    def products(self, components: NDArray[np.float32], chosen: NDArray[np.int64]) -> NDArray[np.float32]:
        """Estimate inner products of chosen vectors with a query given in the basis of the codes."""
        planes = self._planes[chosen]
        found = self._summed(planes[:, :-1], components, self._combined)
        sketched = self._codec.projected(components)
        rest = self._summed(planes[:, -1:], sketched, _SIGNS)
        scale = np.sqrt(np.pi / 2) / self._codec.dimension * self._residuals[chosen]
        estimated: NDArray[np.float32] = self.radii[chosen] * (found + scale * rest)
        return estimated

    def _summed(
        self, planes: NDArray[np.uint8], components: NDArray[np.float32], combined: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Sum the contributions of components, several at a time, from one table made for the query."""
        count, bits, width = planes.shape
        group = combined.shape[0]
        padded = np.zeros((8 * width // group, group), np.float32)
        padded.ravel()[: len(components)] = components
        # Part by part of a byte, each with the tables of its places.
        table = (padded @ combined).reshape(width, 8 // group, -1)
        offsets = np.arange(width) * table.shape[2]
        summed = np.zeros(count, np.float32)
        for part in range(8 // group):
            indices = np.zeros((count, width), np.intp)
            for plane in range(bits):
                indices <<= group
                indices |= planes[:, plane] >> (8 - group * (part + 1)) & ((1 << group) - 1)
            indices += offsets
            summed += np.take(table[:, part].ravel(), indices).sum(axis=1)
        return summed


@lru_cache(maxsize=16)
def _combinations(bits: int, dimension: int) -> NDArray[np.float32]:
    """Return the levels of every combination of the codes of neighbours, shape (neighbours, combinations).

    As many neighbours go together as have at most 8 bits: their table is made quickly and stays in a cache.
    """
    group = next(size for size in (8, 4, 2, 1) if size * bits <= 8)
    every = np.arange(1 << (group * bits))
    codes = np.zeros((group, len(every)), np.int64)
    for plane in range(bits):
        for place in range(group):
            bit = every >> (group * (bits - plane) - 1 - place) & 1
            codes[place] |= bit << (bits - 1 - plane)
    return levels(1 << bits, dimension)[codes]


_BITS: NDArray[np.uint8] = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
_SIGNS: NDArray[np.float32] = _BITS.T.astype(np.float32) * 2 - 1
