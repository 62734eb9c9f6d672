"""What the sightings of a landmark amount to: where it is, and how sure that is.

Detections from one keyframe share the error of the robot's pose. They sharpen the sighting's
mean, and only the sightings, each with the localisation's error added, count as independent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.ingestion.scan import Scan
from hylo_memory_ros.perception.map.columns import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.localization_error import common_modes
from hylo_memory_ros.perception.tracking.sym3 import inverse, rotation_matrix, times, turned

__all__ = ['fuse', 'located', 'refuse']

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


def located(slots: Rows, book: LandmarkMap, settings: LandmarkSettings) -> tuple[Array, Array]:
    """Return where sightings put their landmarks in the global frame.

    Returns
    -------
    positions : ndarray, shape (n, 3)
        Metres.
    covariances : ndarray, shape (n, 6)
        Of the detections and of the localisation, m^2.
    """
    seen = book.sightings.state
    frames = book.keyframes.columns[seen['keyframe'][slots] - 1]
    matrices = rotation_matrix(frames['rotation'])
    mean = seen['mean'][slots]
    levers = np.stack([(matrices[:, axis] * mean).sum(axis=1) for axis in range(3)], axis=1)
    covariances = turned(matrices, inverse(seen['information'][slots])) + common_modes(levers, settings)
    return levers + frames['position'], covariances


def fuse(scan: Scan, places: Rows, rows: Rows, book: LandmarkMap, settings: LandmarkSettings) -> None:
    """Take observations into the sightings of their landmarks, and those into the estimates.

    Parameters
    ----------
    places : ndarray of int
        Which observations of the scan.
    rows : ndarray of int
        Row of the landmark of each of them, all different.
    """
    state, keyframe = book.state, len(book.keyframes)
    slots = state['slot'][rows]
    seen = book.sightings.state
    ended = (slots >= 0) & (seen['keyframe'][slots] != keyframe)
    _close(rows[ended], slots[ended], book, settings)
    begun = rows[ended | (slots < 0)]
    tentative = begun[state['written_ns'][begun] == NEVER]
    state['chances'][tentative] += 1
    book.watch(tentative)
    for row in begun.tolist():
        state['slot'][row] = book.sightings.begin(int(state['number'][row]), keyframe, scan.stamp_ns)
    slots = state['slot'][rows]
    _refine(scan, places, slots, book)
    _estimate(rows, slots, book, settings)


def refuse(row: int, book: LandmarkMap, settings: LandmarkSettings) -> None:
    """Make the estimate of a landmark again from all its sightings, which changed."""
    state, seen = book.state[row], book.sightings.state
    slots = book.sightings.of(int(state['number']))
    state['prior_information'], state['prior_vector'] = 0.0, 0.0
    state['slot'] = slots[-1] if len(slots) else -1
    state['n'] = seen['n'][slots].sum()
    if not len(slots):
        return
    rows = np.array([row])
    # Those from one keyframe, of landmarks that are one now, share its error: together they
    # count as one.
    _, index, shared = np.unique(seen['keyframe'][slots], return_inverse=True, return_counts=True)
    weights = 1.0 / shared[index]
    _close(np.full(len(slots) - 1, row), slots[:-1], book, settings, weights[:-1])
    _estimate(rows, slots[-1:], book, settings, weights[-1:])
    book.place(rows)


def _close(
    rows: Rows, slots: Rows, book: LandmarkMap, settings: LandmarkSettings, weights: Array | float = 1.0
) -> None:
    """Take sightings into what is known before the newest one."""
    if not len(rows):
        return
    positions, covariances = located(slots, book, settings)
    information = inverse(covariances) * np.reshape(weights, (-1, 1))
    # A row may be in it many times.
    np.add.at(book.state['prior_information'], rows, information)
    np.add.at(book.state['prior_vector'], rows, times(information, positions))


def _refine(scan: Scan, places: Rows, slots: Rows, book: LandmarkMap) -> None:
    seen = book.sightings.state
    base_from_global = book.keyframes.pose(len(book.keyframes) - 1).inverse()
    matrix = rotation_matrix(np.array([base_from_global.rotation]))
    given = inverse(turned(matrix, scan.covariances[places]))
    known = seen['information'][slots] + given
    mean = seen['mean'][slots]
    step = base_from_global.positions(scan.positions[places]) - mean
    seen['mean'][slots] = mean + times(inverse(known), times(given, step))
    seen['information'][slots] = known
    seen['n'][slots] += 1
    seen['last_ns'][slots] = scan.stamp_ns
    seen['dirty'][slots] = True


def _estimate(
    rows: Rows, slots: Rows, book: LandmarkMap, settings: LandmarkSettings, weights: Array | float = 1.0
) -> None:
    positions, covariances = located(slots, book, settings)
    information = inverse(covariances) * np.reshape(weights, (-1, 1))
    prior = book.state['prior_information'][rows]
    total = inverse(prior + information)
    # As a step from the newest sighting: sums of products with positions would cancel.
    step = book.state['prior_vector'][rows] - times(prior, positions)
    book.state['mean'][rows] = positions + times(total, step)
    book.state['covariance'][rows] = total
