"""Ranking of working memory among the durable matches.

Its items are scored like the others; the rank of one is that of the place it takes among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.model.feedback import NEVER_JUDGED
from hylo_memory_ros.retrieval.ranking import RRF_K, RankedMatch, Ranking, part_of
from hylo_memory_ros.retrieval.sources import COLUMNS
from hylo_memory_ros.storage.query.filters import distance_from
from hylo_memory_ros.storage.working_memory import WorkingMatches

NO_HISTORY = (
    'working memory keeps no history: of it only what it still holds answers, '
    'not what was replaced, evicted or taken away since'
)


def rank_working(
    items: Sequence[MemoryItem],
    query: MemoryQuery,
    weights: Mapping[str, float],
    ranking: Ranking | None,
    at_ns: int,
) -> list[RankedMatch]:
    """Score the items of working memory that match.

    Words have no rank there: where orders are fused such an item comes last among those of the words;
    alone, they filter.
    """
    fused = len(weights) > 1 or not weights.keys().isdisjoint(('recency', 'confidence', 'helpfulness'))
    found = []
    for item in items:
        measured = _measured(item, query)
        if query.embedding is not None and 'vector' not in measured:
            continue
        parts = {
            name: float(part_of(name, value, at_ns))
            for name, value in measured.items()
            if name in ('near', 'vector') or name in weights
        }
        if fused:
            score = parts['rrf'] = _fused(measured, weights, ranking)
        elif weights and (alone := next(iter(weights))) in parts:
            score = parts[alone]
        else:
            score = parts['filter'] = 1.0
        if score >= (query.min_score or 0.0):
            found.append(RankedMatch(score, parts, measured.get('near'), None, item))
    return found


def add_working_exclusions(excluded: Mapping[str, int], working: WorkingMatches) -> dict[str, int]:
    """Add the exclusions of working memory to those of the store.

    Reason ``working_keeps_no_history``: it came after the belief of the query, and what was there before
    is not known.
    """
    counts = {
        **excluded,
        'not_yet_valid': excluded.get('not_yet_valid', 0) + working.not_yet_valid,
        'working_keeps_no_history': working.not_yet_known,
    }
    return {reason: count for reason, count in sorted(counts.items()) if count}


def _measured(item: MemoryItem, query: MemoryQuery) -> dict[str, float]:
    measured = {
        'recency': float(item.valid_from_ns or 0),
        'confidence': item.confidence,
        'helpfulness': NEVER_JUDGED,
    }
    distance_m = distance_from(item, query)
    if distance_m is not None:
        measured['near'] = distance_m
    if query.embedding is not None:
        space, vector = query.embedding
        kept = item.embeddings.get(space)
        if kept is not None and len(kept) == len(vector):
            measured['vector'] = _cosine(kept, vector)
    return measured


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    one, other = np.asarray(first, np.float32), np.asarray(second, np.float32)
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


def _fused(
    measured: Mapping[str, float],
    weights: Mapping[str, float],
    ranking: Ranking | None,
) -> float:
    score = 0.0
    for name, weight in weights.items():
        column = None if ranking is None else getattr(ranking.matches, COLUMNS[name])
        before = 0 if column is None else len(column)
        if column is not None and name in measured:
            value = measured[name]
            before = int((column < value).sum() if name == 'near' else (column > value).sum())
        score += weight / (RRF_K + before + 1)
    return score / (sum(weights.values()) / (RRF_K + 1))
