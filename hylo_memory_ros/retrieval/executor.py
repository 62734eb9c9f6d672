"""Query executor: orders the candidate sources, runs them and ranks their matches.

The source that leaves fewest comes first, by the estimates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hylo_memory_ros.errors import UnsupportedError
from hylo_memory_ros.index import SpatialIndex
from hylo_memory_ros.model import CandidateEvidence
from hylo_memory_ros.retrieval.ranking import Ranking, rank_matches, score_matches
from hylo_memory_ros.retrieval.sources import (
    COLUMNS,
    FEW,
    MatchColumns,
    ResolvedQuery,
    SimilaritySource,
    Source,
    SourceResult,
    SpatialSource,
    StatementSource,
    VectorSearch,
)
from hylo_memory_ros.storage import TOTAL_LIMIT, QuerySource

SUBSET = 5_000
"""Up to so many matches, all are compared by their vectors; beyond, vectors come first where they may."""

Step = Literal['place', 'statements', 'vectors']
# How many times as many candidates the next pool has, when too few of one passed the filters.
_GROWTH = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of the sources, and the reason for it."""

    steps: tuple[Step, ...]
    """Sources, first one first."""
    reasons: tuple[str, ...]
    """Estimates and decisions in words, for the evidence."""


def make_plan(resolved: ResolvedQuery, store: QuerySource) -> Plan:
    """Return the order in which the sources answer a query; the store counts its indexes up to a limit."""
    query = resolved.query
    exact: tuple[Step, ...] = ('place',) if query.near is not None else ()
    # Vectors may only come first where nothing else ranks.
    alone = query.embedding is not None and tuple(resolved.weights) == ('vector',)
    if resolved.filters_rows or not (exact or alone):
        exact = (*exact, 'statements')
    if query.embedding is None and len(exact) == 1:
        return Plan(exact, (f'{exact[0]} alone',))
    if not exact:
        return Plan(('vectors',), ('vectors alone',))
    may_lead = alone and 'place' not in exact
    most = (SUBSET if may_lead else FEW) + 1
    counts = store.estimates(resolved.spec(), most) if 'statements' in exact else {}
    reasons = tuple(f'{name}: {"at least " * (count >= most)}{count}' for name, count in counts.items())
    least = min(counts.values(), default=most)
    if may_lead and least >= most:
        return Plan(
            ('vectors', *exact),
            (*reasons, 'vectors first: no filter leaves few; pools grow until enough pass'),
        )
    if len(exact) == 2 and least <= FEW:
        exact, reasons = (
            exact[::-1],
            (*reasons, 'statements first: so few are left that each can be measured'),
        )
    elif len(exact) == 2:
        reasons = (*reasons, 'place first: no other filter is known to leave few')
    if query.embedding is None:
        return Plan(exact, reasons)
    return Plan((*exact, 'vectors'), (*reasons, 'vectors last: every match is compared exactly'))


class QueryExecutor:
    """Finds and ranks the durable matches of queries.

    Parameters
    ----------
    store, index : QuerySource, SpatialIndex
        The statements and the index of places.
    vectors : VectorSearch or None
        The index of vectors; None: there is none.
    """

    def __init__(self, store: QuerySource, index: SpatialIndex, vectors: VectorSearch | None) -> None:
        self._store = store
        self._index = index
        self._vectors = vectors
        self._sources: dict[str, Source] = {
            'place': SpatialSource(store, index),
            'statements': StatementSource(store),
        }
        self._similar = None if vectors is None else SimilaritySource(vectors)
        if self._similar is not None:
            self._sources['vectors'] = self._similar

    def ranking(self, resolved: ResolvedQuery, wanted: int) -> Ranking:
        """Return the matches in order; of an order by vectors alone, at least as many as are wanted.

        Raises
        ------
        UnsupportedError
            It asks for vectors, and there are none.
        """
        query = resolved.query
        if query.embedding is not None and self._vectors is None:
            raise UnsupportedError('embedding: this memory has no index of vectors')
        # The newest sequence that every source has reached.
        seq = self._store.sequence if resolved.seq is None else min(resolved.seq, self._store.sequence)
        if query.near is not None:
            seq = min(seq, self._index.sequence)
        if query.embedding is not None and self._vectors is not None:
            seq = min(seq, self._vectors.sequence)
        plan = make_plan(resolved, self._store)
        if plan.steps[0] == 'vectors':
            matches, evidence = self._from_vectors(resolved, seq, plan, wanted)
        else:
            matches, evidence = self._narrowed(resolved, seq, plan, None)
        if len(matches) and any(getattr(matches, COLUMNS[name]) is None for name in resolved.weights):
            matches = self._sources['statements'].find(resolved, seq, matches).matches
        scores = score_matches(matches, resolved.weights, resolved.at_ns)
        found = rank_matches(matches, scores, query.min_score, seq)
        return replace(found, plan=plan.reasons, evidence=evidence)

    def _narrowed(
        self, resolved: ResolvedQuery, seq: int, plan: Plan, matches: MatchColumns | None
    ) -> tuple[MatchColumns, tuple[CandidateEvidence, ...]]:
        evidence = []
        for step in plan.steps:
            if step == 'vectors' and matches is not None and not len(matches):
                break
            found = self._sources[step].find(resolved, seq, matches)
            matches = found.matches
            evidence.append(found.evidence)
        assert matches is not None
        return matches, tuple(evidence)

    def _from_vectors(
        self, resolved: ResolvedQuery, seq: int, plan: Plan, wanted: int
    ) -> tuple[MatchColumns, tuple[CandidateEvidence, ...]]:
        """Search the most similar, and more of them until enough pass every filter.

        Equals at the end belong to the pool, since the index does not decide which of them comes first.
        """
        assert self._similar is not None
        rest = replace(plan, steps=plan.steps[1:])
        least = resolved.query.min_score or 0.0
        pool = max(wanted + 1, 10)
        tested: tuple[CandidateEvidence, ...]
        while True:
            found: SourceResult = self._similar.best(resolved, seq, pool)
            complete = len(found.matches) < pool
            matches, tested = found.matches, ()
            if rest.steps and len(matches):
                matches, tested = self._narrowed(resolved, seq, rest, matches)
            enough = len(matches) > wanted and _differs(matches, max(wanted, 1))
            below = len(found.matches) and found.matches.vector[-1] < least  # type: ignore[index]
            if complete or enough or below or pool > 100 * TOTAL_LIMIT:
                break
            pool *= _GROWTH
        evidence = replace(found.evidence, after_filter=len(matches))
        return replace(matches, lower_bound=not complete and not below), (evidence, *tested)


def _differs(matches: MatchColumns, wanted: int) -> bool:
    assert matches.vector is not None
    ordered = np.sort(matches.vector)[::-1]
    return bool(ordered[-1] < ordered[wanted - 1])
