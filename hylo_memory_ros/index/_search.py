"""One search: a ball and a window, over the places that were asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.index._answers import Hits, Nearest
from hylo_memory_ros.index._part import VALID_FROM, VALID_TO, VERSION, Ball, Rows, Window
from hylo_memory_ros.index._place import Place

__all__ = ['ball', 'hits', 'matches', 'nearest_beyond', 'version_rows']

Match = tuple[list[float], Rows]


def ball(center: Sequence[float], radius_m: float, horizontal: bool) -> Ball:
    """Check a centre and a radius.

    Raises
    ------
    InvalidRequestError
    """
    if not 0.0 <= radius_m < inf:
        raise InvalidRequestError(
            f'radius_m must be finite and at least 0, not {radius_m}', radius_m=radius_m
        )
    if len(center) != 3 or not all(map(isfinite, center)):
        raise InvalidRequestError(f'center must be three finite numbers, not {center}', center=center)
    x, y, z = center
    return Ball((float(x), float(y), float(z)), float(radius_m), horizontal)


def matches(places: Iterable[Place], within: Ball, window: Window) -> list[Match]:
    """Find distances and rows, part by part, in no particular order."""
    found = []
    for place in places:
        for part in place.parts:
            if window.low < part.over_at or window.seq < part.over_seq:
                match = part.match(within, window)
                if match is not None:
                    found.append(match)
    return found


def version_rows(found: Sequence[Match]) -> NDArray[np.int64]:
    """Put the version rows of the matches together, in no particular order."""
    if len(found) == 1:
        return found[0][1][:, VERSION]
    return np.concatenate([rows[:, VERSION] for _, rows in found]) if found else np.empty(0, np.int64)


def hits(sequence: int, found: Sequence[Match]) -> Hits:
    """Put the matches in order: distance, then version row."""
    if len(found) == 1:
        distances, rows = np.array(found[0][0]), found[0][1]
    elif found:
        distances = np.concatenate([distances for distances, _ in found])
        rows = np.concatenate([rows for _, rows in found])
    else:
        distances, rows = np.empty(0), np.empty((0, 6), np.int64)
    order = np.lexsort((rows[:, VERSION], distances))
    rows = rows.take(order, axis=0)
    return Hits(sequence, rows[:, VERSION], distances.take(order), rows[:, VALID_FROM], rows[:, VALID_TO])


def nearest_beyond(places: Iterable[Place], outside: Ball, window: Window) -> Nearest | None:
    """Find the nearest matching row outside the ball."""
    best = None
    for place in places:
        for part in place.parts:
            if window.low < part.over_at or window.seq < part.over_seq:
                found = part.nearest_beyond(outside, window)
                if found is not None and (best is None or found < best):
                    best = found
    return None if best is None else Nearest(best[1], best[0])
