"""How sure a corrected trajectory is: it is known at the poses of a path, and less in between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ['Bridge', 'Doubt']

Array = NDArray[np.float64]
Stamps = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Doubt:
    """How sure a corrected trajectory is at some stamps: a bridge between the poses of the path."""

    stretch: NDArray[np.int64]
    """Between which poses of the path each stamp lies, shape (n,)."""
    share: Array
    """How far between them, 0 to 1, shape (n,)."""
    widest_m: Array
    """Standard deviation half-way between them, metres, shape (n,)."""

    @property
    def sigma_m(self) -> Array:
        """Standard deviation of the position at each stamp, metres."""
        sigma: Array = self.widest_m * 2.0 * np.sqrt(self.share * (1.0 - self.share))
        return sigma

    def covariance(self, rows: NDArray[np.int64], others: NDArray[np.int64]) -> Array:
        """Return the covariance between stamps of one stretch, m^2."""
        a, b = self.share[rows][:, None], self.share[others][None]
        bridge: Array = np.minimum(a, b) - a * b
        return (2.0 * self.widest_m[rows])[:, None] ** 2 * bridge

    def take(self, rows: NDArray[np.int64]) -> Doubt:
        """Return that of some of the stamps."""
        return Doubt(self.stretch[rows], self.share[rows], self.widest_m[rows])

    def or_wider(self, other: Doubt) -> Doubt:
        """Return at each stamp the wider one of two."""
        theirs = other.sigma_m > self.sigma_m
        beyond = other.stretch + self.stretch.max(initial=0) + 1
        return Doubt(
            np.where(theirs, beyond, self.stretch),
            np.where(theirs, other.share, self.share),
            np.where(theirs, other.widest_m, self.widest_m),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Bridge:
    """How sure a trajectory is that was corrected at the poses of a path, and in between only by them."""

    stamps_ns: Stamps
    """Of the path, shape (n,)."""
    widest_m: Array
    """Standard deviation half-way to the next pose, metres, shape (n,)."""

    def at(self, stamps_ns: Stamps) -> Doubt:
        """Return how sure it is at each stamp."""
        last = len(self.stamps_ns) - 1
        before = np.clip(np.searchsorted(self.stamps_ns, stamps_ns, side='right') - 1, 0, last)
        after = np.minimum(before + 1, last)
        span = self.stamps_ns[after] - self.stamps_ns[before]
        share = np.clip((stamps_ns - self.stamps_ns[before]) / np.maximum(span, 1), 0.0, 1.0) * (span > 0)
        return Doubt(before, share, self.widest_m[before])
