"""Explanation of an answer: counts of excluded items by reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.domain.skills import OTHER_STATUS
from hylo_memory_ros.index import SpatialIndex
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.retrieval.sources import FEW, ResolvedQuery
from hylo_memory_ros.storage import TOTAL_LIMIT, QuerySource
from hylo_memory_ros.storage.query.filters import STATISTICS
from hylo_memory_ros.storage.statements.mapper import ItemRow

_VERSION_ROW, _VALID_FROM, _VALID_TO, _MAP, _FRAME, _X = 0, 1, 2, 9, 21, 22


@dataclass(slots=True)
class _Surroundings:
    """Version rows by place and time, around the place of a query."""

    other_map: int = 0
    other_frame: int = 0
    here: list[int] = field(default_factory=list)
    """Within the radius, at the time."""
    untimely: list[int] = field(default_factory=list)
    """Within the radius, at another time."""
    outside: list[tuple[float, int]] = field(default_factory=list)
    """(metres, version row) beyond the radius, at the time, nearest first."""


def _surroundings_of_few(store: QuerySource, resolved: ResolvedQuery) -> _Surroundings | None:
    """Return what passes the filters of a query at any time and place; None: that may be many."""
    if not resolved.filters_rows:
        return None
    counts = store.estimates(resolved.spec(world='any'), FEW + 1)
    if min(counts.values(), default=FEW + 1) > FEW:
        return None
    query = resolved.query
    lifted = {name: value for one in STATISTICS for name, value in one.lifted.items()}
    anyhow = query.model_copy(update={'scope': _scope_on_any_map(query), **lifted})
    rows = list(store.matching(replace(resolved.spec(world='any'), query=anyhow, space=''), None))
    return None if len(rows) > 4 * FEW else _by_place(resolved, list(store.fetch(rows).values()))


def _by_place(resolved: ResolvedQuery, rows: Sequence[ItemRow]) -> _Surroundings:
    place, found = resolved.place, _Surroundings()
    axes = 2 if place.horizontal else 3
    for row in rows:
        if row[_FRAME] is None:
            continue
        timely = resolved.query.include_invalidated or (
            row[_VALID_FROM] <= resolved.at_ns and (row[_VALID_TO] is None or resolved.at_ns < row[_VALID_TO])
        )
        distance_m = math.dist(row[_X : _X + axes], place.center[:axes])
        inside = distance_m <= place.radius_m
        is_map, is_frame = place.map_id in (None, row[_MAP]), row[_FRAME] == place.frame_id
        if is_map and is_frame:
            if inside:
                (found.here if timely else found.untimely).append(row[_VERSION_ROW])
            elif timely:
                found.outside.append((distance_m, row[_VERSION_ROW]))
        elif timely and not is_map:
            found.other_map += 1
        elif timely:
            found.other_frame += 1
    found.outside.sort()
    return found


LOOKED_BEYOND = 1_000
"""So many rows outside the radius are tested for whether they pass the filters."""


class Explanation:
    """Counts by reason for one query.

    Reasons: ``not_yet_valid``, ``invalidated``, ``ended`` and ``forgotten`` of the time axes,
    ``below_score`` of ranking, and the `reasons` of each filter. Of skills it is ``not_verified``, or
    ``other_skill_status`` for a query of other statuses; ``precondition_unknown`` means that a value is
    missing in the state of the caller, ``precondition_unfit`` that it has another type there.

    Places of another map or frame count wherever they are: their numbers cannot be compared. Of what lies
    around a place, all that passes the filters is looked at where that is little; else so many rows at most
    that the counts are lower bounds: 10 000 of a part of the index, and with filters `LOOKED_BEYOND` of other
    maps and frames, and the nearest `FEW` outside the radius.
    """

    def __init__(
        self, store: QuerySource, index: SpatialIndex, resolved: ResolvedQuery, below_score: int
    ) -> None:
        self._store = store
        self._index = index
        self._resolved = resolved
        self._below_score = below_score
        self.nearest_outside_m: float | None = None

    def excluded(self) -> dict[str, int]:
        """Return the counts that are not zero."""
        query = self._resolved.query
        counts = {'below_score': self._below_score}
        if query.text is not None and self._resolved.spec().words is None:
            counts['no_search_words'] = 1
        elif query.near is not None:
            counts |= self._near()
        else:
            counts |= self._store.excluded_by_time(self._resolved.spec())
            counts |= self._store.excluded_by_statistics(self._resolved.spec())
            counts['other_map'] = self._other_map()
            counts |= self._skills()
        if query.embedding is not None and query.near is None:
            spec = self._resolved.spec()
            counts['without_vector'] = self._store.count(replace(spec, space='')) - self._store.count(spec)
        if query.time_range_ns is not None:
            counts['other_clock'] = self._other_clock()
        return {reason: count for reason, count in sorted(counts.items()) if count}

    def _near(self) -> dict[str, int]:
        resolved, query = self._resolved, self._resolved.query
        if (around := _surroundings_of_few(self._store, resolved)) is not None:
            return self._of_few(around)
        left_out = self._index.excluded(resolved.place)
        counts = {
            'other_map': self._passing(left_out.other_maps),
            'other_frame': self._passing(left_out.other_frames),
        }
        if query.embedding is not None or any(one.narrows(query) for one in STATISTICS):
            counts |= self._within(self._here())
        rows = [*left_out.not_yet_valid.tolist(), *left_out.ended.tolist()]
        if rows:
            counts |= self._store.excluded_by_time(resolved.spec(), rows)
        counts['outside_radius'] = min(self._outside(left_out.outside), TOTAL_LIMIT)
        return counts

    def _passing(self, version_rows: NDArray[np.int64]) -> int:
        """Count the rows of other places that pass the filters."""
        resolved = self._resolved
        if not resolved.filters_rows or not len(version_rows):
            return min(len(version_rows), TOTAL_LIMIT)
        anywhere = resolved.query.model_copy(update={'scope': _scope_on_any_map(resolved.query)})
        rows = version_rows[:LOOKED_BEYOND].tolist()
        return len(self._store.matching(replace(resolved.spec(), query=anywhere), rows))

    def _of_few(self, around: _Surroundings) -> dict[str, int]:
        resolved = self._resolved
        counts = {'other_map': around.other_map, 'other_frame': around.other_frame}
        if around.here:
            counts |= self._within(around.here)
        if around.untimely:
            counts |= self._store.excluded_by_time(resolved.spec(), around.untimely)
        if around.outside:
            matching = self._store.matching(resolved.spec(), [row for _, row in around.outside])
            distances = [distance_m for distance_m, row in around.outside if row in matching]
            self.nearest_outside_m, counts['outside_radius'] = min(distances, default=None), len(distances)
        return counts

    def _here(self) -> list[int]:
        here: list[int] = self._index.ids_within(self._resolved.place)[:TOTAL_LIMIT].tolist()
        return here

    def _within(self, here: list[int]) -> dict[str, int]:
        """Count what is near and excluded by its statistics, or for want of a vector."""
        resolved, query = self._resolved, self._resolved.query
        counts = dict(self._store.excluded_by_statistics(resolved.spec(), here))
        if query.embedding is not None:
            anyhow = self._store.matching(replace(resolved.spec(), space=''), here)
            counts['without_vector'] = len(anyhow) - len(self._store.matching(resolved.spec(), here))
        return counts

    def _outside(self, unfiltered: int) -> int:
        """Count the matches beyond the radius, past what the filters exclude, and find the nearest.

        Each step looks twice as far as the nearest thing that no step has looked at yet; once there is a
        match, `FEW` rows are enough.
        """
        resolved, place, seen, count = self._resolved, self._resolved.place, 0, 0
        while seen < (FEW if count else LOOKED_BEYOND):
            nearest = self._index.nearest_outside(place)
            if nearest is None:
                return count
            if not resolved.filters_rows:
                self.nearest_outside_m = nearest.distance_m
                return unfiltered
            farther = place._replace(radius_m=2.0 * nearest.distance_m)
            around = self._index.within(farther)
            beyond = around.distances_m > place.radius_m
            rows = around.version_rows[beyond][: LOOKED_BEYOND - seen].tolist()
            distances = around.distances_m[beyond][: LOOKED_BEYOND - seen].tolist()
            matching = self._store.matching(resolved.spec(), rows)
            found = [distance_m for row, distance_m in zip(rows, distances, strict=True) if row in matching]
            if found and not count:
                self.nearest_outside_m = found[0]
            count += len(found)
            seen += len(rows)
            place = farther
        return count

    def _skills(self) -> dict[str, int]:
        resolved = self._resolved
        if not resolved.hides_skills:
            return {}
        count, assertions = self._store.excluded_skills(resolved.spec())
        counts = {OTHER_STATUS: count} if resolved.fit is None else resolved.fit.count_reasons(assertions)
        refused = counts.pop(OTHER_STATUS, 0)
        status = 'not_verified' if resolved.query.skill_status == ('verified',) else 'other_skill_status'
        return {status: refused, **counts}

    def _other_map(self) -> int:
        scope = self._resolved.query.scope
        if not scope or 'map_id' not in scope:
            return 0
        query = self._resolved.query
        spec = self._resolved.spec()
        anywhere = replace(spec, query=query.model_copy(update={'scope': _scope_on_any_map(query)}))
        return self._store.count(anywhere) - self._store.count(spec)

    def _other_clock(self) -> int:
        resolved = self._resolved
        other = 'sim' if resolved.clock == 'wall' else 'wall'
        if resolved.query.near is None:
            return self._store.count(replace(resolved.spec(), clock=other))
        return len(self._store.matching(replace(resolved.spec(), clock=other), self._here()))


def _scope_on_any_map(query: MemoryQuery) -> dict[str, str]:
    return {name: value for name, value in (query.scope or {}).items() if name != 'map_id'}
