"""Probability that a thing lies within a radius, from the covariance of its position.

The position is taken as normal. Along the principal axes of its covariance the probability of
a ball is an integral over a product of normal densities. The axis with the largest variance is
integrated in closed form (a difference of two normal distributions), the others by
Gauss-Legendre quadrature. Everything under the integral is positive, so nothing cancels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hylo_memory_ros.model import Pose

_REACH = 5.5
"""Standard deviations beyond which nothing counts: 4e-8 of the mass."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
# At a ball's edge its height falls like a root; in this variable the edge is as smooth as the middle.
_EDGE_NODES = np.sin(0.5 * np.pi * _NODES)
_EDGE_WEIGHTS = 0.5 * np.pi * np.cos(0.5 * np.pi * _NODES) * _WEIGHTS
_ROOT_2PI = float(np.sqrt(2.0 * np.pi))
_CHUNK = 256

Floats = NDArray[np.float64]


def probabilities_within(
    poses: Sequence[Pose], center: Sequence[float], radius_m: float, *, horizontal: bool = False
) -> list[float | None]:
    """Return the probability of each thing to lie within the radius.

    Parameters
    ----------
    poses : sequence of Pose
        Metres, in the frame of the centre; of the covariance the block of x y z counts.
    center : sequence of 3 floats
        Metres, x y z.
    radius_m : float
        Metres.
    horizontal : bool
        Measure over x and y only.

    Returns
    -------
    list of float or None
        In [0, 1]; None where the covariance of the position is unknown, which all zeros mean.

    Examples
    --------
    >>> covariance = [0.01 if i % 7 == 0 and i < 21 else 0.0 for i in range(36)]
    >>> pose = Pose(frame_id='map', position=(0.0, 0.0, 0.0), covariance=covariance)
    >>> round(probabilities_within([pose], (0.0, 0.0, 0.0), 0.1)[0], 6)
    0.198748
    """
    axes = 2 if horizontal else 3
    known = [
        place
        for place, pose in enumerate(poses)
        if pose.covariance is not None
        and any(pose.covariance[6 * i + j] for i in range(axes) for j in range(axes))
    ]
    found: list[float | None] = [None] * len(poses)
    for first in range(0, len(known), _CHUNK):
        places = known[first : first + _CHUNK]
        covariances = np.array([poses[place].covariance for place in places]).reshape(-1, 6, 6)
        offsets = np.array([poses[place].position[:axes] for place in places]) - np.array(center)[:axes]
        chances = _within(offsets, covariances[:, :axes, :axes], radius_m)
        for place, chance in zip(places, chances.tolist(), strict=True):
            found[place] = chance
    return found


def _within(offsets: Floats, covariances: Floats, radius_m: float) -> Floats:
    """Integrate for offsets, shape (n, d), and covariances, shape (n, d, d), with d 2 or 3."""
    variances, directions = np.linalg.eigh(covariances)  # smallest first; the lower triangle counts
    sigmas = np.sqrt(np.maximum(variances, 0.0))
    means = np.einsum('nij,ni->nj', directions, offsets)
    distances = np.sqrt((means**2).sum(1))
    reach = _REACH * np.sqrt((sigmas**2).sum(1))
    chances = (distances <= radius_m).astype(np.float64)
    near = np.abs(distances - radius_m) < reach
    if near.any():
        left = np.full((int(near.sum()), 1), radius_m**2)
        chances[near] = _integrated(means[near], sigmas[near], left)[:, 0]
    clipped: Floats = np.clip(chances, 0.0, 1.0)
    return clipped


def _integrated(means: Floats, sigmas: Floats, left: Floats) -> Floats:
    """Integrate over the first axis, and with it over those behind it.

    Parameters
    ----------
    means, sigmas : ndarray, shape (n, axes)
    left : ndarray, shape (n, m)
        What is left of the squared radius where the axes before are fixed.
    """
    mean, sigma, half = means[:, :1], sigmas[:, :1], np.sqrt(left)
    if means.shape[1] == 1:
        return _between(-half, half, mean, sigma)
    # In standard deviations from the mean; without any the axis is fixed at it.
    with np.errstate(divide='ignore', invalid='ignore', over='ignore'):
        low = np.clip(np.nan_to_num((-half - mean) / sigma, nan=-_REACH), -_REACH, _REACH)
        high = np.clip(np.nan_to_num((half - mean) / sigma, nan=_REACH), -_REACH, _REACH)
    at_edge = ((low > -_REACH) | (high < _REACH))[..., None]
    middle, width = 0.5 * (high + low)[..., None], 0.5 * (high - low)[..., None]
    steps = middle + width * np.where(at_edge, _EDGE_NODES, _NODES)
    weights = width * np.where(at_edge, _EDGE_WEIGHTS, _WEIGHTS) * np.exp(-0.5 * steps**2) / _ROOT_2PI
    rest = np.maximum(left[..., None] - (mean[..., None] + sigma[..., None] * steps) ** 2, 0.0)
    inner = _integrated(means[:, 1:], sigmas[:, 1:], rest.reshape(len(means), -1))
    summed: Floats = (weights * inner.reshape(weights.shape)).sum(-1)
    return summed


def _between(low: Floats, high: Floats, mean: Floats, sigma: Floats) -> Floats:
    """Return the mass of a normal distribution between two bounds."""
    mass: Floats = ndtr((high - mean) / sigma) - ndtr((low - mean) / sigma)
    return mass
