"""How far the robot may be from where it is thought to be: an error that a whole message shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.transforms import Transform

__all__ = ['common_mode', 'common_modes']

Array = NDArray[np.float64]


def common_mode(positions: Array, global_from_base: Transform, settings: LandmarkSettings) -> Array:
    """Return what localisation adds to the covariance of positions seen from one pose.

    Parameters
    ----------
    positions : ndarray, shape (n, 3)
        Metres, in the global frame.
    global_from_base : Transform
        Where the robot was.

    Returns
    -------
    ndarray, shape (n, 6)
        m^2, xx xy xz yy yz zz, axes of the global frame: the position's variance, and that of the
        heading times the square of the lever arm, across it.
    """
    return common_modes(positions - np.array(global_from_base.translation), settings)


def common_modes(levers: Array, settings: LandmarkSettings) -> Array:
    """Return the same for positions relative to the robot, axes of the global frame, shape (n, 3)."""
    x, y, _ = levers.T
    across, along = settings.localisation_yaw_rad**2, settings.localisation_sigma_m**2
    added = np.zeros((len(levers), 6))
    added[:, 0] = along + across * y * y
    added[:, 1] = -across * x * y
    added[:, 3] = along + across * x * x
    added[:, 5] = settings.localisation_sigma_m**2
    return added
