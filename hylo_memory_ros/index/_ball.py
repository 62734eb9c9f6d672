"""The ball that a query asks for, and the one rule of what lies within it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from math import dist, inf

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import InvalidRequestError

__all__ = ['HAIR', 'LARGEST', 'Ball', 'Points']

Points = NDArray[np.float64]

LARGEST = 1e100
"""Metres; beyond it a square overflows, so such a coordinate counts as not finite."""
# scipy's arithmetic and math.dist differ by some units in the last place: pre-select a hair more, then
# decide with math.dist alone.
HAIR = 1e-9
_ABSOLUTE = 1e-12
_FEW = 32

# Their product with a row of squares is its sum, in half the time of any other call of numpy.
_ONES = np.ones(2), np.ones(3)


class Ball:
    """A centre and a radius, in space or, when `planar`, over x and y only.

    Raises
    ------
    InvalidRequestError
        The radius is negative or not finite, or the centre is not three finite numbers.
    """

    __slots__ = ('center', 'planar', 'point', 'radius', 'reach')

    def __init__(self, center: Sequence[float], radius: float, planar: bool) -> None:
        if not 0.0 <= radius < inf:
            raise InvalidRequestError(
                f'radius_m must be finite and at least 0, not {radius}', radius_m=radius
            )
        place = tuple(map(float, center))
        if len(place) != 3 or not _is_point(*place):
            raise InvalidRequestError(f'center must be three finite numbers, not {center}', center=center)
        self.planar = planar
        self.center = place[:2] if planar else place
        self.point = np.array(self.center)
        # No two points are farther apart; a square of more might overflow.
        self.radius = radius = min(radius, 4.0 * LARGEST)
        self.reach = radius * (1.0 + HAIR) + _ABSOLUTE

    def distances(self, points: Points) -> list[float]:
        """Measure with `math.dist`, the one arbiter of what lies within."""
        # dist wants tuples: made of columns they cost half of what rows turned to lists cost.
        columns = points.T[: len(self.center)].tolist()
        return list(map(dist, zip(*columns, strict=True), repeat(self.center)))

    def rough(self, points: Points) -> Points:
        """Measure many at once: exactly near the surface, elsewhere to some units in the last place."""
        rough: Points = np.sqrt(self._squares(points))
        edge = np.abs(rough - self.radius) <= self.radius * HAIR + _ABSOLUTE
        if edge.any():
            rough[edge] = self.distances(points[edge])
        return rough

    def inside(self, points: Points) -> NDArray[np.bool_] | None:
        """Tell which of at least one points lie within; None when all do."""
        squares = self._squares(points)
        # Clear of the surface there is nothing to decide, unless the squares are too small to be trusted.
        if squares[squares.argmax(0)] <= (self.radius * (1.0 - HAIR)) ** 2 and self.radius > _ABSOLUTE:
            return None
        if len(points) <= _FEW:
            return np.array([distance <= self.radius for distance in self.distances(points)])
        inside: NDArray[np.bool_] = self.rough(points) <= self.radius
        return inside

    def _squares(self, points: Points) -> Points:
        away = (points[:, :2] if self.planar else points) - self.point
        away *= away
        squares: Points = away.dot(_ONES[not self.planar])
        return squares


def _is_point(x: float, y: float, z: float) -> bool:
    return abs(x) <= LARGEST and abs(y) <= LARGEST and abs(z) <= LARGEST
