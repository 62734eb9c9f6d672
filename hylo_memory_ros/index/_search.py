"""One search: a ball and a window, over the places that were asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index._answers import Hits, Nearest
from hylo_memory_ros.index._ball import Ball
from hylo_memory_ros.index._part import SHOWN, VALID_FROM, VALID_TO, VERSION, Rows, Window
from hylo_memory_ros.index._place import Place
from hylo_memory_ros.index._rows import OPEN

__all__ = ['hits', 'matches', 'nearest_beyond', 'untimely', 'version_rows']

Match = tuple[list[float], Rows]


def matches(places: Iterable[Place], within: Ball, window: Window) -> list[Match]:
    """Find distances and rows (their first `SHOWN` columns), part by part, in no particular order."""
    found = []
    for place in places:
        for part in place.parts:
            index, points = part.match(within, window)
            if len(index):
                found.append((within.distances(points), part.rows[:SHOWN].take(index, axis=1)))
    return found


def version_rows(
    places: Iterable[Place], within: Ball, window: Window, most: int | None = None
) -> NDArray[np.int64]:
    """Find version rows, in no particular order; with `most`, look at no more rows of a part."""
    found: list[NDArray[np.int64]] = []
    for place in places:
        for part in place.parts:
            index, _ = part.match(within, window, most)
            if len(index):
                found.append(part.rows[VERSION].take(index))
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def untimely(places: Iterable[Place], within: Ball, window: Window, most: int) -> tuple[Rows, Rows]:
    """Find version rows that begin after the window, or ended before; look at `most` of a part."""
    late, over = [], []
    always = -OPEN, OPEN, window[2]
    for place in places:
        for part in place.parts:
            index, _ = part.match(within, always, most)
            begins = part.rows[VALID_FROM].take(index) > window[1]
            ended = ~begins & (part.rows[VALID_TO].take(index) <= window[0])
            late.append(part.rows[VERSION].take(index[begins]))
            over.append(part.rows[VERSION].take(index[ended]))
    nothing = np.empty(0, np.int64)
    return np.concatenate([nothing, *late]), np.concatenate([nothing, *over])


def hits(sequence: int, found: Sequence[Match]) -> Hits:
    """Put the matches in order: distance, then version row."""
    if len(found) == 1:
        distances, rows = np.array(found[0][0]), found[0][1]
    elif found:
        distances = np.concatenate([distances for distances, _ in found])
        rows = np.concatenate([rows for _, rows in found], axis=1)
    else:
        distances, rows = np.empty(0), np.empty((SHOWN, 0), np.int64)
    order = np.lexsort((rows[VERSION], distances))
    rows = rows.take(order, axis=1)
    return Hits(sequence, rows[VERSION], distances.take(order), rows[VALID_FROM], rows[VALID_TO])


def nearest_beyond(places: Iterable[Place], outside: Ball, window: Window) -> Nearest | None:
    """Find the nearest matching row outside the ball."""
    best = None
    for place in places:
        for part in place.parts:
            found = part.nearest_beyond(outside, window) if part.may_match(window) else None
            if found is not None and (best is None or found < best):
                best = found
    return None if best is None else Nearest(best[1], best[0])
