"""Pose: position, orientation and covariance in a named frame."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hylo_memory_ros.model.time import StampNs, rename_seconds, seconds_from_ns
from hylo_memory_ros.model.validation import Contract, FrameId, floats_of

MAX_COORDINATE_M = 1e9
UNIT_TOLERANCE = 1e-2
# Below this a quaternion is as near to unit length as float64 arithmetic brings it; leaving
# it alone makes normalization idempotent, so that a returned pose can be written again.
ALREADY_UNIT = 1e-14


def _coordinate(value: float) -> float:
    # Negated, so that NaN is refused too.
    if not abs(value) <= MAX_COORDINATE_M:
        raise ValueError(
            f'expected a finite coordinate at most {MAX_COORDINATE_M:g} m from the origin, got {value}'
        )
    return value + 0.0


Coordinate = Annotated[float, AfterValidator(_coordinate)]
Vector3 = tuple[Coordinate, Coordinate, Coordinate]
"""Three finite numbers x y z."""


def _orientation(value: tuple[float, float, float, float] | None) -> tuple[float, float, float, float] | None:
    # All zeros is the default of a ROS message: no orientation was set.
    if value is None or not any(value):
        return None
    norm2 = sum(part * part for part in value)
    if not abs(norm2 - 1.0) <= UNIT_TOLERANCE:
        raise ValueError(f'expected a unit quaternion x y z w, got {value} of squared length {norm2:g}')
    scale = 1.0 if abs(norm2 - 1.0) <= ALREADY_UNIT else 1.0 / math.sqrt(norm2)
    x, y, z, w = (part * scale + 0.0 for part in value)
    return x, y, z, w


def validate_covariance(value: Any) -> tuple[float, ...] | None:
    """Return a usable 6x6 covariance, or None for "unknown".

    All zeros means unknown. A negative or NaN diagonal, any number that is not finite, or a
    matrix that is not symmetric says nothing about uncertainty, and is dropped.

    Parameters
    ----------
    value : sequence of float, length 36, or None
        Row-major over x y z rotX rotY rotZ; m^2, m rad and rad^2.

    Raises
    ------
    ValueError
        If there are not 36 numbers.
    """
    if value is None:
        return None
    cov = tuple(part + 0.0 for part in floats_of(value))
    if len(cov) != 36:
        raise ValueError(f'expected 36 numbers of a 6x6 covariance, got {len(cov)}')
    if not any(cov) or not all(map(math.isfinite, cov)) or min(cov[::7]) < 0.0:
        return None
    size = max(map(abs, cov))
    # Float32 messages leave small asymmetries; relative to the largest entry.
    skew = max(abs(cov[6 * i + j] - cov[6 * j + i]) for i in range(6) for j in range(i))
    return cov if skew <= 1e-6 * size else None


class Pose(Contract):
    """A position, and perhaps an orientation, in a named frame (REP-103, REP-105)."""

    frame_id: FrameId
    """Frame in which the numbers hold; one leading slash is stripped."""
    position: Vector3
    """Metres, x y z, each at most 1e9 from the origin."""
    orientation: Annotated[tuple[float, float, float, float] | None, AfterValidator(_orientation)] = None
    """Unit quaternion x y z w; all zeros, or None: no orientation."""
    covariance: Annotated[tuple[float, ...] | None, BeforeValidator(validate_covariance)] = None
    """6x6 row-major over x y z rotX rotY rotZ; None: unknown."""
    stamp_ns: StampNs | None = Field(default=None)
    """When the pose was measured, integer nanoseconds; ``stamp`` takes seconds."""

    if TYPE_CHECKING:

        def __init__(self, **data: Any) -> None: ...

    @model_validator(mode='before')
    @classmethod
    def _seconds(cls, data: Any) -> Any:
        if isinstance(data, dict):
            data = dict(data)
            rename_seconds(data, 'stamp')
        return data

    @property
    def stamp(self) -> float | None:
        """When the pose was measured, in seconds."""
        return seconds_from_ns(self.stamp_ns)
