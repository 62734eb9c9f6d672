"""What the spatial mirror answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ['Excluded', 'Hits', 'Nearest']


# Not frozen: that alone would cost a query 1.5 us.
@dataclass(slots=True)
class Hits:
    """Rows within a radius, nearest first; equal distances by version row.

    Attributes
    ----------
    sequence : int
        The sequence that the answer is exact for.
    version_rows : ndarray, shape (n,), int64
    distances_m : ndarray, shape (n,), float64
        Equal to `math.dist` to the bit.
    valid_from_ns, valid_to_ns : ndarray, shape (n,), int64
        World time of each row; `OPEN` for no end.
    """

    sequence: int
    version_rows: NDArray[np.int64]
    distances_m: NDArray[np.float64]
    valid_from_ns: NDArray[np.int64]
    valid_to_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.version_rows)


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest matching row beyond a radius.

    Attributes
    ----------
    version_row : int
    distance_m : float
        Metres from the centre, by `math.dist`.
    """

    version_row: int
    distance_m: float


@dataclass(frozen=True, slots=True)
class Excluded:
    """Believed rows within the radius that a query left out, and why.

    Attributes
    ----------
    other_maps, other_frames : int
        Rows that match in time, in the same frame of other maps and in other frames of the map.
    not_yet_valid, ended : ndarray, int64
        Version rows in the searched place that begin later, and that ended before.
    """

    other_maps: int
    other_frames: int
    not_yet_valid: NDArray[np.int64]
    ended: NDArray[np.int64]
