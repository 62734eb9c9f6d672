"""Lists of numbers, whatever was given in their place."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ['floats_of']


def floats_of(value: object) -> list[float]:
    """Return the numbers of a list, an array or another iterable as floats.

    Raises
    ------
    ValueError
        It is no list of numbers, or one is too large for float64.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ValueError(f'{type(value).__name__} is no list of numbers')
    try:
        return [float(part) for part in value]
    except (TypeError, ValueError, OverflowError) as exc:
        raise ValueError(f'no list of numbers: {exc}') from exc
