"""Whether the robot knew where it was: what is seen before that says nothing of where it is."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Sequence

import numpy as np

from hylo_memory_ros.landmarks.settings import LandmarkSettings
from hylo_memory_ros.model.pose import sound_covariance

__all__ = ['Localisation']

# As long as messages may wait for their transforms; older reports are asked for no more.
_REPORTS_KEPT = 10_000


class Localisation:
    """Reports of how sure localisation was; at each stamp the newest one before it holds.

    Parameters
    ----------
    settings : LandmarkSettings
        What is sure enough.

    Examples
    --------
    >>> known = Localisation(LandmarkSettings(localised_within_m=0.5))
    >>> def sure(sigma_m):
    ...     return [sigma_m**2 if place in (0, 7) else 0.0 for place in range(36)]
    >>> known.report(10, sure(2.0)), known.report(20, sure(0.1))
    (False, True)
    >>> [known.holds(stamp_ns) for stamp_ns in (5, 15, 20, 99)]
    [False, False, True, True]
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self._within_m = settings.localised_within_m
        self._within_rad = settings.localised_within_rad
        self._reports: list[tuple[int, bool]] = []

    def report(self, stamp_ns: int, covariance: Sequence[float]) -> bool:
        """Take a report, and return whether it is good enough.

        Parameters
        ----------
        stamp_ns : int
            When it was so, nanoseconds.
        covariance : sequence of float, length 36
            Of the robot's pose in the global frame, row-major; all zeros, or what is none: unknown.
        """
        sound = sound_covariance(covariance)
        good = sound is not None and self._is_sure(sound)
        insort(self._reports, (stamp_ns, good))
        del self._reports[:-_REPORTS_KEPT]
        return good

    def holds(self, stamp_ns: int) -> bool:
        """Return whether the robot knew where it was at a stamp."""
        place = bisect_right(self._reports, (stamp_ns, True))
        return place > 0 and self._reports[place - 1][1]

    def _is_sure(self, covariance: Sequence[float]) -> bool:
        matrix = np.reshape(covariance, (6, 6))
        widest = float(np.linalg.eigvalsh(matrix[:2, :2])[-1])
        return math.sqrt(max(widest, 0.0)) <= self._within_m and math.sqrt(matrix[5, 5]) <= self._within_rad
