"""What lies around the place of a question but does not match it, out of the few that pass its filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hylo_memory_ros.retrieval.question import Question
from hylo_memory_ros.retrieval.sources import FEW
from hylo_memory_ros.store import Store
from hylo_memory_ros.store.filtering import ANY_STATISTICS
from hylo_memory_ros.store.rows import ItemRow

__all__ = ['Around', 'around_of_few']

_VERSION_ROW, _VALID_FROM, _VALID_TO, _MAP, _FRAME, _X = 0, 1, 2, 9, 21, 22


@dataclass(slots=True)
class Around:
    """Version rows by where and when they are."""

    other_map: int = 0
    other_frame: int = 0
    here: list[int] = field(default_factory=list)
    """Within the radius, at the time."""
    untimely: list[int] = field(default_factory=list)
    """Within the radius, at another time."""
    outside: list[tuple[float, int]] = field(default_factory=list)
    """(metres, version row) beyond the radius, at the time, nearest first."""


def around_of_few(store: Store, asked: Question) -> Around | None:
    """Return what passes the filters of a question, whenever and wherever; None: that may be many."""
    if not asked.filters_rows:
        return None
    counts = store.estimates(asked.sql(world='any'), FEW + 1)
    if min(counts.values(), default=FEW + 1) > FEW:
        return None
    query = asked.query
    rest = {name: value for name, value in (query.scope or {}).items() if name != 'map_id'}
    anyhow = query.model_copy(update={'scope': rest, **ANY_STATISTICS})
    rows = list(store.matching(replace(asked.sql(world='any'), query=anyhow, space=''), None))
    return None if len(rows) > 4 * FEW else _sorted_out(asked, list(store.fetch(rows).values()))


def _sorted_out(asked: Question, rows: Sequence[ItemRow]) -> Around:
    query, found = asked.query, Around()
    assert query.near is not None
    (pose, radius_m), axes = query.near, 2 if query.horizontal else 3
    for row in rows:
        if row[_FRAME] is None:
            continue
        timely = query.include_invalidated or (
            row[_VALID_FROM] <= asked.at_ns and (row[_VALID_TO] is None or asked.at_ns < row[_VALID_TO])
        )
        distance_m = math.dist(row[_X : _X + axes], pose.position[:axes])
        inside = distance_m <= radius_m
        is_map, is_frame = asked.map_id in (None, row[_MAP]), row[_FRAME] == pose.frame_id
        if is_map and is_frame:
            if inside:
                (found.here if timely else found.untimely).append(row[_VERSION_ROW])
            elif timely:
                found.outside.append((distance_m, row[_VERSION_ROW]))
        elif timely and inside and is_frame:
            found.other_map += 1
        elif timely and inside and is_map:
            found.other_frame += 1
    found.outside.sort()
    return found
