"""The order of an answer: score, then distance, then newest ``valid_from``, then id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model import CandidateEvidence, MemoryItem
from hylo_memory_ros.retrieval.candidates import Floats, Matches, Rows
from hylo_memory_ros.retrieval.scoring import Scores
from hylo_memory_ros.storage import QuerySource
from hylo_memory_ros.storage.statements.mapper import ItemRow

__all__ = ['Ranked', 'Ranking', 'order_of', 'ranked']

_VALID_FROM, _ID = 1, 8


class Ranked(NamedTuple):
    """One candidate, with what orders it."""

    score: float
    details: Mapping[str, float]
    distance_m: float | None
    row: ItemRow | None
    item: MemoryItem | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """All matches in order, but for the ids of equals, which only whole items tell."""

    matches: Matches
    scores: Floats
    parts: Mapping[str, Floats]
    total: int
    """How many match."""
    seq: int
    """The sequence that all is of."""
    below_score: int = 0
    """How many more match, with too low a score."""
    plan: tuple[str, ...] = ()
    evidence: tuple[CandidateEvidence, ...] = ()
    is_equal: NDArray[np.bool_] | None = None
    """Which match is equal to the one before it, ids aside."""

    def page(self, store: QuerySource, start: int, limit: int) -> list[Ranked]:
        """Return some of the answer, whole items fetched."""
        last = min(start + limit, len(self.matches))
        if start >= last:
            return []
        first, last = self._with_equals(start, last)
        rows = self.matches.rows[first:last].tolist()
        fetched = store.fetch(rows)
        scores = self.scores[first:last].tolist()
        names = list(self.parts)
        columns = zip(*(self.parts[name][first:last].tolist() for name in names), strict=True)
        distance_m = self.matches.distance_m
        distances = [None] * len(rows) if distance_m is None else distance_m[first:last].tolist()
        found = [
            Ranked(score, dict(zip(names, parts, strict=True)), distance, fetched[row], None)
            for row, score, parts, distance in zip(rows, scores, columns, distances, strict=True)
            if row in fetched
        ]
        if not self.matches.sorted:
            found.sort(key=order_of)
        return found[start - first :][:limit]

    def _with_equals(self, start: int, end: int) -> tuple[int, int]:
        """Widen a range so that no two equals lie on both sides of an end."""
        if self.is_equal is None:
            return start, end
        while start > 0 and self.is_equal[start]:
            start -= 1
        while end < len(self.matches) and self.is_equal[end]:
            end += 1
        return start, end


def ranked(matches: Matches, scores: Scores, least: float | None, seq: int) -> Ranking:
    """Put matches in order and leave out those below the least score."""
    count = len(matches)
    if least:
        keep = np.flatnonzero(scores.total >= least)
        if len(keep) < count:
            matches = matches.taken(keep, sorted=matches.sorted)
            parts = {name: part[keep] for name, part in scores.parts.items()}
            scores = Scores(scores.total[keep], parts)
    keys: list[Floats | Rows] = [-scores.total]
    if matches.distance_m is not None:
        keys.append(matches.distance_m)
    if matches.valid_from_ns is not None and not matches.sorted:
        keys.append(-matches.valid_from_ns)
    # Stable: where rows come sorted, equals stay in the order of their time and id.
    order = np.lexsort(keys[::-1])
    equal = None
    if not matches.sorted and len(order) > 1:
        equal = np.ones(len(order), np.bool_)
        equal[0] = False
        for key in keys:
            equal[1:] &= key[order[1:]] == key[order[:-1]]
    return Ranking(
        matches.taken(order, sorted=matches.sorted),
        scores.total[order],
        {name: part[order] for name, part in scores.parts.items()},
        len(matches),
        seq,
        count - len(matches),
        is_equal=equal,
    )


def order_of(one: Ranked) -> tuple[float, float, int, str]:
    """Return what sorts one candidate among others."""
    if one.row is not None:
        stamp_ns, name = one.row[_VALID_FROM], one.row[_ID]
    else:
        assert one.item is not None
        stamp_ns, name = one.item.valid_from_ns or 0, one.item.id or ''
    return (-one.score, one.distance_m or 0.0, -stamp_ns, name)
