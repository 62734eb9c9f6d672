"""Similarities and scores: higher is better, for every metric."""

from __future__ import annotations

import numpy as np
import pytest

from hylo_memory_ros.index.vectors import scores_of, similarities_of

METRICS = ('cosine', 'dot', 'l2')


@pytest.mark.parametrize('metric', METRICS)
def test_what_is_more_similar_has_the_higher_similarity_and_score(metric: str) -> None:
    question = np.array([1.0, 0.0], np.float32)
    near, far, opposite = [0.9, 0.1], [0.5, 0.8], [-1.0, 0.0]

    found = similarities_of(metric, np.array([near, far, opposite], np.float32), question)
    scores = scores_of(metric, found)

    assert found[0] > found[1] > found[2]
    assert scores[0] > scores[1] > scores[2]
    assert ((scores >= 0.0) & (scores <= 1.0)).all()


def test_scores_are_those_of_the_documentation() -> None:
    assert scores_of('cosine', np.array([1.0, 0.0, -1.0])).tolist() == [1.0, 0.5, 0.0]
    assert scores_of('l2', np.array([-0.0, -1.0, -3.0])).tolist() == [1.0, 0.5, 0.25]
    assert scores_of('dot', np.array([0.0, 1.0, -1.0])).tolist() == [0.5, 0.75, 0.25]


@pytest.mark.parametrize('metric', METRICS)
def test_equal_vectors_have_equal_similarities_whatever_they_are_compared_with(metric: str) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(100, 384)).astype(np.float32)
    question = rng.normal(size=384).astype(np.float32)
    repeated = np.concatenate([vectors, vectors[:7], vectors])

    found = similarities_of(metric, repeated, question)

    assert (found[:100] == found[107:]).all()
    assert (found[:7] == found[100:107]).all()
    assert (found[:1] == similarities_of(metric, vectors[:1], question)).all()


def test_a_cosine_does_not_leave_its_range() -> None:
    vector = np.full((1, 384), 1e-3, np.float32)

    assert similarities_of('cosine', vector, vector[0])[0] <= 1.0
