"""Vectors beside an item, each in a named space."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from hylo_memory_ros.model._numbers import floats_of

__all__ = ['Embeddings', 'SpaceName', 'Vector', 'sound_vector']

SPACE = re.compile(r'[^\s@]+@[^\s@]+')
MIN_NORM = 1e-12


def _space(name: object) -> str:
    if not isinstance(name, str) or not SPACE.fullmatch(name):
        raise ValueError(f'{name!r} is no embedding space: it reads name@version')
    return name


def sound_vector(value: object) -> tuple[float, ...]:
    """Return a vector rounded to float32, the precision in which vectors are kept.

    Raises
    ------
    ValueError
        If it is empty, not finite in float32, or shorter than 1e-12 (it has no direction).
    """
    parts = floats_of(value)
    try:
        vector = struct.unpack(f'<{len(parts)}f', struct.pack(f'<{len(parts)}f', *parts))
    except OverflowError as exc:
        raise ValueError('a vector component does not fit into float32') from exc
    if not vector or not all(map(math.isfinite, vector)):
        raise ValueError('a vector needs at least one component, all finite')
    if math.hypot(*vector) < MIN_NORM:
        raise ValueError(f'a vector shorter than {MIN_NORM:g} has no direction')
    return tuple(part + 0.0 for part in vector)


def _embeddings(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f'{type(value).__name__} is no mapping of space to vector')
    return {_space(name): sound_vector(vector) for name, vector in value.items()}


SpaceName = Annotated[str, AfterValidator(_space)]
"""An embedding space, ``name@version``."""

Vector = Annotated[tuple[float, ...], BeforeValidator(sound_vector)]
"""Components in float32."""

Embeddings = Annotated[Mapping[str, tuple[float, ...]], BeforeValidator(_embeddings)]
"""Vectors by space."""
