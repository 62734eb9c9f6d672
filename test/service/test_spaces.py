"""A space stays what it was declared as; an embedder fills in what is missing, and spoils nothing."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ConfigurationError, InvalidRequestError
from hylo_memory_ros.model import EmbeddingSpace, MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService


class Letters:
    """An embedder that counts letters: small, real, and wholly predictable."""

    model = 'letters'
    dimension = 26

    def __init__(self, release: str = '1') -> None:
        self.digest = f'sha256:{sha256(release.encode()).hexdigest()}'
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        counts = [[1e-3 + text.lower().count(chr(97 + place)) for place in range(26)] for text in texts]
        return np.array(counts, np.float32).reshape(-1, 26)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> Letters:
    embedder = Letters()
    monkeypatch.setattr('hylo_memory_ros.service.spaces.embedder_named', lambda _: embedder)
    return embedder


def opened(path: Path, **space: Any) -> MemoryService:
    config = MemoryConfig(embedding_spaces={'letters@1': EmbeddingSpace(**space)}) if space else None
    return MemoryService.open(f'sqlite:///{path / "memory.db"}', config=config)


def note(text: str, **fields: Any) -> MemoryItem:
    return MemoryItem(kind='semantic', key=text or 'none', content=text, **fields)


def test_contents_are_embedded_once_and_what_came_along_stays(tmp_path: Path, letters: Letters) -> None:
    own = [0.0] * 25 + [1.0]
    with opened(tmp_path, dimension=26, embedder='letters') as memory:
        memory.write([note('abba'), note('zz', embeddings={'letters@1': own}), note('')])
        memory.write([note('abba')])

        hits = memory.query(MemoryQuery(embedding=('letters@1', letters.embed(['ab'])[0].tolist())))

        assert [hit.item.content for hit in hits] == ['abba', 'zz']
        assert hits[1].item.embeddings['letters@1'] == tuple(own)
    assert letters.asked == ['abba', 'ab']


def test_a_changed_model_is_refused_and_never_mixed(
    tmp_path: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, dimension=26, embedder='letters') as memory:
        memory.write([note('abba')])
    other = Letters('2')
    monkeypatch.setattr('hylo_memory_ros.service.spaces.embedder_named', lambda _: other)

    with pytest.raises(ConfigurationError, match='provider_digest') as refused:
        opened(tmp_path, dimension=26, embedder='letters')

    assert refused.value.details['parameter'] == 'space.letters@1.provider_digest'
    config = MemoryConfig(embedding_spaces={'letters@2': EmbeddingSpace(dimension=26, embedder='letters')})
    with MemoryService.open(f'sqlite:///{tmp_path / "memory.db"}', config=config) as memory:
        assert memory._mirroring.vectors.count('letters@2') == 0


@pytest.mark.parametrize(
    ('space', 'field'),
    [
        ({'dimension': 3}, 'dimension'),
        ({'dimension': 2, 'metric': 'l2'}, 'metric'),
        ({'dimension': 2, 'model': 'other'}, 'model'),
        ({'dimension': 2, 'provider_digest': 'sha256:' + '0' * 64}, 'provider_digest'),
    ],
)
def test_a_space_that_is_declared_otherwise_is_refused_by_name(
    tmp_path: Path, space: dict[str, Any], field: str
) -> None:
    told = {'dimension': 2, 'model': 'clip', 'provider_digest': 'sha256:' + 'a' * 64}
    opened(tmp_path, **told).close()

    with pytest.raises(ConfigurationError, match=f"'letters@1': {field}"):
        opened(tmp_path, **space)


def test_what_was_undeclared_is_declared_only_as_its_vectors_are(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.write([note('a', embeddings={'letters@1': [1.0, 2.0]})])

    with pytest.raises(ConfigurationError, match='dimension 3'):
        opened(tmp_path, dimension=3)
    opened(tmp_path, dimension=2).close()


def test_a_file_remembers_its_spaces_for_who_declares_none(tmp_path: Path) -> None:
    opened(tmp_path, dimension=2, metric='l2').close()

    with opened(tmp_path) as memory:
        memory.write([note('a', embeddings={'letters@1': [1.0, 2.0]})])
        with pytest.raises(InvalidRequestError, match='not declared'):
            memory.write([note('b', embeddings={'other@1': [1.0, 2.0]})])
        assert memory._mirroring.vectors.search('letters@1', [4.0, 6.0], 1).similarities.tolist() == [-5.0]


@pytest.mark.parametrize(
    ('space', 'told'),
    [
        ({'dimension': 27, 'embedder': 'letters'}, 'has 26'),
        (
            {'dimension': 26, 'embedder': 'letters', 'provider_digest': 'sha256:' + '0' * 64},
            'provider_digest',
        ),
    ],
)
def test_an_embedder_that_does_not_fit_its_space_is_refused(
    tmp_path: Path, letters: Letters, space: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        opened(tmp_path, **space)


@pytest.mark.parametrize('bad', ['nan', 'zero', 'shape', 'raises'])
def test_an_embedder_that_fails_stores_nothing(
    tmp_path: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        if bad == 'raises':
            raise RuntimeError('out of memory')
        shape = (len(texts), 25 if bad == 'shape' else 26)
        return np.full(shape, {'nan': np.nan, 'zero': 0.0}.get(bad, 1.0), np.float32)

    monkeypatch.setattr(letters, 'embed', embed)
    with opened(tmp_path, dimension=26, embedder='letters') as memory:
        with pytest.raises(InvalidRequestError, match="embedder of 'letters@1' failed"):
            memory.write([note('abba')])
        assert memory.sequence == 0


@pytest.mark.parametrize('backend', ['usearch', 'turbo_quant', 'provekv_pool'])
def test_a_derived_backend_without_exact_rerank_is_no_configuration(backend: str) -> None:
    with pytest.raises(ValueError, match='exact_rerank'):
        EmbeddingSpace(dimension=2, backend=backend, exact_rerank=False)


def test_a_pool_smaller_than_ten_times_k_is_no_configuration() -> None:
    with pytest.raises(ValueError, match='pool_factor'):
        EmbeddingSpace(dimension=2, backend='usearch', pool_factor=9)


def test_a_vector_that_was_altered_in_the_file_is_reported(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.write([note('a', embeddings={'letters@1': [1.0, 2.0]})])
        assert memory.verify().ok
        memory.side_write(
            lambda connection: connection.exec_driver_sql("UPDATE embedding SET vector = x'0000803f0000803f'")
        )

        (problem,) = memory.verify().problems
        assert problem.endswith('its vector in letters@1 is not the one that was stored')
