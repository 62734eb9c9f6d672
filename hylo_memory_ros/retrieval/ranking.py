"""Scoring and ordering of matches, with reciprocal rank fusion.

Scores are in [0, 1], higher is better, each with its parts by name. One order alone is scored by its
measure. Several are fused by reciprocal rank (Cormack, Clarke and Buettcher, 2009): each gives a match its
weight over 60 plus its rank, and the sum is divided by the greatest possible. Equal measures share a rank, so
that nothing but the query decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import CandidateEvidence, Hit, MemoryItem, MemoryQuery
from hylo_memory_ros.plugins import plugin_named
from hylo_memory_ros.retrieval.sources import COLUMNS, Floats, MatchColumns, Rows
from hylo_memory_ros.storage import QuerySource
from hylo_memory_ros.storage.statements.mapper import ItemRow

_VALID_FROM, _ID = 1, 8


RERANKERS_GROUP = 'hylo_memory_ros.rerankers'
Reranker = Callable[[MemoryQuery, Sequence[Hit]], Sequence[float]]
"""Returns a score from 0 to 1 for each hit, higher is better."""
RERANK_POOL = 100
"""So many of the best hits are reranked; a larger k reranks k of them."""
RRF_K = 60
"""Rank offset of reciprocal rank fusion."""
_DAY_NS = 86_400_000_000_000
# What counts unless the configuration or the query says otherwise.
_WEIGHTS: dict[str, float] = {
    'near': 1.0,
    'text': 1.0,
    'vector': 1.0,
    'recency': 0.0,
    'confidence': 0.0,
    'helpfulness': 0.0,
}


@dataclass(frozen=True, slots=True)
class Scores:
    """The score of each match, and its parts."""

    total: Floats
    """In [0, 1], shape (n,)."""
    parts: Mapping[str, Floats]
    """Each part by name, shape (n,): that of each order, `rrf` and `filter`."""


def weights_of(query: MemoryQuery, config: MemoryConfig) -> dict[str, float]:
    """Return the weight of each order that counts for a query, by its name."""
    measured = {'near': query.near, 'text': query.text, 'vector': query.embedding}
    weights: dict[str, float] = _WEIGHTS | dict(config.weights) | dict(query.weights)
    return {
        name: weight
        for name, weight in weights.items()
        if weight > 0.0 and measured.get(name, name) is not None
    }


def part_of(name: str, value: Floats | float, at_ns: int = 0) -> Floats:
    """Return the measure of one order as a score in [0, 1].

    Parameters
    ----------
    name : str
        ``near``: 1 / (1 + d / 1 m) of metres. ``text``: b / (1 + b) of b = -bm25.
        ``recency``: 1 / (1 + age / 1 day) of a ``valid_from``. ``vector``,
        ``confidence`` and ``helpfulness``: themselves.
    value : ndarray or float
        The measures.
    at_ns : int
        World time that ages count from.
    """
    measured = np.asarray(value, np.float64)
    if name == 'near':
        return np.asarray(1.0 / (1.0 + measured))
    if name == 'text':
        b = np.maximum(measured, 0.0)
        return np.asarray(b / (1.0 + b))
    if name == 'recency':
        return np.asarray(1.0 / (1.0 + np.maximum(at_ns - measured, 0.0) / _DAY_NS))
    return measured


def score_matches(matches: MatchColumns, weights: Mapping[str, float], at_ns: int) -> Scores:
    """Score the matches by the orders that count."""
    if not len(matches):
        return Scores(np.empty(0), {})
    parts = {}
    for name, field in COLUMNS.items():
        column = getattr(matches, field)
        if column is not None and (name in ('near', 'text', 'vector') or name in weights):
            parts[name] = part_of(name, column, at_ns)
    if not weights:
        total = np.ones(len(matches))
        return Scores(total, {'filter': total, **parts})
    if len(weights) == 1 and (alone := next(iter(weights))) in ('near', 'text', 'vector'):
        return Scores(parts[alone], parts)
    total = np.zeros(len(matches))
    for name, weight in weights.items():
        column = getattr(matches, COLUMNS[name])
        column = column if name == 'near' else -column
        # Equal values share the first of their ranks.
        ranks = np.searchsorted(np.sort(column), column, side='left') + 1.0
        total += weight / (RRF_K + ranks)
    total /= sum(weights.values()) / (RRF_K + 1)
    total = np.minimum(total, 1.0)
    return Scores(total, {**parts, 'rrf': total})


class RankedMatch(NamedTuple):
    """One candidate, with everything that orders it."""

    score: float
    details: Mapping[str, float]
    distance_m: float | None
    row: ItemRow | None
    item: MemoryItem | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """All matches in order; the order of equals, by id, needs whole items and is left to `page`."""

    matches: MatchColumns
    scores: Floats
    parts: Mapping[str, Floats]
    total: int
    """Number of matches."""
    seq: int
    """The sequence of the answer."""
    below_score: int = 0
    """Number of further matches with too low a score."""
    plan: tuple[str, ...] = ()
    evidence: tuple[CandidateEvidence, ...] = ()
    is_equal: NDArray[np.bool_] | None = None
    """Whether each match is equal to the one before it, ids aside."""

    def page(self, store: QuerySource, start: int, limit: int) -> list[RankedMatch]:
        """Return one page of the answer with whole items."""
        first, last = start, min(start + limit, len(self.matches))
        if start >= last:
            return []
        if self.is_equal is not None:
            # No two equals may lie on both sides of an end: their order, by id, is not known yet.
            while first > 0 and self.is_equal[first]:
                first -= 1
            while last < len(self.matches) and self.is_equal[last]:
                last += 1
        rows = self.matches.rows[first:last].tolist()
        fetched = store.fetch(rows)
        scores = self.scores[first:last].tolist()
        names = list(self.parts)
        columns = zip(*[self.parts[name][first:last].tolist() for name in names], strict=True)
        distance_m = self.matches.distance_m
        distances = [None] * len(rows) if distance_m is None else distance_m[first:last].tolist()
        found = [
            RankedMatch(score, dict(zip(names, parts, strict=True)), distance, fetched[row], None)
            for row, score, parts, distance in zip(rows, scores, columns, distances, strict=True)
            if row in fetched
        ]
        if not self.matches.sorted:
            found.sort(key=order_of)
        return found[start - first :][:limit]


def rank_matches(matches: MatchColumns, scores: Scores, least: float | None, seq: int) -> Ranking:
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


def rerank_hits(
    name: str, query: MemoryQuery, hits: Sequence[Hit]
) -> tuple[tuple[Hit, ...], CandidateEvidence]:
    """Order hits by the scores of a plug-in, equals as they were, and return the evidence of it.

    The former score of a hit is kept in ``details`` as ``before_rerank``.

    Raises
    ------
    InvalidRequestError
        No reranker has this name, it fails, or it does not return a score from 0 to 1 for each hit.
    """
    reranker: Reranker = plugin_named(RERANKERS_GROUP, name, 'rerank', {}, InvalidRequestError)
    try:
        scores = [float(score) for score in reranker(query, tuple(hits))]
    except Exception as exc:
        raise InvalidRequestError(f'rerank: the reranker {name!r} failed: {exc}', field='rerank') from exc
    if len(scores) != len(hits) or not all(0.0 <= score <= 1.0 for score in scores):
        raise InvalidRequestError(
            f'rerank: expected {len(hits)} scores from 0 to 1 from the reranker {name!r}, got {scores[:5]}',
            field='rerank',
        )
    ranked = [
        replace(hit, score=score, details={**hit.details, 'before_rerank': hit.score})
        for hit, score in zip(hits, scores, strict=True)
    ]
    ranked.sort(key=lambda hit: -hit.score)
    count = len(ranked)
    return tuple(ranked), CandidateEvidence(
        f'reranker {name}', requested=count, returned=count, after_filter=count, reranked=count
    )


def order_of(one: RankedMatch) -> tuple[float, float, int, str]:
    """Return the sort key of a candidate."""
    if one.row is not None:
        stamp_ns, name = one.row[_VALID_FROM], one.row[_ID]
    else:
        assert one.item is not None
        stamp_ns, name = one.item.valid_from_ns or 0, one.item.id or ''
    return (-one.score, one.distance_m or 0.0, -stamp_ns, name)
