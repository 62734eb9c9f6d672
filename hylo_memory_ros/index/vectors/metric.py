"""Similarity metrics (cosine, dot product, Euclidean) and their scores in [0, 1].

=========  =========================  ==============================
metric     similarity                 score in [0, 1]
=========  =========================  ==============================
cosine     cosine c in [-1, 1]        (1 + c) / 2
dot        inner product p            (1 + p / (1 + abs(p))) / 2
l2         minus the distance, -d     1 / (1 + d)
=========  =========================  ==============================

``min_score`` is a threshold on the score: for cosine 0.5 is a right angle, 1.0 the same direction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model.embedding import Metric


def similarities_of(
    metric: Metric,
    vectors: NDArray[np.float32],
    query: NDArray[np.float32],
    lengths: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Compare vectors with a query, each on its own in double precision.

    Parameters
    ----------
    metric : 'cosine', 'dot' or 'l2'
    vectors : ndarray, shape (n, d), float32
    query : ndarray, shape (d,), float32
    lengths : ndarray, shape (n,), float64, optional
        Of the vectors, as `lengths_of` returns them; computed here if not given.

    Returns
    -------
    ndarray, shape (n,), float64
        Higher is more similar; equal vectors have equal similarities, whatever they are compared with.

    Examples
    --------
    >>> similarities_of('l2', np.float32([[3, 4], [0, 1]]), np.float32([0, 0])).tolist()
    [-5.0, -1.0]
    """
    wide, center = vectors.astype(np.float64), query.astype(np.float64)
    if metric == 'l2':
        wide -= center
        return _floats(-np.sqrt(np.einsum('ij,ij->i', wide, wide)))
    products = _floats(np.einsum('ij,j->i', wide, center))
    if metric == 'dot':
        return products
    if lengths is None:
        lengths = lengths_of(wide)
    return _floats(np.clip(products / (lengths * np.sqrt(center @ center)), -1.0, 1.0))


def lengths_of(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Return the lengths of vectors, shape (n, d), each on its own in double precision."""
    wide = vectors.astype(np.float64, copy=False)
    return _floats(np.sqrt(np.einsum('ij,ij->i', wide, wide)))


def _floats(values: Any) -> NDArray[np.float64]:
    found: NDArray[np.float64] = values
    return found


def scores_of(metric: Metric, similarities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores of similarities, in [0, 1], higher is better.

    Examples
    --------
    >>> scores_of('cosine', np.array([1.0, 0.0, -1.0])).tolist(), scores_of('l2', np.array([-1.0])).tolist()
    ([1.0, 0.5, 0.0], [0.5])
    """
    if metric == 'cosine':
        return (1.0 + similarities) / 2.0
    if metric == 'l2':
        return 1.0 / (1.0 - similarities)
    return (1.0 + similarities / (1.0 + np.abs(similarities))) / 2.0


def rank_estimates(
    metric: Metric, products: NDArray[Any], norms: NDArray[Any], query_norm: float
) -> NDArray[Any]:
    """Rank by a metric from inner products: similarities up to a term that is equal for all vectors.

    Parameters
    ----------
    products : ndarray, shape (n,)
        Inner products of the vectors with the query.
    norms : ndarray, shape (n,)
        Lengths of the vectors.
    query_norm : float
        Length of the query.
    """
    if metric == 'dot':
        return products
    ranked: NDArray[Any] = 2.0 * products - norms * norms
    if metric == 'cosine':
        ranked = products / (norms * query_norm)
    return ranked
