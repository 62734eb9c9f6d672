"""From a question to ranked hits that explain themselves.

An answer is of one world time and one sequence. Versions never change but for the end of their
belief, so what is fetched afterwards is of that sequence whatever is committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.skills import SkillIndex
from hylo_memory_ros.errors import UnsupportedError
from hylo_memory_ros.index import SpatialMirror
from hylo_memory_ros.model import (
    CandidateEvidence,
    Helpfulness,
    Hit,
    MemoryKind,
    MemoryQuery,
    QueryResult,
    Stats,
)
from hylo_memory_ros.model.skill import SKILL_STATUSES
from hylo_memory_ros.retrieval.executor import QueryExecutor
from hylo_memory_ros.retrieval.explain import Explanation
from hylo_memory_ros.retrieval.pagination import MAX_SEQUENCE, Cursor, Kept, digest_of_question
from hylo_memory_ros.retrieval.probability import probabilities_within
from hylo_memory_ros.retrieval.ranking import Ranked, Ranking, order_of
from hylo_memory_ros.retrieval.resolved_query import ResolvedQuery
from hylo_memory_ros.retrieval.scoring import orders_of, weights_of
from hylo_memory_ros.retrieval.sources import VectorSearch
from hylo_memory_ros.retrieval.working_memory import NO_HISTORY, with_working, working_ranked
from hylo_memory_ros.storage import TOTAL_LIMIT, QuerySource, WorkingMemory
from hylo_memory_ros.storage.statements.mapper import item_of, stats_of, status_of
from hylo_memory_ros.storage.working_memory import NOTHING, Left

__all__ = ['RetrievalEngine']

_VERSION_ROW, _VALID_TO, _FROM_SEQ = 0, 2, 4


@dataclass(frozen=True, slots=True)
class _Found:
    page: Sequence[Ranked]
    """In order, from the offset that was asked for on."""
    total: int
    seq: int
    lower_bound: bool = False
    below_score: int = 0
    plan: tuple[str, ...] = ()
    evidence: tuple[CandidateEvidence, ...] = ()
    ranking: Ranking | None = None
    """What the next page may need."""
    working: Left = NOTHING
    """What working memory answered, and could not answer."""


class RetrievalEngine:
    """Answers questions over a store, its mirror, its vectors and working memory.

    Parameters
    ----------
    store, mirror, working
        Where the memory is.
    config : MemoryConfig
        Tolerance, clock and weights.
    current_map : callable
        The map that is searched when a question names none.
    vectors : VectorSearch, optional
        Where vectors are compared.
    embed : callable, optional
        The vector of a text in a space; it refuses a space that has no embedder.
    skills : SkillIndex, optional
        What makes of a caller's state which skills fit; None: none were ever stated.
    """

    def __init__(
        self,
        store: QuerySource,
        mirror: SpatialMirror,
        working: WorkingMemory,
        config: MemoryConfig,
        current_map: Callable[[], str],
        vectors: VectorSearch | None = None,
        embed: Callable[[str, str], tuple[float, ...]] | None = None,
        skills: SkillIndex | None = None,
    ) -> None:
        self._store = store
        self._mirror = mirror
        self._working = working
        self._config = config
        self._current_map = current_map
        self._embed = embed
        self._skills = SkillIndex() if skills is None else skills
        self._gathering = QueryExecutor(store, mirror, vectors)
        self._kept = Kept()

    def question(self, query: MemoryQuery) -> ResolvedQuery:
        """Return a query on both time axes, with its map, and its text as a vector if it asks for that.

        Raises
        ------
        InvalidRequestError, EpochChangedError
            For a cursor that does not belong to it, or a text in a space without an embedder.
        """
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
        hides_stale = not query.include_stale and self._store.any_stale()
        weighs = weights_of(query, self._config)['helpfulness'] > 0.0
        return ResolvedQuery(
            self._by_meaning(query),
            at_ns,
            seq,
            map_id,
            self._config.clock,
            offset,
            hides_stale,
            weighs,
            hides_skills=len(self._skills) > 0 and _refuses_skills(query),
            fit=None if query.state is None else self._skills.fit(query.state, query.skill_status),
        )

    def _by_meaning(self, query: MemoryQuery) -> MemoryQuery:
        space, text = query.text_space, query.text
        if space is None or text is None:
            return query
        if self._embed is None:
            raise UnsupportedError(f'text_space: {space!r}: this memory has no embedders')
        vector = self._embed(space, text)
        return query.model_copy(update={'text': None, 'text_space': None, 'embedding': (space, vector)})

    def answer(self, query: MemoryQuery) -> QueryResult:
        """Return the hits of a query, best first, with what was left out and why."""
        asked = self.question(query)
        found = self._find(asked)
        hits = self._hits(asked, found.page[: query.k])
        ended_at = asked.offset + len(hits)
        truncated = found.total > ended_at
        cursor = None
        if truncated:
            question = _digest(query)
            cursor = Cursor(self._store.epoch, question, ended_at, found.seq, asked.at_ns).encoded()
            drifts = query.text is not None or query.embedding is not None or asked.weighs_helpfulness
            if found.ranking is not None and drifts:
                self._kept.keep(question, found.seq, asked.at_ns, found.ranking)
        excluded: dict[str, int] = {}
        nearest = None
        if len(hits) < query.k or query.explain:
            explanation = Explanation(self._store, self._mirror, asked, found.below_score)
            excluded = with_working(explanation.excluded(), found.working)
            nearest = explanation.nearest_outside_m
        return QueryResult(
            hits,
            min(found.total, TOTAL_LIMIT),
            found.seq,
            asked.at_ns,
            total_is_lower_bound=found.lower_bound or found.total > TOTAL_LIMIT,
            truncated=truncated,
            cursor=cursor,
            excluded=excluded,
            nearest_excluded_m=nearest,
            center_used=query.near[0] if query.near else None,
            purged=self._store.purged_after(found.seq) if asked.seq is not None else 0,
            plan=found.plan,
            evidence=found.evidence,
            notes=self._notes(asked, found.working),
        )

    def _notes(self, asked: ResolvedQuery, working: Left) -> tuple[str, ...]:
        """Say of working memory that it keeps no history, where that may make a difference."""
        query = asked.query
        past = query.as_of_ns is not None and query.as_of_ns < self._store.now_ns()
        past |= asked.seq is not None and query.cursor is None and asked.seq < self._store.sequence
        past |= query.known_at_ns is not None and query.known_at_ns < self._store.now_ns()
        meant = query.kinds is not None and MemoryKind.WORKING in query.kinds
        return (NO_HISTORY,) if past and (meant or any(working)) else ()

    def version_rows(self, asked: ResolvedQuery) -> list[int] | None:
        """Return the believed version rows near the place asked about, whenever; None: no place."""
        if asked.query.near is None:
            return None
        pose, radius_m = asked.query.near
        rows: list[int] = self._mirror.ids_within(
            asked.map_id, pose.frame_id, pose.position, radius_m, horizontal=asked.query.horizontal
        ).tolist()
        return rows

    def _find(self, asked: ResolvedQuery) -> _Found:
        query = asked.query
        weights = weights_of(query, self._config)
        left = self._working_items(asked)
        items = left.items
        start, limit = (0, asked.offset + query.k) if items else (asked.offset, query.k)
        if query.kinds == frozenset({MemoryKind.WORKING}):
            found = _Found([], 0, self._store.sequence, plan=('working memory alone',))
        elif orders_of(weights) or query.near is not None or query.embedding is not None:
            found = self._find_ranked(asked, weights, start, limit)
        else:
            found = self._find_by_filters(asked, start, limit)
        found = replace(found, working=left)
        if not items:
            return found
        working = working_ranked(items, query, weights, found.ranking, asked.at_ns)
        merged = sorted([*found.page, *working], key=order_of)[asked.offset :]
        evidence = CandidateEvidence('working', returned=len(items), after_filter=len(working))
        return replace(
            found, page=merged, total=found.total + len(working), evidence=(*found.evidence, evidence)
        )

    def _working_items(self, asked: ResolvedQuery) -> Left:
        kinds = asked.query.kinds
        if not len(self._working) or (kinds is not None and MemoryKind.WORKING not in kinds):
            return NOTHING
        reached = self._store.names_reached(asked.sql()) if asked.query.depth > 1 else set()
        return self._working.find(asked.query, asked.at_ns, asked.map_id, reached, seq=asked.seq)

    def _find_by_filters(self, asked: ResolvedQuery, start: int, limit: int) -> _Found:
        seq = self._store.sequence
        if asked.seq is not None:
            seq = min(asked.seq, seq)
        # Pinned to a sequence: the page and the count are two readings.
        pinned = asked.sql(seq=None if asked.seq is None else seq)
        rows, read_at = self._store.page(pinned, max(limit, 0), start)
        page = [Ranked(1.0, {'filter': 1.0}, None, row, None) for row, _ in rows]
        short = len(page) < limit
        total = start + len(page) if short and (page or not start) else self._store.count(pinned)
        evidence = CandidateEvidence('sql', requested=limit, returned=len(page), after_filter=len(page))
        return _Found(page, total, read_at, plan=('statements alone, a page of them',), evidence=(evidence,))

    def _find_ranked(
        self, asked: ResolvedQuery, weights: Mapping[str, float], start: int, limit: int
    ) -> _Found:
        ranking = None
        if asked.query.cursor is not None:
            ranking = self._kept.get(_digest(asked.query), asked.seq, asked.at_ns)
        if ranking is None or (ranking.matches.lower_bound and start + limit >= len(ranking.matches)):
            ranking = self._gathering.ranking(asked, weights, start + limit)
        return _Found(
            ranking.page(self._store, start, limit),
            ranking.total,
            ranking.seq,
            ranking.matches.lower_bound,
            ranking.below_score,
            ranking.plan,
            ranking.evidence,
            ranking,
        )

    def _hits(self, asked: ResolvedQuery, page: Sequence[Ranked]) -> tuple[Hit, ...]:
        rows = [one.row for one in page if one.row is not None]
        vectors = self._store.vectors(rows)
        judged = self._store.helpfulness(rows)
        episodes = self._store.episodes_said(rows)
        hits = tuple(_hit(one, asked.at_ns, vectors, judged, episodes) for one in page)
        return hits if asked.query.near is None else _with_chances(hits, asked.query)


def _hit(
    one: Ranked,
    at_ns: int,
    vectors: Mapping[int, Mapping[str, tuple[float, ...]]],
    judged: Mapping[int, Helpfulness],
    episodes: Mapping[int, str],
) -> Hit:
    if one.row is None:
        assert one.item is not None
        return Hit(one.item, one.score, one.details, distance_m=one.distance_m)
    row = one.row
    stats = stats_of(row)
    if judged and (helpfulness := judged.get(row[_VERSION_ROW])) is not None:
        stats = replace(stats or Stats(), helpfulness=helpfulness)
    return Hit(
        item_of(row, vectors.get(row[_VERSION_ROW])),
        one.score,
        one.details,
        row[_VALID_TO],
        status_of(row, at_ns),
        row[_FROM_SEQ],
        one.distance_m,
        stats,
        episodes.get(row[_VERSION_ROW], ''),
    )


def _with_chances(hits: tuple[Hit, ...], query: MemoryQuery) -> tuple[Hit, ...]:
    """Add the probability of being within the radius, where a covariance tells it."""
    poses = [hit.item.pose for hit in hits if hit.item.pose is not None]
    if query.near is None or len(poses) < len(hits) or all(pose.covariance is None for pose in poses):
        return hits
    pose, radius_m = query.near
    chances = probabilities_within(poses, pose.position, radius_m, horizontal=query.horizontal)
    return tuple(
        hit if chance is None else replace(hit, details={**hit.details, 'p_within': chance})
        for hit, chance in zip(hits, chances, strict=True)
    )


def _refuses_skills(query: MemoryQuery) -> bool:
    """Whether a skill that matches otherwise may be refused for its status or its predicates."""
    if query.kinds is not None and MemoryKind.SKILL not in query.kinds:
        return False
    return query.state is not None or set(query.skill_status) != set(SKILL_STATUSES)


def _digest(query: MemoryQuery) -> str:
    return digest_of_question(query.model_dump_json(exclude={'cursor', 'k', 'explain'}))
