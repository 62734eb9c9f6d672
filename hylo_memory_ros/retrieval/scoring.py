"""Scores: higher is better, in [0, 1], each with its parts by name.

One order alone is scored by what it measures. Several are fused by reciprocal rank (Cormack,
Clarke and Buettcher, 2009): each gives a match its weight over 60 plus its rank, and the sum is
divided by the greatest possible. What measures the same shares a rank, so that nothing but the
question decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.retrieval.candidates import Floats, Matches, Rows

__all__ = ['RRF_K', 'Scores', 'orders_of', 'part_of', 'scored', 'weights_of']

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
    """The score of each match, and what it is made of."""

    total: Floats
    """In [0, 1], shape (n,)."""
    parts: Mapping[str, Floats]
    """Each part by name, shape (n,): that of each order, `rrf` and `filter`."""


def weights_of(query: MemoryQuery, config: MemoryConfig) -> dict[str, float]:
    """Return the weight of every order that a question asks for, by its name."""
    asked = {'near': query.near, 'text': query.text, 'vector': query.embedding}
    weights: dict[str, float] = _WEIGHTS | dict(config.weights) | dict(query.weights)
    return {name: weight if asked.get(name, name) is not None else 0.0 for name, weight in weights.items()}


def orders_of(weights: Mapping[str, float]) -> tuple[str, ...]:
    """Return the orders that count."""
    return tuple(name for name, weight in weights.items() if weight > 0.0)


def part_of(name: str, value: Floats | float, at_ns: int = 0) -> Floats:
    """Return what one order measured as a score in [0, 1].

    Parameters
    ----------
    name : str
        ``near``: 1 / (1 + d / 1 m) of metres. ``text``: b / (1 + b) of b = -bm25.
        ``recency``: 1 / (1 + age / 1 day) of a ``valid_from``. ``vector``,
        ``confidence`` and ``helpfulness``: themselves.
    value : ndarray or float
        What was measured.
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


def scored(matches: Matches, weights: Mapping[str, float], at_ns: int) -> Scores:
    """Score the matches by the orders that count."""
    if not len(matches):
        return Scores(np.empty(0), {})
    parts = {
        name: part_of(name, column, at_ns)
        for name, column in _measured(matches).items()
        if column is not None and (name in ('near', 'text', 'vector') or weights[name] > 0.0)
    }
    orders = orders_of(weights)
    if not orders:
        total = np.ones(len(matches))
        return Scores(total, {'filter': total, **parts})
    if len(orders) == 1 and orders[0] in ('near', 'text', 'vector'):
        return Scores(parts[orders[0]], parts)
    total = np.zeros(len(matches))
    better = _better(matches)
    for name in orders:
        total += weights[name] / (RRF_K + _ranks(better[name]))
    total /= sum(weights[name] for name in orders) / (RRF_K + 1)
    total = np.minimum(total, 1.0)
    return Scores(total, {**parts, 'rrf': total})


def _measured(matches: Matches) -> dict[str, Floats | None]:
    stamps = matches.valid_from_ns
    return {
        'near': matches.distance_m,
        'text': matches.text,
        'vector': matches.vector,
        'recency': None if stamps is None else stamps.astype(np.float64),
        'confidence': matches.confidence,
        'helpfulness': matches.helpfulness,
    }


def _better(matches: Matches) -> dict[str, Floats | Rows]:
    """Return, for each order, a column that is the smaller the better."""
    columns: dict[str, Floats | Rows | None] = {
        'near': matches.distance_m,
        'text': None if matches.text is None else -matches.text,
        'vector': None if matches.vector is None else -matches.vector,
        'recency': None if matches.valid_from_ns is None else -matches.valid_from_ns,
        'confidence': None if matches.confidence is None else -matches.confidence,
        'helpfulness': None if matches.helpfulness is None else -matches.helpfulness,
    }
    return {name: column for name, column in columns.items() if column is not None}


def _ranks(column: Floats | Rows) -> Floats:
    """Return ranks from 1; equal values share the first of theirs."""
    return np.searchsorted(np.sort(column), column, side='left').astype(np.float64) + 1.0
