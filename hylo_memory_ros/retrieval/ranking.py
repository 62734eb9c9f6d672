"""Scores: higher is better, in [0, 1], each with its parts by name."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ['fused_scores', 'near_score', 'text_score']

RRF_K = 60
"""Rank offset of reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009)."""


def near_score(distance_m: float) -> float:
    """Return 1 / (1 + d / 1 m)."""
    return 1.0 / (1.0 + distance_m)


def text_score(rank: float) -> float:
    """Return b / (1 + b) of b = -bm25, which grows with the match."""
    rank = max(rank, 0.0)
    return rank / (1.0 + rank)


def fused_scores(*orders: Sequence[int]) -> dict[int, float]:
    """Fuse rankings of the same things by reciprocal rank, divided by the greatest possible sum.

    Parameters
    ----------
    *orders : sequences of int
        The same things, best first in each.

    Examples
    --------
    >>> fused_scores([7, 8], [7, 8])[7]
    1.0
    """
    most = len(orders) / (RRF_K + 1)
    scores: dict[int, float] = {}
    for order in orders:
        for rank, thing in enumerate(order, start=1):
            scores[thing] = scores.get(thing, 0.0) + 1.0 / (RRF_K + rank) / most
    return scores
