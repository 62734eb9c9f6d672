from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.score import pairwise_score

labels = st.lists(st.tuples(st.none() | st.sampled_from('abc'), st.integers(0, 3)), min_size=2, max_size=30)


@given(labels)
def test_the_score_is_that_of_all_pairs(pairs: list[tuple[str | None, int]]) -> None:
    score = pairwise_score([given for given, _ in pairs], [true for _, true in pairs])
    both = predicted = actual = 0
    for (one, one_true), (other, other_true) in combinations(pairs, 2):
        same = one is not None and one == other
        predicted += same
        actual += one_true == other_true
        both += same and one_true == other_true
    assert score.precision == (both / predicted if predicted else 1.0)
    assert score.recall == (both / actual if actual else 1.0)


def test_no_landmark_is_a_cluster_of_its_own() -> None:
    score = pairwise_score([None, None, 'a', 'a'], [1, 1, 2, 2])
    assert (score.precision, score.recall, score.landmarks, score.unassigned) == (1.0, 0.5, 1, 2)
    assert score.f1 == pytest.approx(2 / 3)


def test_nothing_in_common_is_zero() -> None:
    assert pairwise_score(['a', 'a', 'b', 'b'], [1, 2, 1, 2]).f1 == 0.0
