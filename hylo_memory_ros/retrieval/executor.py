"""All that matches a question that ranks, from its sources in the order of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hylo_memory_ros.errors import UnsupportedError
from hylo_memory_ros.index import SpatialMirror
from hylo_memory_ros.model import CandidateEvidence
from hylo_memory_ros.retrieval.candidates import Matches
from hylo_memory_ros.retrieval.planner import Plan, planned
from hylo_memory_ros.retrieval.ranking import Ranking, ranked
from hylo_memory_ros.retrieval.resolved_query import ResolvedQuery
from hylo_memory_ros.retrieval.scoring import orders_of, scored
from hylo_memory_ros.retrieval.sources import Found, Place, Similar, Source, Statements, VectorSearch
from hylo_memory_ros.storage import TOTAL_LIMIT, QuerySource

__all__ = ['QueryExecutor']

# How many times as many candidates the next pool has, when too few of one passed the filters.
_GROWTH = 4


class QueryExecutor:
    """Finds and ranks the durable matches of questions.

    Parameters
    ----------
    store, mirror : QuerySource, SpatialMirror
        Where statements and places are.
    vectors : VectorSearch or None
        Where vectors are; None: nowhere.
    """

    def __init__(self, store: QuerySource, mirror: SpatialMirror, vectors: VectorSearch | None) -> None:
        self._store = store
        self._mirror = mirror
        self._vectors = vectors
        self._sources: dict[str, Source] = {'place': Place(store, mirror), 'statements': Statements(store)}
        self._similar = None if vectors is None else Similar(vectors)
        if self._similar is not None:
            self._sources['vectors'] = self._similar

    def ranking(self, asked: ResolvedQuery, weights: Mapping[str, float], wanted: int) -> Ranking:
        """Return the matches in order; of an order by vectors alone, at least as many as are wanted.

        Raises
        ------
        UnsupportedError
            It asks for vectors, and there are none.
        """
        query = asked.query
        if query.embedding is not None and self._vectors is None:
            raise UnsupportedError('embedding: this memory has no index of vectors')
        seq = self._pinned(asked)
        orders = orders_of(weights)
        plan = planned(asked, orders, self._store)
        if plan.steps[0] == 'vectors':
            matches, evidence = self._from_vectors(asked, seq, plan, wanted)
        else:
            matches, evidence = self._narrowed(asked, seq, plan, None)
        if len(matches) and any(_unfilled(matches, name) for name in orders):
            told = self._sources['statements'].find(asked, seq, matches)
            matches = told.matches
        found = ranked(matches, scored(matches, weights, asked.at_ns), query.min_score, seq)
        return replace(found, plan=plan.told, evidence=evidence)

    def _pinned(self, asked: ResolvedQuery) -> int:
        """Return the sequence that every source answers for."""
        reached = [self._store.sequence]
        if asked.query.near is not None:
            reached.append(self._mirror.sequence)
        if asked.query.embedding is not None and self._vectors is not None:
            reached.append(self._vectors.sequence)
        return min(reached) if asked.seq is None else min(asked.seq, *reached)

    def _narrowed(
        self, asked: ResolvedQuery, seq: int, plan: Plan, matches: Matches | None
    ) -> tuple[Matches, tuple[CandidateEvidence, ...]]:
        evidence = []
        for step in plan.steps:
            if step == 'vectors' and matches is not None and not len(matches):
                break
            found = self._sources[step].find(asked, seq, matches)
            matches = found.matches
            evidence.append(found.evidence)
        assert matches is not None
        return matches, tuple(evidence)

    def _from_vectors(
        self, asked: ResolvedQuery, seq: int, plan: Plan, wanted: int
    ) -> tuple[Matches, tuple[CandidateEvidence, ...]]:
        """Ask for the most similar, and for more until enough of them pass every filter.

        Equals at the end are asked for too: which of them comes first is not for the index to say.
        """
        assert self._similar is not None
        rest = replace(plan, steps=plan.steps[1:])
        least = asked.query.min_score or 0.0
        pool = max(wanted + 1, 10)
        tested: tuple[CandidateEvidence, ...]
        while True:
            found: Found = self._similar.best(asked, seq, pool)
            complete = len(found.matches) < pool
            matches, tested = found.matches, ()
            if rest.steps and len(matches):
                matches, tested = self._narrowed(asked, seq, rest, matches)
            enough = len(matches) > wanted and _differs(matches, max(wanted, 1))
            below = len(found.matches) and found.matches.vector[-1] < least  # type: ignore[index]
            if complete or enough or below or pool > 100 * TOTAL_LIMIT:
                break
            pool *= _GROWTH
        evidence = replace(found.evidence, after_filter=len(matches))
        return replace(matches, lower_bound=not complete and not below), (evidence, *tested)


def _unfilled(matches: Matches, order: str) -> bool:
    """Return whether only statements can tell what an order measures, and none has yet."""
    if order in ('confidence', 'recency'):
        return matches.confidence is None
    return order == 'helpfulness' and matches.helpfulness is None


def _differs(matches: Matches, wanted: int) -> bool:
    assert matches.vector is not None
    ordered = np.sort(matches.vector)[::-1]
    return bool(ordered[-1] < ordered[wanted - 1])
