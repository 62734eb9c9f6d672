"""A saved generation is taken only for the vectors, the space and the database that it is of."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.identity import require_ordering
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.index.vectors import VectorHits
from hylo_memory_ros.index.vectors.generation import embedding_digests
from hylo_memory_ros.model import EmbeddingSpace, MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

SPACE, DIMENSION, COUNT = 'clip@1', 16, 400
DERIVED = ('usearch', 'turbo_quant', 'provekv_pool')


def opened(path: Path, name: str = SPACE, **space: Any) -> MemoryService:
    declared = EmbeddingSpace(**{'dimension': DIMENSION, 'exact_up_to': 50, **space})
    config = MemoryConfig(embedding_spaces={name: declared})
    return MemoryService.open(f'sqlite:///{path}', config=config)


def fill(memory: MemoryService, name: str = SPACE, seed: int = 0) -> None:
    vectors = np.random.default_rng(seed).normal(size=(COUNT, DIMENSION)).tolist()
    memory.write(
        [
            MemoryItem(
                kind='semantic', key=f'k{number}', content='x', valid_from=1.0, embeddings={name: vector}
            )
            for number, vector in enumerate(vectors)
        ]
    )
    memory._core.indexes.vectors.wait_idle()


def generation(memory: MemoryService, name: str = SPACE) -> str:
    memory._core.indexes.vectors.wait_idle()
    return memory._core.indexes.vectors.generation(name)


def ask(memory: MemoryService) -> VectorHits:
    return memory._core.indexes.vectors.search(SPACE, [1.0] * DIMENSION, 10, at_ns=memory.now_ns())


def saved(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f'{path.name}.vectors-*.generation'))


@pytest.fixture(params=DERIVED)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'memory.db'


@pytest.fixture
def first(path: Path, backend: str) -> Iterator[str]:
    with opened(path, backend=backend) as memory:
        fill(memory)
        yield generation(memory)


def test_a_restart_takes_the_saved_generation(path: Path, backend: str, first: str) -> None:
    before = saved(path)[0].read_bytes()
    with _restarted(path, backend) as memory:
        assert generation(memory) == first
        assert ask(memory).evidence.generation_id == first
    assert saved(path)[0].read_bytes() == before


def _restarted(path: Path, backend: str, **space: Any) -> MemoryService:
    """Open a copy: the fixture still holds the lock of the first."""
    copy = path.parent / 'again'
    copy.mkdir()
    for file in path.parent.glob('memory.db*'):
        if not file.name.endswith('.lock'):
            shutil.copy(file, copy / file.name)
    return opened(copy / path.name, **{'backend': backend, **space})


@pytest.mark.parametrize('damage', ['cut', 'flipped', 'empty', 'foreign', 'header'])
def test_a_damaged_file_is_not_believed(path: Path, backend: str, first: str, damage: str) -> None:
    file = saved(path)[0]
    data = bytearray(file.read_bytes())
    changed = {
        'cut': bytes(data[: len(data) // 2]),
        'flipped': bytes(data[:-50]) + bytes([data[-50] ^ 1]) + bytes(data[-49:]),
        'empty': b'',
        'foreign': b'something else',
        'header': bytes(data).replace(b'"space": "clip@1"', b'"space": "clap@1"', 1),
    }
    file.write_bytes(changed[damage])

    with _restarted(path, backend) as memory:
        right = memory._core.indexes.vectors._spaces[SPACE].table
        hits = ask(memory)
        assert len(hits.version_rows) == 10
        assert len(right.slots) == COUNT
        assert generation(memory) != ''
        assert ask(memory).evidence.fallback == ''


@pytest.mark.parametrize('change', ['epoch', 'seed', 'ordering'])
def test_a_generation_of_something_else_is_rebuilt(
    path: Path, backend: str, first: str, change: str, tmp_path: Path
) -> None:
    if change == 'epoch':
        other = tmp_path / 'other' / 'memory.db'
        with opened(other, backend=backend) as memory:
            fill(memory)
            own = generation(memory)
            name = saved(other)[0]
        shutil.copy(saved(path)[0], name)
        with opened(other, backend=backend) as memory:
            assert generation(memory) not in {first, ''}
            assert own != first
        return
    if change == 'seed':
        space = {'quantization': 'f32'} if backend == 'usearch' else {'seed': 5}
        with _restarted(path, backend, **space) as memory:
            assert generation(memory) not in {first, ''}
        return
    other = tmp_path / 'other' / 'memory.db'
    with opened(other, backend=backend) as memory:
        fill(memory, seed=1)
        name = saved(other)[0]
    shutil.copy(saved(path)[0], name)
    with opened(other, backend=backend) as memory:
        assert generation(memory) not in {first, ''}


def test_a_purge_leaves_no_generation_that_holds_what_was_deleted(path: Path, backend: str) -> None:
    with opened(path, backend=backend) as memory:
        fill(memory)
        before, file = generation(memory), saved(path)[0]
        (record,) = [one for one in memory._core.store.reader.vector_records(SPACE) if one[0] == 8]
        assert record[2] in file.read_bytes()

        memory.purge(MemoryQuery(key='k7'))

        assert not file.exists()
        assert generation(memory) not in {before, ''}
        assert all(record[2] not in one.read_bytes() for one in saved(path))
        assert len(memory._core.indexes.vectors._spaces[SPACE].table.slots) == COUNT - 1


def test_a_restore_uses_no_generation_of_the_history_before(path: Path, backend: str, tmp_path: Path) -> None:
    with opened(path, backend=backend) as memory:
        fill(memory)
        before = generation(memory)
        memory.snapshot(str(tmp_path / 'copy.db'))
        memory.restore(str(tmp_path / 'copy.db'))

        assert generation(memory) not in {before, ''}
        assert len(ask(memory).version_rows) == 10


def test_a_generation_that_fails_is_dropped_and_the_answer_is_exact(path: Path, backend: str) -> None:
    with opened(path, backend=backend) as memory:
        fill(memory)
        searched = memory._core.indexes.vectors._spaces[SPACE]
        right = ask(memory).version_rows.tolist()
        assert searched.generation is not None
        object.__setattr__(searched.generation, 'codes', None)

        hits = ask(memory)

        assert hits.version_rows.tolist() == right
        assert hits.evidence.backend == 'exact'
        assert hits.evidence.exactness == 'exact_reference'
        assert 'failed' in hits.evidence.fallback
        assert hits.evidence.degradations
        assert generation(memory) != ''


def test_an_ordering_that_is_not_that_of_the_store_is_refused(path: Path, backend: str, first: str) -> None:
    with _restarted(path, backend) as memory:
        generation(memory)
        searched = memory._core.indexes.vectors._spaces[SPACE]
        records = memory._core.store.reader.vector_records(SPACE)
        held = searched.generation
        assert held is not None

        require_ordering(held.identity, embedding_digests(SPACE, searched.table.space, records))
        with pytest.raises(InvalidRequestError, match='ordering'):
            require_ordering(held.identity, embedding_digests(SPACE, searched.table.space, records[::-1]))
        with pytest.raises(InvalidRequestError, match='ordering'):
            require_ordering(held.identity, None)


def test_without_usearch_the_answer_is_exact_and_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('hylo_memory_ros.index.vectors.space_search.usearch_installed', lambda: False)
    with opened(path, backend='usearch') as memory:
        fill(memory)

        evidence = ask(memory).evidence

        assert evidence.backend == 'exact'
        assert 'usearch is not installed' in evidence.fallback


def test_below_the_limit_no_file_stays(path: Path, backend: str, first: str) -> None:
    with _restarted(path, backend, exact_up_to=COUNT) as memory:
        memory._core.indexes.vectors.wait_idle()
        assert memory.path is not None
        assert saved(memory.path) == []


def test_an_unwritable_directory_does_not_stop_the_search(
    path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr('hylo_memory_ros.index.vectors.artifact.Artifacts.save', refuse)
    with opened(path, backend=backend) as memory:
        fill(memory)

        assert generation(memory) != ''
        assert saved(path) == []
