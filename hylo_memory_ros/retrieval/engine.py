"""Retrieval engine: from a query to ranked hits with their evidence.

An answer is of one world time and one sequence. Only the end of its belief ever changes in a version, so
items fetched afterwards are of that sequence whatever is committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.skills import SkillIndex
from hylo_memory_ros.errors import UnsupportedError
from hylo_memory_ros.index import SpatialIndex
from hylo_memory_ros.model import (
    CandidateEvidence,
    Helpfulness,
    Hit,
    MemoryKind,
    MemoryQuery,
    QueryResult,
    Stats,
)
from hylo_memory_ros.retrieval.executor import QueryExecutor
from hylo_memory_ros.retrieval.explain import Explanation
from hylo_memory_ros.retrieval.pagination import MAX_SEQUENCE, Cursor, RankingCache, query_digest
from hylo_memory_ros.retrieval.probability import probabilities_within
from hylo_memory_ros.retrieval.ranking import (
    RERANK_POOL,
    RankedMatch,
    Ranking,
    order_of,
    rerank_hits,
    weights_of,
)
from hylo_memory_ros.retrieval.sources import ResolvedQuery, VectorSearch
from hylo_memory_ros.retrieval.working_memory import NO_HISTORY, add_working_exclusions, rank_working
from hylo_memory_ros.storage import TOTAL_LIMIT, QuerySource, WorkingMemory
from hylo_memory_ros.storage.query.filters import FILTERS, SKILLS
from hylo_memory_ros.storage.statements.mapper import item_of, stats_of, status_of
from hylo_memory_ros.storage.working_memory import NO_MATCHES, WorkingMatches

_VERSION_ROW, _VALID_TO, _FROM_SEQ = 0, 2, 4


@dataclass(frozen=True, slots=True)
class _Matches:
    page: Sequence[RankedMatch]
    """In order, from the offset of the query on."""
    total: int
    seq: int
    lower_bound: bool = False
    below_score: int = 0
    plan: tuple[str, ...] = ()
    evidence: tuple[CandidateEvidence, ...] = ()
    ranking: Ranking | None = None
    """The whole order, for the next page."""
    working: WorkingMatches = NO_MATCHES
    """Matches of working memory, and counts of what it cannot answer."""


class RetrievalEngine:
    """Answers queries over a store, its index of places, its vectors and working memory.

    Parameters
    ----------
    store, index, working
        The statements, the index of places, and working memory.
    config : MemoryConfig
        Tolerance, clock and weights.
    vectors : VectorSearch, optional
        The index of vectors.
    embed : callable, optional
        Returns the vector of a text in a space; it rejects a space that has no embedder.
    skills : SkillIndex, optional
        Index of the skills that fit a state; None: there are no skills.
    """

    def __init__(
        self,
        store: QuerySource,
        index: SpatialIndex,
        working: WorkingMemory,
        config: MemoryConfig,
        vectors: VectorSearch | None = None,
        embed: Callable[[str, str], tuple[float, ...]] | None = None,
        skills: SkillIndex | None = None,
    ) -> None:
        self._store = store
        self._index = index
        self._working = working
        self._config = config
        self._embed = embed
        self._skills = SkillIndex() if skills is None else skills
        self._executor = QueryExecutor(store, index, vectors)
        self._rankings = RankingCache()

    def resolve(self, query: MemoryQuery, current_map: str) -> ResolvedQuery:
        """Return a query with its place on both time axes, its map and its vector.

        Parameters
        ----------
        query : MemoryQuery
        current_map : str
            The map that is searched when the query names none; empty: what has no map.

        Raises
        ------
        InvalidRequestError, EpochChangedError
            For a cursor that does not belong to it, or a text in a space without an embedder.
        """
        scope = query.scope or {}
        map_id = None if query.any_map else scope.get('map_id', current_map)
        seq = None if query.known_seq is None else min(query.known_seq, MAX_SEQUENCE)
        if query.known_at_ns is not None:
            seq = self._store.sequence_at(query.known_at_ns)
        at_ns = query.as_of_ns
        if at_ns is None:
            at_ns = self._store.now_ns() + round(self._config.future_tolerance_s * 1e9)
        offset, continues = 0, ''
        if query.cursor is not None:
            cursor = Cursor.decoded(query.cursor, self._store.epoch, query_digest(query))
            seq, at_ns, offset, continues = cursor.seq, cursor.at_ns, cursor.offset, cursor.query
        if not query.include_stale and not self._store.any_stale():
            # The join with the landmarks is saved where it excludes nothing.
            query = query.model_copy(update={'include_stale': True})
        if query.text_space is not None:
            query = self._by_meaning(query, query.text_space)
        return ResolvedQuery(
            query,
            at_ns,
            seq,
            map_id,
            self._config.clock,
            offset,
            continues,
            weights_of(query, self._config),
            hides_skills=len(self._skills) > 0 and SKILLS.narrows(query),
            fit=None if query.state is None else self._skills.fit(query.state, query.skill_status),
        )

    def _by_meaning(self, query: MemoryQuery, space: str) -> MemoryQuery:
        """Replace the text of a query by its vector in a space."""
        if self._embed is None:
            raise UnsupportedError(f'text_space: {space!r}: this memory has no embedders')
        vector = self._embed(space, query.text or '')
        return query.model_copy(update={'text': None, 'text_space': None, 'embedding': (space, vector)})

    def answer(self, query: MemoryQuery, current_map: str) -> QueryResult:
        """Return the hits of a query, best first, and the counts of what is excluded by reason."""
        resolved = self.resolve(query, current_map)
        if isinstance(query.rerank, str):
            found, hits, reachable = self._find_reranked(resolved, query.rerank)
        else:
            found = self._find(resolved)
            hits, reachable = self._hits(resolved, found.page[: query.k]), found.total
            if query.rerank and not any(one.reranked for one in found.evidence):
                exact = CandidateEvidence('exact', returned=len(hits), reranked=len(hits))
                found = replace(found, evidence=(*found.evidence, exact))
        ended_at = resolved.offset + len(hits)
        truncated = reachable > ended_at
        cursor = None
        if truncated:
            digest = query_digest(query)
            cursor = Cursor(self._store.epoch, digest, ended_at, found.seq, resolved.at_ns).encoded()
            drifts = (
                query.text is not None or query.embedding is not None or 'helpfulness' in resolved.weights
            )
            if found.ranking is not None and drifts:
                self._rankings.keep(digest, found.seq, resolved.at_ns, found.ranking)
        excluded: dict[str, int] = {}
        nearest = None
        if len(hits) < query.k or query.explain:
            explanation = Explanation(self._store, self._index, resolved, found.below_score)
            excluded = add_working_exclusions(explanation.excluded(), found.working)
            nearest = explanation.nearest_outside_m
        notes = self._notes(resolved, found.working)
        if not found.total:
            notes += self._absences(resolved, excluded)
        return QueryResult(
            hits,
            min(found.total, TOTAL_LIMIT),
            found.seq,
            resolved.at_ns,
            total_is_lower_bound=found.lower_bound or found.total > TOTAL_LIMIT,
            truncated=truncated,
            cursor=cursor,
            excluded=excluded,
            nearest_excluded_m=nearest,
            center_used=query.near[0] if query.near else None,
            purged=self._store.purged_after(found.seq) if resolved.seq is not None else 0,
            plan=found.plan,
            evidence=found.evidence,
            notes=notes,
        )

    def _find_reranked(self, resolved: ResolvedQuery, reranker: str) -> tuple[_Matches, tuple[Hit, ...], int]:
        """Rerank the best matches and return a page of them, with the number that pages can reach."""
        query = resolved.query
        # The same pool for every page, so that no hit comes twice.
        pool = max(RERANK_POOL, query.k)
        found = self._find(replace(resolved, query=query.model_copy(update={'k': pool}), offset=0))
        ranked, evidence = rerank_hits(reranker, query, self._hits(resolved, found.page[:pool]))
        found = replace(found, evidence=(*found.evidence, evidence))
        return found, ranked[resolved.offset :][: query.k], len(ranked)

    def _notes(self, resolved: ResolvedQuery, working: WorkingMatches) -> tuple[str, ...]:
        """Return a note that working memory keeps no history, where that may make a difference."""
        query = resolved.query
        if not any(working) and (query.kinds is None or MemoryKind.WORKING not in query.kinds):
            return ()
        past = resolved.seq is not None and query.cursor is None and resolved.seq < self._store.sequence
        for time_ns in (query.as_of_ns, query.known_at_ns):
            past |= time_ns is not None and time_ns < self._store.now_ns()
        return (NO_HISTORY,) if past else ()

    def _absences(self, resolved: ResolvedQuery, excluded: Mapping[str, int]) -> tuple[str, ...]:
        """Return why nothing matches, where no count says it: what no stored item has."""
        query, place = resolved.query, resolved.query.near
        if query.kinds == frozenset({MemoryKind.WORKING}) or 'no_search_words' in excluded:
            return ()
        notes = self._store.absences(resolved.spec())
        if place is not None and place[0].frame_id not in (frames := self._index.frames(resolved.map_id)):
            where = '' if resolved.map_id is None else f' of map {resolved.map_id!r}'
            there = f' ({", ".join(sorted(frames))} exist)' if frames else ''
            notes.append(f'no stored item{where} has a place in frame {place[0].frame_id!r}{there}')
        if not notes and not excluded:
            names = [one.name for one in FILTERS if one.narrows(query)]
            if not resolved.hides_skills:
                names = [name for name in names if name != SKILLS.name]
            nothing = 'nothing is stored that is believed at that sequence'
            notes.append(f'no stored item passes all of: {", ".join(names)}' if names else nothing)
        return tuple(notes)

    def version_rows(self, resolved: ResolvedQuery) -> list[int] | None:
        """Return the believed version rows near the place of a query, of any time; None: it has no place."""
        if resolved.query.near is None:
            return None
        rows: list[int] = self._index.ids_within(resolved.place._replace(at_ns=None, seq=None)).tolist()
        return rows

    def _find(self, resolved: ResolvedQuery) -> _Matches:
        query, kinds, left = resolved.query, resolved.query.kinds, NO_MATCHES
        if len(self._working) and (kinds is None or MemoryKind.WORKING in kinds):
            reached = self._store.names_reached(resolved.spec()) if query.depth > 1 else set()
            left = self._working.find(query, resolved.at_ns, resolved.map_id, reached, seq=resolved.seq)
        items = left.items
        start, limit = (0, resolved.offset + query.k) if items else (resolved.offset, query.k)
        if kinds == frozenset({MemoryKind.WORKING}):
            found = _Matches([], 0, self._store.sequence, plan=('working memory alone',))
        elif resolved.weights or query.near is not None or query.embedding is not None:
            found = self._find_ranked(resolved, start, limit)
        else:
            found = self._find_by_filters(resolved, start, limit)
        found = replace(found, working=left)
        if not items:
            return found
        working = rank_working(items, query, resolved.weights, found.ranking, resolved.at_ns)
        merged = sorted([*found.page, *working], key=order_of)[resolved.offset :]
        evidence = CandidateEvidence('working', returned=len(items), after_filter=len(working))
        return replace(
            found, page=merged, total=found.total + len(working), evidence=(*found.evidence, evidence)
        )

    def _find_by_filters(self, resolved: ResolvedQuery, start: int, limit: int) -> _Matches:
        seq = self._store.sequence
        if resolved.seq is not None:
            seq = min(resolved.seq, seq)
        # Pinned to a sequence: the page and the count are two readings.
        pinned = resolved.spec(seq=None if resolved.seq is None else seq)
        rows, read_at = self._store.page(pinned, max(limit, 0), start)
        page = [RankedMatch(1.0, {'filter': 1.0}, None, row, None) for row, _ in rows]
        short = len(page) < limit
        total = start + len(page) if short and (page or not start) else self._store.count(pinned)
        evidence = CandidateEvidence('sql', requested=limit, returned=len(page), after_filter=len(page))
        return _Matches(
            page, total, read_at, plan=('statements alone, a page of them',), evidence=(evidence,)
        )

    def _find_ranked(self, resolved: ResolvedQuery, start: int, limit: int) -> _Matches:
        ranking = None
        if resolved.continues:
            ranking = self._rankings.get(resolved.continues, resolved.seq, resolved.at_ns)
        if ranking is None or (ranking.matches.lower_bound and start + limit >= len(ranking.matches)):
            ranking = self._executor.ranking(resolved, start + limit)
        return _Matches(
            ranking.page(self._store, start, limit),
            ranking.total,
            ranking.seq,
            ranking.matches.lower_bound,
            ranking.below_score,
            ranking.plan,
            ranking.evidence,
            ranking,
        )

    def _hits(self, resolved: ResolvedQuery, page: Sequence[RankedMatch]) -> tuple[Hit, ...]:
        rows = [one.row for one in page if one.row is not None]
        vectors = self._store.vectors(rows)
        judged = self._store.helpfulness(rows)
        episodes = self._store.episodes_said(rows)
        endings = self._store.endings(rows)
        hits = tuple(_hit(one, resolved.at_ns, vectors, judged, episodes, endings) for one in page)
        return hits if resolved.query.near is None else _with_chances(hits, resolved.query)


def _hit(
    one: RankedMatch,
    at_ns: int,
    vectors: Mapping[int, Mapping[str, tuple[float, ...]]],
    judged: Mapping[int, Helpfulness],
    episodes: Mapping[int, str],
    endings: Mapping[int, str],
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
        endings.get(row[_VERSION_ROW], ''),
    )


def _with_chances(hits: tuple[Hit, ...], query: MemoryQuery) -> tuple[Hit, ...]:
    """Add the probability of being within the radius, where there is a covariance."""
    poses = [hit.item.pose for hit in hits if hit.item.pose is not None]
    if query.near is None or len(poses) < len(hits) or all(pose.covariance is None for pose in poses):
        return hits
    pose, radius_m = query.near
    chances = probabilities_within(poses, pose.position, radius_m, horizontal=query.horizontal)
    return tuple(
        hit if chance is None else replace(hit, details={**hit.details, 'p_within': chance})
        for hit, chance in zip(hits, chances, strict=True)
    )
