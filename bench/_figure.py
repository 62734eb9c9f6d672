"""A figure as a line, and the timing of two sides in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ['at_least', 'at_most', 'medians', 'ratio', 'seconds']


def at_most(figure: str, value: float, target: float, **more: Any) -> dict[str, Any]:
    """Return the line of a figure that is good when it is small."""
    return {
        'figure': figure,
        'value': round(value, 4),
        'target': f'<= {target:g}',
        'ok': value <= target,
        **more,
    }


def at_least(figure: str, value: float, target: float, **more: Any) -> dict[str, Any]:
    """Return the line of a figure that is good when it is large."""
    return {
        'figure': figure,
        'value': round(value, 4),
        'target': f'>= {target:g}',
        'ok': value >= target,
        **more,
    }


def seconds(act: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def medians(rounds: int, *sides: Callable[[int], object]) -> list[float]:
    """Time the sides in turn, round after round, and return the median of each in seconds."""
    times: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        for side, kept in zip(sides, times, strict=True):
            start = time.perf_counter()
            side(number)
            kept.append(time.perf_counter() - start)
    return [statistics.median(kept) for kept in times]


def ratio(values: Sequence[float]) -> float:
    """Return the first median over the second."""
    return values[0] / values[1]
