"""What many observations of a landmark amount to: the mean, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.landmarks.book import LandmarkBook
from hylo_memory_ros.landmarks.columns import NEVER
from hylo_memory_ros.landmarks.landmark import Fused, item_of
from hylo_memory_ros.landmarks.scan import Scan
from hylo_memory_ros.landmarks.settings import LandmarkSettings
from hylo_memory_ros.model import MemoryItem

__all__ = ['RunningMean']

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

# Where the variances are in xx xy xz yy yz zz.
_VARIANCES = (0, 3, 5)


class RunningMean:
    """The plain mean of positions, and its covariance if their errors were independent.

    They are not quite, so no standard deviation under a floor is claimed. A landmark is written
    when it is confirmed, and again when it is elsewhere than was written by more than a least
    distance and more than so many of its standard deviations.

    Parameters
    ----------
    settings : LandmarkSettings
        Confirmation, displacement, floor.
    """

    def __init__(self, settings: LandmarkSettings) -> None:
        self._settings = settings

    def update(self, scan: Scan, places: Rows, rows: Rows, book: LandmarkBook) -> Sequence[MemoryItem]:
        """Take detections into their landmarks; return the statements that follow.

        Parameters
        ----------
        places : ndarray of int
            Which detections of the scan.
        rows : ndarray of int
            Row of the landmark of every detection of the scan, each at most once.
        """
        taken = rows[places]
        if not len(taken):
            return ()
        self._restart_moved(scan, places, taken, book)
        self._fuse(scan, places, taken, book)
        self._count(scan.stamp_ns, taken, book)
        book.place(taken)
        return [self._written(scan, row, book) for row in taken[self._is_news(taken, book)].tolist()]

    @staticmethod
    def _restart_moved(scan: Scan, places: Rows, rows: Rows, book: LandmarkBook) -> None:
        """Begin a new estimate of things that are known by name and are elsewhere now."""
        state = book.state
        away = _length(scan.positions[places] - state['mean'][rows]) > scan.gate_m
        state['n'][rows[state['has_instance'][rows] & away]] = 0

    @staticmethod
    def _fuse(scan: Scan, places: Rows, rows: Rows, book: LandmarkBook) -> None:
        state = book.state
        n = state['n'][rows].astype(np.float64)
        for name, given in (('mean', scan.positions), ('score', scan.scores)):
            state[name][rows] = _mean(state[name][rows], given[places], n)
        before, after = n[:, None], n[:, None] + 1.0
        old = state['covariance'][rows]
        state['covariance'][rows] = (before * before * old + scan.covariances[places]) / (after * after)
        old, size = state['extent'][rows], scan.extents[places]
        mixed = np.where(np.isnan(old), size, _mean(old, size, n))
        state['extent'][rows] = np.where(np.isnan(size), old, mixed)

    @staticmethod
    def _count(stamp_ns: int, rows: Rows, book: LandmarkBook) -> None:
        state = book.state
        state['since_ns'][rows[state['n'][rows] == 0]] = stamp_ns
        state['first_ns'][rows[state['observations'][rows] == 0]] = stamp_ns
        state['last_ns'][rows] = stamp_ns
        state['n'][rows] += 1
        state['observations'][rows] += 1

    def _is_news(self, rows: Rows, book: LandmarkBook) -> NDArray[np.bool_]:
        settings, state = self._settings, book.state
        variance = state['covariance'][rows][:, _VARIANCES].max(axis=1, initial=settings.sigma_floor_m**2)
        far = np.maximum(settings.move_min_m, settings.move_sigmas * np.sqrt(variance))
        # Unwritten ones are nowhere, NaN, and further away than anything.
        near = _length(state['mean'][rows] - state['written'][rows]) <= far
        news: NDArray[np.bool_] = (state['n'][rows] >= settings.confirm_n) & ~near
        return news

    def _written(self, scan: Scan, row: int, book: LandmarkBook) -> MemoryItem:
        state = book.state[row]
        since_ns, written_ns = int(state['since_ns']), int(state['written_ns'])
        valid_from_ns = since_ns if written_ns == NEVER or since_ns > written_ns else scan.stamp_ns
        state['written'], state['written_ns'] = state['mean'], valid_from_ns
        return item_of(
            self._claimed(book.fused(row)),
            frame_id=self._settings.global_frame,
            map_id=book.map_id,
            source=scan.input,
            valid_from_ns=valid_from_ns,
            stamp_ns=scan.stamp_ns,
        )

    def _claimed(self, fused: Fused) -> Fused:
        floor = self._settings.sigma_floor_m**2
        xx, xy, xz, yy, yz, zz = fused.covariance
        return fused._replace(covariance=(max(xx, floor), xy, xz, max(yy, floor), yz, max(zz, floor)))


def _mean(old: Array, given: Array, n: Array) -> Array:
    """Return the mean of one more than `n`; the first one is taken as it is."""
    count = n.reshape(-1, *(1,) * (given.ndim - 1))
    mean: Array = np.where(count == 0.0, given, old + (given - old) / (count + 1.0))
    return mean


def _length(steps: Array) -> Array:
    x, y, z = steps.T
    length: Array = np.sqrt(x * x + y * y + z * z)
    return length
