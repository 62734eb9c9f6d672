"""What a search by vector must never do, for every backend, before and after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.index.vectors import VectorHits, VectorIndex, similarities_of
from hylo_memory_ros.model import EmbeddingSpace, MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

BACKENDS = ('exact', 'usearch', 'turbo_quant', 'provekv_pool')
DERIVED = BACKENDS[1:]
SPACE = 'clip@1'
COUNT, DIMENSION = 1500, 32


def some_vectors(count: int = COUNT) -> NDArray[np.float32]:
    rng = np.random.default_rng(11)
    centres = rng.normal(size=(20, DIMENSION))
    members = centres[rng.integers(0, 20, count)]
    return (members + 0.4 * rng.normal(size=(count, DIMENSION))).astype(np.float32)


def item(number: int, vector: Any, at: float | None = None) -> MemoryItem:
    return MemoryItem(
        kind='semantic',
        key=f'k{number}',
        content=f'thing {number}',
        valid_from=float(number + 1) if at is None else at,
        embeddings={SPACE: vector},
    )


class Memory:
    """A memory that can be restarted."""

    def __init__(self, path: Path, **space: Any) -> None:
        self.path = path
        self.now_ns = 10**13
        declared = EmbeddingSpace(**{'dimension': DIMENSION, 'exact_up_to': 50, **space})
        self.config = MemoryConfig(embedding_spaces={SPACE: declared})
        self.service = self._open()

    def _open(self) -> MemoryService:
        return MemoryService.open(f'sqlite:///{self.path}', config=self.config, clock=lambda: self.now_ns)

    def restart(self) -> None:
        self.service.close()
        self.service = self._open()
        self.index.wait_idle()

    def fill(self, vectors: NDArray[np.float32]) -> None:
        for start in range(0, len(vectors), 500):
            part = vectors[start : start + 500]
            self.service.write([item(start + place, vector) for place, vector in enumerate(part)])
        self.index.wait_idle()

    @property
    def index(self) -> VectorIndex:
        return self.service._core.indexes.vectors

    def search(self, vector: Any, k: int = 10, **options: Any) -> VectorHits:
        return self.index.search(SPACE, vector, k, **{'at_ns': self.now_ns, **options})

    def keys(self, hits: VectorHits) -> list[str]:
        rows = self.service._core.store.reader.fetch(hits.version_rows.tolist())
        return [rows[row][7] for row in hits.version_rows.tolist()]


@pytest.fixture(params=BACKENDS)
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / 'memory.db', backend=request.param)
    yield memory
    memory.service.close()


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    opened: list[Memory] = []

    def build(**space: Any) -> Memory:
        opened.append(Memory(tmp_path / 'memory.db', **space))
        return opened[-1]

    yield build
    for one in opened:
        one.service.close()


def backend_of(memory: Memory) -> str:
    return memory.config.embedding_spaces[SPACE].backend


def test_the_declared_backend_finds_what_is_most_similar(memory: Memory) -> None:
    vectors = some_vectors()
    memory.fill(vectors)

    for question in vectors[:30] + np.float32(0.05):
        hits = memory.search(question)
        right = np.argsort(-similarities_of('cosine', vectors, question))[:10] + 1
        assert len(set(hits.version_rows.tolist()) & set(right.tolist())) >= 9
        assert hits.version_rows[0] == right[0]
        assert (np.diff(hits.similarities) <= 0).all()
        assert hits.evidence.backend == backend_of(memory)
        assert hits.evidence.fallback == ''
        assert (hits.evidence.generation_id == '') == (backend_of(memory) == 'exact')
        assert hits.evidence.reranked >= (100 if backend_of(memory) in DERIVED else 10)


@pytest.mark.parametrize('quantization', ['f32', 'f16', 'i8'])
def test_a_graph_in_fewer_bits_finds_the_same(open_memory: Callable[..., Memory], quantization: str) -> None:
    memory = open_memory(backend='usearch', quantization=quantization)
    vectors = some_vectors()
    memory.fill(vectors)

    questions = vectors[:30] + np.float32(0.05)
    hits = [memory.search(question) for question in questions]

    assert {one.evidence.backend for one in hits} == {'usearch'}
    right = [np.argsort(-similarities_of('cosine', vectors, question))[:10] + 1 for question in questions]
    same = sum(len(np.intersect1d(one.version_rows, best)) for one, best in zip(hits, right, strict=True))
    assert same >= 297


@pytest.mark.parametrize('removal', ['forget', 'retract', 'purge'])
def test_what_is_gone_is_found_through_no_index_before_or_after_a_restart(
    memory: Memory, removal: str
) -> None:
    vectors = some_vectors()
    memory.fill(vectors)
    before = memory.now_ns
    memory.now_ns += 10**9
    getattr(memory.service, removal)(MemoryQuery(key='k5'))
    memory.now_ns += 10**9

    for _ in range(2):
        assert 'k5' not in memory.keys(memory.search(vectors[5], 50))
        if removal == 'forget':
            assert memory.keys(memory.search(vectors[5], 1, at_ns=before)) == ['k5']
        if removal == 'purge':
            assert 'k5' not in memory.keys(memory.search(vectors[5], 50, at_ns=None, seq=1))
        else:
            known = memory.service.sequence - 1
            assert memory.keys(memory.search(vectors[5], 1, at_ns=before, seq=known)) == ['k5']
        memory.index.wait_idle()
        assert 'k5' not in memory.keys(memory.search(vectors[5], 50))
        memory.restart()


def test_closed_items_never_use_up_the_pool(memory: Memory) -> None:
    vectors = some_vectors(600)
    same = np.tile(vectors[:1], (400, 1))
    memory.fill(np.concatenate([same, vectors]))
    # All of the nearest are closed but for the last: far more than any pool holds.
    memory.now_ns += 10**9
    memory.service.forget(MemoryQuery(keys=tuple(f'k{number}' for number in range(399))))
    memory.now_ns += 10**9

    hits = memory.search(vectors[0], 10)

    assert len(hits.version_rows) == 10
    assert set(memory.keys(hits)[:2]) == {'k399', 'k400'}


def test_as_many_are_returned_as_were_asked_for_also_of_identical_vectors(memory: Memory) -> None:
    memory.fill(np.tile(some_vectors(1), (200, 1)))

    hits = memory.search(some_vectors(1)[0], 200)

    assert sorted(hits.version_rows.tolist()) == list(range(1, 201))
    assert len(set(hits.similarities.tolist())) == 1
    # Equally similar: the newest first.
    assert hits.version_rows.tolist() == list(range(200, 0, -1))
    assert len(memory.search(some_vectors(1)[0], 500).version_rows) == 200
    assert not len(memory.search(some_vectors(1)[0], 0).version_rows)


def test_what_is_written_since_a_generation_is_found_at_once(memory: Memory) -> None:
    vectors = some_vectors()
    memory.fill(vectors)
    generation = memory.index.generation(SPACE)
    fresh = np.float32(30.0) * np.eye(DIMENSION, dtype=np.float32)
    memory.service.write([item(9000 + number, vector, 5.0) for number, vector in enumerate(fresh)])

    for number, vector in enumerate(fresh):
        hits = memory.search(vector, 1)
        assert memory.keys(hits) == [f'k{9000 + number}']
    assert memory.index.generation(SPACE) == generation
    if generation:
        assert hits.evidence.missing >= len(fresh)


def test_a_superseded_version_answers_only_for_its_time(memory: Memory) -> None:
    vectors = some_vectors()
    memory.fill(vectors)
    memory.service.write([item(3, -vectors[3], 1000.0).model_copy(update={'content': 'moved'})])

    assert 'k3' not in memory.keys(memory.search(vectors[3], 3, at_ns=2 * 10**12))
    assert memory.keys(memory.search(vectors[3], 1, at_ns=10 * 10**9)) == ['k3']
    assert memory.keys(memory.search(-vectors[3], 1, at_ns=2 * 10**12)) == ['k3']
    assert memory.keys(memory.search(vectors[3], 1, at_ns=2 * 10**12, seq=3)) == ['k3']


def test_a_subset_is_searched_exactly(memory: Memory) -> None:
    vectors = some_vectors()
    memory.fill(vectors)

    hits = memory.search(vectors[0], 5, version_rows=np.array([700, 3, 99_999, 41]))

    assert set(hits.version_rows.tolist()) == {3, 41, 700}
    assert hits.evidence.exactness == 'exact_reference'
    assert not len(memory.search(vectors[0], 5, version_rows=[]).version_rows)


@pytest.mark.parametrize('backend', DERIVED)
def test_up_to_the_limit_everything_is_compared(open_memory: Callable[..., Memory], backend: str) -> None:
    memory = open_memory(backend=backend, exact_up_to=COUNT)
    memory.fill(some_vectors())

    evidence = memory.search(some_vectors()[0]).evidence

    assert (evidence.backend, evidence.exactness, evidence.fallback) == ('exact', 'exact_reference', '')
    assert memory.index.generation(SPACE) == ''


@pytest.mark.parametrize('metric', ['cosine', 'dot', 'l2'])
@pytest.mark.parametrize('backend', DERIVED)
def test_every_metric_is_found_by_every_backend(
    open_memory: Callable[..., Memory], backend: str, metric: str
) -> None:
    memory = open_memory(backend=backend, metric=metric)
    vectors = some_vectors() * np.linspace(0.5, 2.0, COUNT, dtype=np.float32)[:, None]
    memory.fill(vectors)
    found = 0

    for question in vectors[:40] + np.float32(0.05):
        right = np.argsort(-similarities_of(metric, vectors, question))[:10] + 1
        hits = memory.search(question)
        assert hits.evidence.backend == backend
        found += len(set(hits.version_rows.tolist()) & set(right.tolist()))

    assert found >= 0.99 * 400


@pytest.mark.parametrize(
    ('space', 'vector', 'told'),
    [
        ('other@1', [1.0] * DIMENSION, 'not declared'),
        (SPACE, [1.0] * (DIMENSION - 1), f'has {DIMENSION}'),
        (SPACE, [float('nan')] * DIMENSION, 'finite'),
        (SPACE, [float('inf')] * DIMENSION, 'finite'),
        (SPACE, [0.0] * DIMENSION, 'no shorter'),
        (SPACE, [1e-14] * DIMENSION, 'no shorter'),
    ],
)
def test_a_question_that_is_no_vector_of_its_space_is_refused(
    open_memory: Callable[..., Memory], space: str, vector: list[float], told: str
) -> None:
    memory = open_memory()

    with pytest.raises(InvalidRequestError, match=told) as refused:
        memory.index.search(space, vector, 3)

    assert refused.value.details['space'] == space


@pytest.mark.parametrize(
    ('space', 'vector'), [('other@1', [1.0] * DIMENSION), (SPACE, [1.0] * (DIMENSION + 1))]
)
def test_a_write_of_a_vector_that_is_none_of_its_space_stores_nothing(
    open_memory: Callable[..., Memory], space: str, vector: list[float]
) -> None:
    memory = open_memory()
    good = item(0, [1.0] * DIMENSION)
    bad = MemoryItem(kind='semantic', key='bad', content='bad', embeddings={space: vector})

    with pytest.raises(InvalidRequestError, match=r'items\[1\]'):
        memory.service.write([good, bad])

    assert memory.service.sequence == 0
    assert memory.index.count(SPACE) == 0


def test_where_no_space_is_declared_the_first_vector_says_what_it_is(tmp_path: Path) -> None:
    first = MemoryItem(kind='semantic', key='a', content='a', embeddings={'x@1': [1.0, 2.0]})
    other = MemoryItem(kind='semantic', key='b', content='b', embeddings={'x@1': [1.0, 2.0, 3.0]})
    url = f'sqlite:///{tmp_path / "memory.db"}'
    with MemoryService.open(url) as memory:
        with pytest.raises(InvalidRequestError, match='the one before has 2'):
            memory.write([first, other])
        memory.write([first])
    with MemoryService.open(url) as memory:
        with pytest.raises(InvalidRequestError, match='has 2'):
            memory.write([other])
        assert memory._core.indexes.vectors.search('x@1', [2.0, 4.0], 1).similarities[0] == pytest.approx(1.0)
