"""One to one: each observation at most one landmark, each landmark at most one observation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.tracking.gating import Candidates

__all__ = ['NONE', 'assigned']

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

NONE = -1
"""In a column of rows: no landmark."""


def assigned(found: Candidates, free: NDArray[np.bool_], book: LandmarkMap) -> Rows:
    """Return the landmark of each observation at the least total cost.

    Parameters
    ----------
    found : Candidates
        Pairs inside the gates, and what it costs to leave an observation without a landmark.
    free : ndarray of bool
        Observations that are to be assigned.

    Returns
    -------
    ndarray of int
        Rows of the book, or `NONE`. At equal cost it is the landmark whose key comes first.
    """
    rows = np.full(len(free), NONE, dtype=np.int64)
    kept = free[found.point]
    point, row, cost = found.point[kept], found.row[kept], found.cost[kept]
    if not len(row):
        return rows
    ordered = np.array(sorted(set(row.tolist()), key=book.keys.__getitem__), dtype=np.int64)
    rank = np.empty(len(book.keys), dtype=np.int64)
    rank[ordered] = np.arange(len(ordered))
    column = rank[row]
    wanted_twice = np.bincount(column, minlength=len(ordered)) > 1
    contested = np.zeros(len(free), dtype=bool)
    contested[point[wanted_twice[column]]] = True
    alone = ~contested[point]
    order = np.lexsort((column[alone], cost[alone], point[alone]))
    first = np.unique(point[alone][order], return_index=True)
    rows[first[0]] = ordered[column[alone][order][first[1]]]
    if not alone.all():
        _contest(point[~alone], column[~alone], cost[~alone], found.none, rows, ordered)
    return rows


def _contest(point: Rows, column: Rows, cost: Array, none: Array, rows: Rows, ordered: Rows) -> None:
    points, place = np.unique(point, return_inverse=True)
    columns, at = np.unique(column, return_inverse=True)
    table = np.full((len(points), len(columns) + len(points)), np.inf)
    table[:, len(columns) :] = none[points][:, None]
    table[place, at] = cost
    for taken, chosen in zip(*linear_sum_assignment(table), strict=True):
        if chosen < len(columns):
            rows[points[taken]] = ordered[columns[chosen]]
