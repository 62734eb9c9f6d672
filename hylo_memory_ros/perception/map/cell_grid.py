"""Where landmarks of one label are, to within a cell: quick to ask, quick to change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ['CellGrid']

# Cells are numbered by 21 bits an axis. Beyond 2 million cells numbers repeat: cells far apart
# then share a number, which costs a comparison of distances and never an answer.
_BITS = 21
_MASK = (1 << _BITS) - 1
_CORNERS = np.array([(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)], dtype=np.int64)

Indices = NDArray[np.int64]
Points = NDArray[np.float64]


class CellGrid:
    """A hash of cubic cells, each twice as wide as the largest gate.

    A ball of the gate's radius then meets at most two cells on each axis, so eight cells hold
    all candidates.

    Parameters
    ----------
    gate_m : float
        Largest radius that will be asked for, metres.
    """

    def __init__(self, gate_m: float) -> None:
        self.gate_m = gate_m
        # Wider by more than rounding, so that the boundary of the ball belongs to it.
        self._size = 2.0 * gate_m * (1.0 + 1e-9)
        self._cells: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._cells)

    def cells(self, points: Points) -> list[int]:
        """Return the cell of each point, metres, shape (n, 3)."""
        numbers: list[int] = _numbers(np.floor(points / self._size).astype(np.int64)).tolist()
        return numbers

    def add(self, cell: int, row: int) -> None:
        """Put a row into a cell."""
        self._cells.setdefault(cell, []).append(row)

    def remove(self, cell: int, row: int) -> None:
        """Take a row out of a cell."""
        rows = self._cells[cell]
        rows.remove(row)
        if not rows:
            del self._cells[cell]

    def near(self, points: Points) -> tuple[Indices, Indices]:
        """Return all pairs of point and row that may be within the gate.

        Parameters
        ----------
        points : ndarray, shape (n, 3)
            Metres.

        Returns
        -------
        point, row : ndarray, shape (m,)
            Each pair at most once per cell; the distance is left to the caller.
        """
        lowest = np.floor(points / self._size - 0.5).astype(np.int64)
        corners = _numbers((lowest[:, None, :] + _CORNERS).reshape(-1, 3)).tolist()
        of_point: list[int] = []
        of_row: list[int] = []
        cells = self._cells
        for place, cell in enumerate(corners):
            rows = cells.get(cell)
            if rows:
                of_point += [place >> 3] * len(rows)
                of_row += rows
        return np.array(of_point, dtype=np.int64), np.array(of_row, dtype=np.int64)


def _numbers(cells: Indices) -> Indices:
    x, y, z = (cells[:, axis] & _MASK for axis in range(3))
    numbers: Indices = (x << 2 * _BITS) | (y << _BITS) | z
    return numbers
