"""Which sightings are of one landmark, after the robot's trajectory was corrected.

Keyframes are gone through in their order, each as a message would be: the same gates and the same
one-to-one assignment as for detections. Between two poses of a corrected path the trajectory is
less sure than at them: like a bridge, by a share of what was corrected there. What is seen again
then tells where the robot really was, so that grouping and alignment take turns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.corrections.trajectory import CorrectionUncertainty
from hylo_memory_ros.perception.ingestion.scan import Scan
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.tracking.assignment import NONE, assigned
from hylo_memory_ros.perception.tracking.gating import candidates
from hylo_memory_ros.perception.tracking.sym3 import DIAGONAL, inverse, times
from hylo_memory_ros.transforms import Transform

__all__ = ['Seen', 'regrouped']

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

# How often what is seen again may shift the trajectory and be grouped anew.
_ROUNDS = 3
# The doubt about a keyframe widens its gate by so many standard deviations, and to so many gates.
_DOUBT_SIGMAS = 2.0
_WIDEST = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Sightings, column by column, by keyframe."""

    keyframes: Rows
    """Row of the keyframe of each, ascending."""
    positions: Array
    """Metres, in the global frame, shape (n, 3)."""
    covariances: Array
    """Of the detections and the localisation, m^2, shape (n, 6)."""
    labels: list[str]
    """What each is."""
    gates_m: Array
    """Largest distance between it and its landmark, metres, shape (n,)."""
    dof: int
    """Degrees of freedom of a position."""

    def __len__(self) -> int:
        return len(self.keyframes)


def regrouped(seen: Seen, bases: Array, doubt: CorrectionUncertainty, settings: LandmarkSettings) -> Rows:
    """Return the group of each sighting; groups are numbered from 0 in the order of their first.

    Parameters
    ----------
    bases : ndarray, shape (k, 3)
        Where the robot was at each keyframe, metres.
    doubt : CorrectionUncertainty
        How sure each sighting's keyframe is.
    """
    shift = np.zeros_like(seen.positions)
    sure = np.full(len(seen), 0.0)
    groups = _grouped(seen, shift, doubt.sigma_m, bases, settings)
    if not doubt.sigma_m.any():
        return groups
    for _ in range(_ROUNDS):
        shift, sure = _aligned(seen, groups, doubt)
        groups = _grouped(seen, shift, sure, bases, settings)
    return groups


def _grouped(seen: Seen, shift: Array, sigma_m: Array, bases: Array, settings: LandmarkSettings) -> Rows:
    groups = np.full(len(seen), NONE, dtype=np.int64)
    widest = float(seen.gates_m.max(initial=1.0)) * _WIDEST
    book = LandmarkMap('', widest)
    information: list[Array] = []
    starts = np.flatnonzero(np.diff(seen.keyframes, prepend=-1))
    for rows in np.split(np.arange(len(seen)), starts[1:]):
        scan = _scan(seen, rows, shift, sigma_m, bases)
        everywhere = np.ones(len(rows), dtype=bool)
        found = assigned(candidates(scan, book, settings), everywhere, book)
        for place, row in enumerate(found.tolist()):
            if row == NONE:
                row = found[place] = book.add(f'{len(book):09d}', scan.labels[place])
                information.append(np.zeros(6))
            given = inverse(scan.covariances[place : place + 1])
            known = information[row] + given[0]
            total = inverse(known[None])
            step = scan.positions[place] - book.state['mean'][row]
            book.state['mean'][row] += times(total, times(given, step[None]))[0]
            book.state['covariance'][row] = total[0]
            information[row] = known
        book.place(found)
        groups[rows] = found
    return groups


def _scan(seen: Seen, rows: Rows, shift: Array, sigma_m: Array, bases: Array) -> Scan:
    count = len(rows)
    sigma = float(sigma_m[rows[0]])
    gate_m = float(seen.gates_m[rows].max())
    covariances = seen.covariances[rows].copy()
    covariances[:, DIAGONAL] += sigma * sigma
    base = Transform(tuple(bases[seen.keyframes[rows[0]]].tolist()))
    return Scan(
        input='',
        stamp_ns=0,
        digest=0,
        size=count,
        gate_m=min(gate_m + _DOUBT_SIGMAS * sigma, _WIDEST * gate_m),
        hit_ratio=0.0,
        global_from_sensor=base,
        global_from_base=base,
        indices=np.arange(count),
        labels=[seen.labels[row] for row in rows.tolist()],
        instances=[''] * count,
        positions=seen.positions[rows] + shift[rows],
        covariances=covariances,
        orientations=np.full((count, 4), np.nan),
        axis=None,
        extents=np.full((count, 3), np.nan),
        scores=np.ones(count),
        dof=seen.dof,
    )


def _aligned(seen: Seen, groups: Rows, doubt: CorrectionUncertainty) -> tuple[Array, Array]:
    """Return by how much the others of their groups shift the sightings of each stretch, and how surely.

    Returns
    -------
    shift : ndarray, shape (n, 3)
        Metres; the mean of a Gaussian process that is zero at the poses of the path.
    sigma_m : ndarray, shape (n,)
        What doubt is left, metres.
    """
    shift = np.zeros_like(seen.positions)
    left = doubt.sigma_m.copy()
    variance = seen.covariances[:, DIAGONAL].max(axis=1)
    weight = 1.0 / (variance + doubt.sigma_m**2)
    totals = np.bincount(groups, weight)
    sums = np.stack([np.bincount(groups, weight * seen.positions[:, axis]) for axis in range(3)], axis=1)
    for stretch in np.unique(doubt.stretch[doubt.sigma_m > 0.0]).tolist():
        rows = np.flatnonzero(doubt.stretch == stretch)
        # What the stretch says itself is no evidence of where it is.
        own, mine = np.unique(groups[rows], return_inverse=True)
        own_total = np.bincount(mine, weight[rows])
        own_sum = np.stack(
            [np.bincount(mine, weight[rows] * seen.positions[rows, axis]) for axis in range(3)], axis=1
        )
        others = (totals[own] - own_total)[mine]
        known = np.flatnonzero(others > 1e-9 * totals[groups[rows]])
        if not len(known):
            continue
        there = (sums[own] - own_sum)[mine][known] / others[known][:, None]
        residual = there - seen.positions[rows[known]]
        prior = doubt.covariance(rows, rows[known])
        noise = np.diag(variance[rows[known]] + 1.0 / others[known])
        gain = np.linalg.solve(prior[known] + noise, prior.T).T
        shift[rows] = gain @ residual
        explained = np.einsum('ij,ij->i', gain, prior)
        left[rows] = np.sqrt(np.maximum(doubt.sigma_m[rows] ** 2 - explained, 0.0))
    return shift, left
