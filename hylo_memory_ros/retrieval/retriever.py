"""From a question to ranked hits: the mirror finds what is near, SQL does the rest.

An answer is of one world time and one sequence. The mirror fixes the sequence of a question
with a place; since versions never change but for the end of their belief, what is fetched
afterwards is of that sequence whatever is committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import UnsupportedError
from hylo_memory_ros.index import SpatialMirror
from hylo_memory_ros.model import CandidateEvidence, Hit, MemoryItem, MemoryKind, MemoryQuery, QueryResult
from hylo_memory_ros.retrieval.cursor import MAX_SEQUENCE, Cursor, digest_of_question
from hylo_memory_ros.retrieval.explanation import Explanation
from hylo_memory_ros.retrieval.question import Question
from hylo_memory_ros.retrieval.ranking import fused_scores, near_score, text_score
from hylo_memory_ros.retrieval.ranks import Ranks
from hylo_memory_ros.store import TOTAL_LIMIT, Store, WorkingMemory
from hylo_memory_ros.store.rows import ItemRow, item_of, stats_of, status_of
from hylo_memory_ros.store.working import distance_from

__all__ = ['Retriever']


class _Ranked(NamedTuple):
    """One candidate, with what orders it."""

    score: float
    details: Mapping[str, float]
    distance_m: float | None
    row: ItemRow | None
    item: MemoryItem | None


@dataclass(frozen=True, slots=True)
class _Found:
    ranked: Sequence[_Ranked]
    """In order, from the offset that was asked for on."""
    total: int
    seq: int
    below_score: int = 0
    ranking: Mapping[int, float | None] | None = None
    """Text ranks of all matches, for the next page."""
    plan: tuple[str, ...] = ()
    evidence: tuple[CandidateEvidence, ...] = ()


class Retriever:
    """Answers questions over a store, its mirror and working memory.

    Parameters
    ----------
    store, mirror, working
        Where the memory is.
    config : MemoryConfig
        Tolerance and clock.
    current_map : callable
        The map that is searched when a question names none.
    """

    def __init__(
        self,
        store: Store,
        mirror: SpatialMirror,
        working: WorkingMemory,
        config: MemoryConfig,
        current_map: Callable[[], str],
    ) -> None:
        self._store = store
        self._mirror = mirror
        self._working = working
        self._config = config
        self._current_map = current_map
        self._ranks = Ranks()

    def question(self, query: MemoryQuery) -> Question:
        """Return a query with its place on both time axes and its map.

        Raises
        ------
        UnsupportedError
            For what this version does not answer.
        InvalidRequestError, EpochChangedError
            For a cursor that does not belong to it.
        """
        for name, value in (('embedding', query.embedding), ('min_existence', query.min_existence)):
            if value is not None:
                raise UnsupportedError(f'{name}: this version does not answer it')
        scope = query.scope or {}
        map_id = None if query.any_map else scope.get('map_id', self._current_map())
        seq = None if query.known_seq is None else min(query.known_seq, MAX_SEQUENCE)
        if query.known_at_ns is not None:
            seq = self._store.sequence_at(query.known_at_ns)
        at_ns = query.as_of_ns
        if at_ns is None:
            at_ns = self._store.now_ns() + round(self._config.future_tolerance_s * 1e9)
        offset = 0
        if query.cursor is not None:
            cursor = Cursor.decoded(query.cursor, self._store.epoch, _digest(query))
            seq, at_ns, offset = cursor.seq, cursor.at_ns, cursor.offset
        return Question(query, at_ns, seq, map_id, self._config.clock, offset)

    def answer(self, query: MemoryQuery) -> QueryResult:
        """Return the hits of a query, best first, with what was left out and why."""
        asked = self.question(query)
        found = self._find(asked)
        page = found.ranked[: query.k]
        hits = self._hits(asked, page)
        ended_at = asked.offset + len(hits)
        truncated = found.total > ended_at
        cursor = None
        if truncated:
            cursor = Cursor(self._store.epoch, _digest(query), ended_at, found.seq, asked.at_ns).encoded()
            if found.ranking is not None:
                self._ranks.keep(_digest(query), found.seq, asked.at_ns, found.ranking)
        excluded: dict[str, int] = {}
        nearest = None
        if len(hits) < query.k or query.explain:
            explanation = Explanation(self._store, self._mirror, asked, found.below_score)
            excluded, nearest = explanation.excluded(), explanation.nearest_outside_m
        return QueryResult(
            hits,
            min(found.total, TOTAL_LIMIT),
            found.seq,
            asked.at_ns,
            total_is_lower_bound=found.total > TOTAL_LIMIT,
            truncated=truncated,
            cursor=cursor,
            excluded=excluded,
            nearest_excluded_m=nearest,
            center_used=query.near[0] if query.near else None,
            purged=self._store.purged_after(found.seq) if asked.seq is not None else 0,
            plan=found.plan,
            evidence=found.evidence,
        )

    def version_rows(self, asked: Question) -> list[int] | None:
        """Return the believed version rows near the place asked about, whenever; None: no place."""
        if asked.query.near is None:
            return None
        pose, radius_m = asked.query.near
        rows: list[int] = self._mirror.ids_within(
            asked.map_id, pose.frame_id, pose.position, radius_m, horizontal=asked.query.horizontal
        ).tolist()
        return rows

    def _find(self, asked: Question) -> _Found:
        kinds = asked.query.kinds
        working: list[_Ranked] = []
        if (kinds is None or MemoryKind.WORKING in kinds) and len(self._working):
            items = self._working.find(asked.query, asked.at_ns, asked.map_id)
            ranked = (_of_working(item, asked.query) for item in items)
            working = [one for one in ranked if one.score >= (asked.query.min_score or 0.0)]
        if kinds == frozenset({MemoryKind.WORKING}):
            found = _Found([], 0, self._store.sequence)
        elif asked.query.near is not None:
            found = self._find_near(asked, everything=bool(working))
        elif asked.query.text is not None:
            found = self._find_by_words(asked, everything=bool(working))
        else:
            found = self._find_by_filters(asked, everything=bool(working))
        source = 'mirror' if asked.query.near else 'fts5' if asked.query.text is not None else 'sql'
        evidence = CandidateEvidence(
            source, returned=found.total + found.below_score, after_filter=found.total
        )
        found = replace(found, plan=(f'candidates from {source}',), evidence=(evidence,))
        if not working:
            return found
        merged = sorted([*found.ranked, *working], key=_order)
        return replace(found, ranked=merged[asked.offset :], total=found.total + len(working))

    def _find_by_filters(self, asked: Question, *, everything: bool) -> _Found:
        query = asked.query
        start, limit = (0, asked.offset + query.k) if everything else (asked.offset, query.k)
        seq = self._store.sequence
        if asked.seq is not None:
            seq = min(asked.seq, seq)
        # Pinned to a sequence: the page and the count are two readings.
        pinned = asked.sql(seq=None if asked.seq is None else seq)
        page, read_at = self._store.page(pinned, max(limit, 0), start)
        ranked = [_of_row(row, rank) for row, rank in page]
        short = len(ranked) < limit
        total = start + len(ranked) if short and (ranked or not start) else self._store.count(pinned)
        return _Found(ranked, total, read_at)

    def _find_by_words(self, asked: Question, *, everything: bool) -> _Found:
        query = asked.query
        start, limit = (0, asked.offset + query.k) if everything else (asked.offset, query.k)
        # Pinned to a sequence: the ranks and the rows are two readings.
        seq = self._store.sequence if asked.seq is None else min(asked.seq, self._store.sequence)
        ranking = self._ranking(asked)
        if ranking is None:
            ranking = self._store.matching(asked.sql(seq=seq), None)
        least = query.min_score or 0.0
        enough = [row for row, rank in ranking.items() if text_score(rank or 0.0) >= least]
        page = enough[start:][:limit]
        fetched = self._store.fetch(page)
        ranked = [_of_row(fetched[row], ranking[row] or 0.0) for row in page if row in fetched]
        return _Found(ranked, len(enough), seq, len(ranking) - len(enough), ranking)

    def _ranking(self, asked: Question) -> Mapping[int, float | None] | None:
        if asked.query.cursor is None or asked.query.text is None:
            return None
        return self._ranks.get(_digest(asked.query), asked.seq, asked.at_ns)

    def _find_near(self, asked: Question, *, everything: bool) -> _Found:
        query = asked.query
        assert query.near is not None
        pose, radius_m = query.near
        hits = self._mirror.within(
            asked.map_id,
            pose.frame_id,
            pose.position,
            radius_m,
            at_ns=None if query.include_invalidated else asked.at_ns,
            seq=asked.seq,
            horizontal=query.horizontal,
        )
        start, limit = (0, asked.offset + query.k) if everything else (asked.offset, query.k)
        rows, distances = hits.version_rows, hits.distances_m
        if asked.filters_rows:
            places = rows.tolist()
            matching = self._ranking(asked)
            if matching is None:
                matching = self._store.matching(asked.among(), places) if places else {}
            if query.text is not None:
                ranked = self._fused(places, distances.tolist(), matching)
                found = self._cut(asked, ranked, start, limit, hits.sequence)
                return replace(found, ranking=matching)
            keep = [index for index, row in enumerate(places) if row in matching]
            rows, distances = rows[keep], distances[keep]
        total, below = len(rows), 0
        if query.min_score is not None:
            total = sum(near_score(d) >= query.min_score for d in distances.tolist())
            below = len(rows) - total
        first, last = _with_ties(distances, start, min(start + limit, total))
        fetched = self._store.fetch(rows[first:last].tolist())
        ranked = [
            _of_row(fetched[row], None, distance)
            for row, distance in zip(rows[first:last].tolist(), distances[first:last].tolist(), strict=True)
            if row in fetched
        ]
        ranked.sort(key=_order)
        return _Found(ranked[start - first :][:limit], total, hits.sequence, below)

    def _fused(
        self, places: list[int], distances: list[float], matching: Mapping[int, float | None]
    ) -> list[_Ranked]:
        """Rank what is near and speaks the words by the reciprocal ranks of both."""
        near = {row: d for row, d in zip(places, distances, strict=True) if row in matching}
        fetched = self._store.fetch(list(near))
        words = {row: matching[row] or 0.0 for row in near}
        scores = fused_scores(
            sorted(near, key=lambda row: (near[row], row)), sorted(near, key=lambda row: (-words[row], row))
        )
        ranked = []
        for row, distance in near.items():
            details = {'near': near_score(distance), 'text': text_score(words[row]), 'rrf': scores[row]}
            ranked.append(_Ranked(scores[row], details, distance, fetched[row], None))
        return sorted(ranked, key=_order)

    def _cut(self, asked: Question, ranked: list[_Ranked], start: int, limit: int, seq: int) -> _Found:
        least = asked.query.min_score or 0.0
        kept = [one for one in ranked if one.score >= least]
        return _Found(kept[start:][:limit], len(kept), seq, len(ranked) - len(kept))

    def _hits(self, asked: Question, page: Sequence[_Ranked]) -> tuple[Hit, ...]:
        rows = [one.row for one in page if one.row is not None]
        vectors = self._store.vectors(rows) if any(row[_HAS_EMBEDDING] for row in rows) else {}
        return tuple(_hit(one, asked.at_ns, vectors) for one in page)


_VERSION_ROW, _VALID_FROM, _VALID_TO, _FROM_SEQ, _ID, _HAS_EMBEDDING = 0, 1, 2, 4, 8, 19


def _of_row(row: ItemRow, rank: float | None, distance_m: float | None = None) -> _Ranked:
    if distance_m is not None:
        score = near_score(distance_m)
        return _Ranked(score, {'near': score}, distance_m, row, None)
    if rank is not None:
        score = text_score(rank)
        return _Ranked(score, {'text': score}, None, row, None)
    return _Ranked(1.0, {'filter': 1.0}, None, row, None)


def _of_working(item: MemoryItem, query: MemoryQuery) -> _Ranked:
    distance_m = distance_from(item, query)
    if distance_m is not None:
        score = near_score(distance_m)
        return _Ranked(score, {'near': score}, distance_m, None, item)
    return _Ranked(1.0, {'filter': 1.0}, None, None, item)


def _order(one: _Ranked) -> tuple[float, float, int, str]:
    """Score, then distance, then newest ``valid_from``, then id."""
    if one.row is not None:
        stamp_ns, name = one.row[_VALID_FROM], one.row[_ID]
    else:
        assert one.item is not None
        stamp_ns, name = one.item.valid_from_ns or 0, one.item.id or ''
    return (-one.score, one.distance_m or 0.0, -stamp_ns, name)


def _with_ties(distances: NDArray[np.float64], start: int, end: int) -> tuple[int, int]:
    """Widen a range so that no two equal distances lie on both sides of an end."""
    if start >= end:
        return start, start
    while start > 0 and distances[start - 1] == distances[start]:
        start -= 1
    while end < len(distances) and distances[end] == distances[end - 1]:
        end += 1
    return start, end


def _hit(one: _Ranked, at_ns: int, vectors: Mapping[int, Mapping[str, tuple[float, ...]]]) -> Hit:
    if one.row is None:
        assert one.item is not None
        return Hit(one.item, one.score, one.details, distance_m=one.distance_m)
    row = one.row
    return Hit(
        item_of(row, vectors.get(row[_VERSION_ROW])),
        one.score,
        one.details,
        row[_VALID_TO],
        status_of(row, at_ns),
        row[_FROM_SEQ],
        one.distance_m,
        stats_of(row),
    )


def _digest(query: MemoryQuery) -> str:
    return digest_of_question(query.model_dump_json(exclude={'cursor', 'k', 'explain'}))
