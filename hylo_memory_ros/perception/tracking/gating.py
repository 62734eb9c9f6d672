"""Which landmarks an observation may belong to, and at what cost."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from hylo_memory_ros.perception.ingestion.scan import Scan
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.localization_error import common_mode
from hylo_memory_ros.perception.tracking.sym3 import determinant, mahalanobis

__all__ = ['Candidates', 'candidates', 'sizes_agree', 'squared_gate']

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

# Share of true pairs of observation and landmark that lie inside the gate.
_GATE_PROBABILITY = 0.9999
# Cost of a pair whose labels differ, as a squared Mahalanobis distance.
_LABEL_COST = 8.0
# Boxes whose volumes differ by more are not of one thing, when their labels differ too.
_VOLUMES = 8.0
# An observation of another label is given to a landmark only well within its gate.
_OTHER_LABEL = 0.99
# How much less likely a thing is that was seen once, against one whose label is another.
_DOUBT = 1.5


class Candidates(NamedTuple):
    """Pairs of observation and landmark that are within all gates, column by column."""

    point: Rows
    """Row of the observation in the scan."""
    row: Rows
    """Row of the landmark in the book."""
    distance: Array
    """Metres."""
    squared: Array
    """Squared Mahalanobis distance."""
    cost: Array
    """d^2 + ln|S|, and what it costs that the labels differ and that the landmark is new."""
    none: Array
    """What it costs to leave each observation of the scan without a landmark, shape (len(scan),)."""


@cache
def squared_gate(probability: float, dof: int) -> float:
    """Return the squared Mahalanobis distance that a share of true pairs does not exceed.

    Examples
    --------
    >>> round(squared_gate(0.95, 2), 2), round(squared_gate(0.95, 3), 2)
    (5.99, 7.81)
    """
    return float(chi2.ppf(probability, dof))


def sizes_agree(a: Array, b: Array) -> NDArray[np.bool_]:
    """Return which boxes may be of one thing by their volumes; unknown ones may."""
    with np.errstate(divide='ignore', invalid='ignore'):
        ratio = a.prod(axis=1) / b.prod(axis=1)
    agree: NDArray[np.bool_] = ~((ratio > _VOLUMES) | (ratio < 1.0 / _VOLUMES))
    return agree


def candidates(scan: Scan, book: LandmarkMap, settings: LandmarkSettings) -> Candidates:
    """Return the landmarks that each observation may be one of.

    The innovation's covariance is that of the landmark, of the detection, and of the
    localisation at the detection's distance from the robot.
    """
    point, row = book.near(scan.positions)
    state = book.state
    step = scan.positions[point] - state['mean'][row]
    square_m = step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1] + step[:, 2] * step[:, 2]
    forgotten_ns = state['forgotten_ns'][row]
    open_to_it = (forgotten_ns == NEVER) | (scan.stamp_ns <= forgotten_ns)
    kept = np.flatnonzero((square_m <= scan.gate_m**2) & open_to_it)
    point, row, step, square_m = point[kept], row[kept], step[kept], square_m[kept]
    noise = scan.covariances[point] + common_mode(scan.positions[point], scan.global_from_base, settings)
    innovation = state['covariance'][row] + noise
    squared = mahalanobis(step, innovation)
    differs = np.fromiter(
        (book.labels[j] != scan.labels[i] for i, j in zip(point.tolist(), row.tolist(), strict=True)),
        dtype=bool,
        count=len(row),
    )
    gate = squared_gate(_GATE_PROBABILITY, scan.dof)
    inside = squared <= np.where(differs, min(gate, squared_gate(_OTHER_LABEL, scan.dof)), gate)
    inside &= ~differs | sizes_agree(scan.extents[point], state['extent'][row])
    spread, misfit = np.log(determinant(innovation)), np.where(differs, _LABEL_COST, 0.0)
    # What was seen once may be nothing; it must not take what belongs to its neighbour.
    misfit = misfit + _DOUBT * _LABEL_COST / np.maximum(state['n'][row], 1)
    # Going without a landmark costs no less than any pair inside the gate, and no more than the
    # worst one: a far pair does not push a near one apart just to have everything assigned.
    worst = np.full(len(scan), -np.inf)
    np.maximum.at(worst, point, np.where(inside, spread + misfit, -np.inf))
    none = gate + np.where(np.isfinite(worst), worst, 0.0)
    kept = np.flatnonzero(inside)
    cost = (squared + spread + misfit)[kept]
    return Candidates(point[kept], row[kept], np.sqrt(square_m[kept]), squared[kept], cost, none)
