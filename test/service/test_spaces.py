"""A space stays what it was declared as; an embedder fills in what is missing, and spoils nothing."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.tables import write_tables

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ConfigurationError, InvalidRequestError
from hylo_memory_ros.index.vectors.generation import embedding_digests
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
    monkeypatch.setattr('hylo_memory_ros.service.embedding_spaces.embedder_named', lambda _: embedder)
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


def test_a_text_is_compared_by_its_meaning_where_words_do_not_filter(
    tmp_path: Path, letters: Letters
) -> None:
    with opened(tmp_path, dimension=26, embedder='letters') as memory:
        memory.write([note('abba'), note('zz'), note('')])

        by_text = memory.query(MemoryQuery(text='bbaa', text_space='letters@1', k=1), receipt=True)
        by_vector = memory.query(
            MemoryQuery(embedding=('letters@1', letters.embed(['bbaa'])[0].tolist()), k=1)
        )
        words = memory.query(MemoryQuery(text='bbaa'))

        assert [(hit.item.content, hit.score) for hit in by_text] == [('abba', by_vector[0].score)]
        assert by_text.total == 2
        assert set(by_text[0].details) == {'vector'}
        assert len(words) == 0
        further = MemoryQuery(text='bbaa', text_space='letters@1', k=1, cursor=by_text.cursor)
        assert [hit.item.content for hit in memory.query(further)] == ['zz']
        assert memory.replay_receipt(by_text.receipt_id).same


def test_a_text_in_a_space_without_an_embedder_is_refused_by_name(tmp_path: Path) -> None:
    with opened(tmp_path, dimension=26) as memory:
        with pytest.raises(InvalidRequestError, match="'letters@1' has no embedder"):
            memory.query(MemoryQuery(text='ab', text_space='letters@1'))
        with pytest.raises(InvalidRequestError, match="'clip@9' has no embedder"):
            memory.query(MemoryQuery(text='ab', text_space='clip@9'))


@pytest.mark.parametrize('fields', [{}, {'text': 'ab', 'embedding': ('letters@1', (1.0, 0.0))}])
def test_a_text_space_takes_a_text_and_nothing_else(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match='text_space: expected a text'):
        MemoryQuery(text_space='letters@1', **fields)


@pytest.mark.parametrize('take', ['forget', 'retract', 'purge'])
def test_similarity_of_a_text_never_decides_what_is_taken_away(
    tmp_path: Path, letters: Letters, take: str
) -> None:
    with opened(tmp_path, dimension=26, embedder='letters') as memory:
        memory.write([note('abba')])
        with pytest.raises(InvalidRequestError, match='similarity never decides'):
            getattr(memory, take)(MemoryQuery(text='ab', text_space='letters@1'))
        assert len(memory.query(MemoryQuery())) == 1


def test_a_changed_model_is_refused_and_never_mixed(
    tmp_path: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, dimension=26, embedder='letters') as memory:
        memory.write([note('abba')])
    other = Letters('2')
    monkeypatch.setattr('hylo_memory_ros.service.embedding_spaces.embedder_named', lambda _: other)

    with pytest.raises(ConfigurationError, match='provider_digest') as refused:
        opened(tmp_path, dimension=26, embedder='letters')

    assert refused.value.details['parameter'] == 'space.letters@1.provider_digest'
    config = MemoryConfig(embedding_spaces={'letters@2': EmbeddingSpace(dimension=26, embedder='letters')})
    with MemoryService.open(f'sqlite:///{tmp_path / "memory.db"}', config=config) as memory:
        assert memory._core.indexes.vectors.count('letters@2') == 0


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
        assert memory._core.indexes.vectors.search('letters@1', [4.0, 6.0], 1).similarities.tolist() == [-5.0]


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


@pytest.mark.parametrize('metric', ['dot', 'l2'])
def test_eight_bits_for_vectors_of_any_length_are_no_configuration(metric: Any) -> None:
    with pytest.raises(ValueError, match='quantization'):
        EmbeddingSpace(dimension=2, metric=metric, backend='usearch', quantization='i8')


def test_a_vector_that_was_altered_in_the_file_is_reported(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.write([note('a', embeddings={'letters@1': [1.0, 2.0]})])
        assert memory.verify().ok
        write_tables(
            memory,
            lambda connection: connection.exec_driver_sql(
                "UPDATE embedding SET vector = x'0000803f0000803f'"
            ),
        )

        *_, problem = memory.verify().problems
        assert problem.endswith('its vector in letters@1 is not the one that was stored')


def identified(memory: MemoryService) -> str:
    """Return how a receipt names the first vector that a question finds."""
    result = memory.query(MemoryQuery(keys=('abba',)), receipt=True)
    return str(memory.receipt(result.receipt_id)['hits'][0]['embeddings']['letters@1'])


def test_receipts_name_vectors_as_generations_do(tmp_path: Path, letters: Letters) -> None:
    with opened(tmp_path, dimension=26, embedder='letters') as memory:
        memory.write([note('abba')])
        assertion, item_id, digest = memory._core.store.reader.vector_records('letters@1')[0]
        space = EmbeddingSpace(dimension=26, model='letters', provider_digest=letters.digest)

        told = identified(memory)

    ((_, embedding),) = embedding_digests('letters@1', space, [(assertion, item_id, digest)])
    assert told == str(embedding)


def test_who_leaves_out_what_the_file_keeps_names_vectors_alike(tmp_path: Path, letters: Letters) -> None:
    with opened(tmp_path, dimension=26, embedder='letters') as memory:
        memory.write([note('abba')])
        told = identified(memory)

    for space in ({}, {'dimension': 26}, {'dimension': 26, 'embedder': 'letters'}):
        with opened(tmp_path, **space) as memory:
            assert identified(memory) == told
