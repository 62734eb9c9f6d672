"""How much of each kind is at hand is counted by the database, whatever adds to it or takes away."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.tables import read_tables

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.consolidation.candidates import KindSize, miscounted


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryService]:
    with MemoryService.open(f'sqlite:///{tmp_path / "memory.db"}') as opened:
        yield opened


def fact(key: str, content: str = 'x', **fields: object) -> MemoryItem:
    return MemoryItem(**{'kind': 'semantic', 'key': key, 'content': content, 'valid_from': 1, **fields})


def held(memory: MemoryService) -> dict[str, KindSize]:
    assert read_tables(memory, miscounted) == []
    with memory.read() as view:
        return view.sizes.held_by_kind()


def test_every_accepted_write_counts_with_its_bytes_and_vectors(memory: MemoryService) -> None:
    assert held(memory) == {}
    memory.write([fact('a', 'é' * 100), fact('b', kind='episodic', payload={'list': [1, 2, 3]})])
    first = held(memory)
    assert {kind: one.items for kind, one in first.items()} == {'semantic': 1, 'episodic': 1}
    assert 600 <= first['semantic'].bytes < 700
    memory.write([fact('c', embeddings={'space@1': (1.0, 0.0, 0.0, 0.0)})])
    assert held(memory)['semantic'].bytes - first['semantic'].bytes in range(417, 520)


def test_nothing_but_a_purge_takes_it_away(memory: MemoryService) -> None:
    memory.write([fact('a', embeddings={'space@1': (1.0, 0.0)}), fact('b'), fact('b', 'other', valid_from=2)])
    full = held(memory)
    memory.forget(MemoryQuery(key='b'))
    memory.retract(MemoryQuery(key='a'))
    assert held(memory) == full
    memory.purge(MemoryQuery(key='a'))
    assert held(memory)['semantic'].items == 2
    memory.purge(MemoryQuery(key='b'))
    assert held(memory) == {}


def test_a_write_that_comes_to_nothing_leaves_the_counts(memory: MemoryService) -> None:
    memory.write([fact('a')])
    before = held(memory)
    memory.write([fact('b')], dry_run=True)
    with pytest.raises(ValueError, match='no matter'):
        memory.write([fact('c')], within=refused)
    assert held(memory) == before


def refused(*_: object) -> None:
    raise ValueError('no matter')


def test_a_copy_counts_the_same_and_a_restore_too(memory: MemoryService, tmp_path: Path) -> None:
    memory.write([fact('a'), fact('b')])
    before = held(memory)
    memory.snapshot(str(tmp_path / 'copy.db'))
    memory.write([fact('c')])
    memory.restore(str(tmp_path / 'copy.db'))
    assert held(memory) == before


def test_verify_finds_a_count_that_was_tampered_with(memory: MemoryService) -> None:
    memory.write([fact('a')])
    assert memory.path is not None
    with closing(sqlite3.connect(memory.path)) as other, other:
        other.execute('UPDATE held SET statements = 5')
    (problem,) = memory.verify().problems
    assert problem.startswith('held: semantic is counted as (5, ')
