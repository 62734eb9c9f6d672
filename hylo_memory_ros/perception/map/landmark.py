"""One landmark: its name, and the statement that the memory keeps of it."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from hylo_memory_ros.model import MemoryItem, MemoryKind, Pose, normal_key

__all__ = ['KEY_DIGITS', 'Fused', 'item_of', 'landmark_key', 'sound_label']

KEY_DIGITS = 12
"""Hexadecimal digits by which landmarks of one label are told apart."""

_POSITION_DIGITS = 6
# Micrometres would round the variance of a millimetre away.
_VARIANCE_DIGITS = 9

Vector = tuple[float, float, float]


class Fused(NamedTuple):
    """What all observations of a landmark amount to."""

    key: str
    """Key of the landmark."""
    label: str
    """Its class."""
    mean: Vector
    """Position in the global frame, metres, x y z."""
    covariance: tuple[float, float, float, float, float, float]
    """Of the mean, m^2: xx xy xz yy yz zz."""
    extent: Vector | None
    """Mean size of its boxes, metres; None: unknown."""
    score: float
    """Mean score, 0 to 1."""
    orientation: tuple[float, float, float, float] | None = None
    """Quaternion x y z w in the global frame; None: unknown."""


def landmark_key(
    label: str, source: str, stamp_ns: int, digest: int, index: int, digits: int = KEY_DIGITS
) -> str:
    """Return the key of a landmark that begins with an observation.

    Parameters
    ----------
    label : str
        Class of the landmark.
    source, stamp_ns, digest, index
        Input, stamp, digest of the message and index in it.
    digits : int
        Hexadecimal digits; more than `KEY_DIGITS` only when the key is taken.

    Examples
    --------
    >>> landmark_key('tree', 'trees', 10**18, 7, 0)
    'tree/6e71a7b059ab'
    """
    first = f'{source}\0{stamp_ns}\0{digest}\0{index}'
    return f'{label}/{hashlib.sha256(first.encode()).hexdigest()[:digits]}'


def sound_label(label: str) -> str | None:
    """Return a label in its stored form, or None when no key can be made of it."""
    try:
        return normal_key(f'{label}/{"0" * KEY_DIGITS}')[: -KEY_DIGITS - 1] if label.strip() else None
    except ValueError:
        return None


def item_of(
    fused: Fused, *, frame_id: str, map_id: str, source: str, valid_from_ns: int, stamp_ns: int
) -> MemoryItem:
    """Return the statement that a landmark is where it was found to be.

    Fused values are rounded to 1e-6 m and 1e-9 m^2: the last bits are not what was measured.

    Parameters
    ----------
    frame_id, map_id : str
        Global frame and map; an empty map: none.
    source : str
        Input whose observation made it so.
    valid_from_ns, stamp_ns : int
        Since when it is so, and the stamp of that observation, nanoseconds.
    """
    xx, xy, xz, yy, yz, zz = (round(part, _VARIANCE_DIGITS) + 0.0 for part in fused.covariance)
    unknown = (0.0, 0.0, 0.0)
    rows = ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))
    covariance = tuple(part for row in rows for part in (*row, *unknown)) + 6 * unknown
    return MemoryItem(
        kind=MemoryKind.SPATIAL,
        key=fused.key,
        label=fused.label,
        content=fused.label,
        pose=Pose(
            frame_id=frame_id,
            position=_rounded(fused.mean),
            orientation=fused.orientation,
            covariance=covariance,
            stamp_ns=stamp_ns,
        ),
        extent=None if fused.extent is None else _rounded(fused.extent),
        scope={'map_id': map_id} if map_id else {},
        confidence=round(fused.score, _POSITION_DIGITS),
        source=f'hylo_memory_ros/{source}',
        valid_from_ns=valid_from_ns,
    )


def _rounded(vector: Vector) -> Vector:
    x, y, z = (round(part, _POSITION_DIGITS) + 0.0 for part in vector)
    return x, y, z
