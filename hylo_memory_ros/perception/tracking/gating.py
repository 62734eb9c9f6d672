"""Gating: candidate landmarks of each observation, and the cost of each pair."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from hylo_memory_ros.perception.ingestion.observation import Scan
from hylo_memory_ros.perception.map.landmark import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.sym3 import determinant, mahalanobis

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

# Boxes with a larger ratio of volumes are different things, if their labels differ too.
_VOLUMES = 8.0
# Share of true pairs of observation and landmark that lie inside the gate.
_GATE_PROBABILITY = 0.9999
# Cost of a pair whose labels differ, as a squared Mahalanobis distance.
_LABEL_COST = 8.0
# An observation with another label must lie well within the gate.
_OTHER_LABEL = 0.99
# Cost of a landmark that was seen once, relative to that of a different label.
_DOUBT = 1.5


class Candidates(NamedTuple):
    """Pairs of observation and landmark inside all gates, column by column."""

    point: Rows
    """Row of the observation in the scan."""
    row: Rows
    """Row of the landmark in the map."""
    distance: Array
    """Euclidean distance, metres."""
    squared: Array
    """Squared Mahalanobis distance."""
    cost: Array
    """d^2 + ln|S|, plus penalties for a different label and for a new landmark."""
    none: Array
    """Cost of leaving each observation unassigned, shape (len(scan),)."""


@cache
def squared_gate(probability: float, dof: int) -> float:
    """Return the squared Mahalanobis distance that a share of true pairs does not exceed.

    Examples
    --------
    >>> round(squared_gate(0.95, 2), 2), round(squared_gate(0.95, 3), 2)
    (5.99, 7.81)
    """
    # scipy.stats has this as chi2.ppf, and takes half a second to import.
    return float(2.0 * gammaincinv(dof / 2.0, probability))


def sizes_agree(a: Array, b: Array) -> NDArray[np.bool_]:
    """Return flags of box pairs with compatible volumes; unknown sizes are compatible."""
    with np.errstate(divide='ignore', invalid='ignore'):
        ratio = a.prod(axis=1) / b.prod(axis=1)
    agree: NDArray[np.bool_] = ~((ratio > _VOLUMES) | (ratio < 1.0 / _VOLUMES))
    return agree


def find_candidates(scan: Scan, landmarks: LandmarkMap, settings: LandmarkSettings) -> Candidates:
    """Return the candidate landmarks of each observation.

    The covariance of the innovation is the sum of those of the landmark, of the detection, and of the
    localization at the distance of the detection from the robot.
    """
    point, row = landmarks.near(scan.positions)
    state = landmarks.state
    step = scan.positions[point] - state['mean'][row]
    square_m = step[:, 0] * step[:, 0] + step[:, 1] * step[:, 1] + step[:, 2] * step[:, 2]
    forgotten_ns = state['forgotten_ns'][row]
    open_to_it = (forgotten_ns == NEVER) | (scan.stamp_ns <= forgotten_ns)
    kept = np.flatnonzero((square_m <= scan.gate_m**2) & open_to_it)
    point, row, step, square_m = point[kept], row[kept], step[kept], square_m[kept]
    levers = scan.positions[point] - np.array(scan.global_from_base.translation)
    noise = scan.covariances[point] + localization_covariance(levers, settings)
    innovation = state['covariance'][row] + noise
    squared = mahalanobis(step, innovation)
    differs = np.fromiter(
        (landmarks.labels[j] != scan.labels[i] for i, j in zip(point.tolist(), row.tolist(), strict=True)),
        dtype=bool,
        count=len(row),
    )
    gate = squared_gate(_GATE_PROBABILITY, scan.dof)
    inside = squared <= np.where(differs, min(gate, squared_gate(_OTHER_LABEL, scan.dof)), gate)
    inside &= ~differs | sizes_agree(scan.extents[point], state['extent'][row])
    spread, misfit = np.log(determinant(innovation)), np.where(differs, _LABEL_COST, 0.0)
    # A landmark seen once may be a false detection; it must not take detections of its neighbour.
    misfit = misfit + _DOUBT * _LABEL_COST / np.maximum(state['n'][row], 1)
    # Going without a landmark costs no less than any pair inside the gate, and no more than the
    # worst one: a far pair does not push a near one apart just to have everything assigned.
    worst = np.full(len(scan), -np.inf)
    np.maximum.at(worst, point, np.where(inside, spread + misfit, -np.inf))
    none = gate + np.where(np.isfinite(worst), worst, 0.0)
    kept = np.flatnonzero(inside)
    cost = (squared + spread + misfit)[kept]
    return Candidates(point[kept], row[kept], np.sqrt(square_m[kept]), squared[kept], cost, none)


def localization_covariance(levers: Array, settings: LandmarkSettings) -> Array:
    """Return the covariance that localization adds to positions seen from one pose.

    Parameters
    ----------
    levers : ndarray, shape (n, 3)
        Positions relative to the robot, metres, axes of the global frame.

    Returns
    -------
    ndarray, shape (n, 6)
        m^2, xx xy xz yy yz zz, axes of the global frame: the variance of the position, and that of
        the heading times the square of the lever arm, across it.
    """
    x, y, _ = levers.T
    across, along = settings.localization_yaw_rad**2, settings.localization_sigma_m**2
    added = np.zeros((len(levers), 6))
    added[:, 0] = along + across * y * y
    added[:, 1] = -across * x * y
    added[:, 3] = along + across * x * x
    added[:, 5] = settings.localization_sigma_m**2
    return added
