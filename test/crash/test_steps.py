"""Killed before any step of an operation, a memory opens again with all that was acknowledged.

Steps are those of `support.nursery`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nursery import Nursery

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService


@pytest.fixture(scope='module')
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / 'folder'
    folder.mkdir()
    return folder


def fact(key: str, **fields: object) -> MemoryItem:
    return MemoryItem(kind='semantic', key=key, content=f'{key} zebra', valid_from=1, **fields)


def reopened(folder: Path) -> MemoryService:
    memory = MemoryService.open(f'sqlite:///{folder}/memory.db')
    report = memory.verify()
    assert report.ok, report.problems
    return memory


def test_the_first_start(nursery: Nursery, folder: Path) -> None:
    code = """
with MemoryService.open(url) as memory:
    for number in range(3):
        memory.write([fact(number)])
        acknowledge(f'k{number}')
    """
    for place, words in nursery.kill_along(folder, code):
        with reopened(place) as memory:
            for key in words[:3]:
                assert memory.query(MemoryQuery(key=key)).total == 1, words
            memory.write([fact('after')])
        assert sorted(file.name for file in place.iterdir()) == [
            'acknowledged',
            'memory.db',
            'memory.db.lock',
        ]


def test_a_start_after_a_kill(nursery: Nursery, folder: Path) -> None:
    nursery.run(folder, 'memory = MemoryService.open(url); memory.write([fact(0)]); os.kill(os.getpid(), 9)')
    assert (folder / 'memory.db-wal').exists()
    code = """
with MemoryService.open(url) as memory:
    memory.write([fact(1)])
    acknowledge('k1')
    """
    for place, words in nursery.kill_along(folder, code):
        with reopened(place) as memory:
            assert memory.query(MemoryQuery(key='k0')).total == 1
            assert memory.query(MemoryQuery(key='k1')).total >= ('k1' in words)


def test_a_restore(nursery: Nursery, folder: Path) -> None:
    with MemoryService.open(f'sqlite:///{folder}/memory.db') as memory:
        memory.write([fact('mug')])
        new = memory.snapshot(str(folder / 'copy.db'))
        memory.write([fact('cup')])
        old, epoch = memory.snapshot(), memory.epoch
    code = """
with MemoryService.open(url) as memory:
    memory.restore(str(folder / 'copy.db'))
    acknowledge('restored')
    """
    seen = set()
    for place, words in nursery.kill_along(folder, code):
        with reopened(place) as memory:
            assert memory.snapshot() in ({new} if 'restored' in words else {old, new}), words
            assert (memory.epoch == epoch) == (memory.snapshot() == old)
            seen.add(memory.snapshot())
            kept = list(place.glob('memory.db.before-restore-*'))
        assert len(kept) <= 1
        for file in kept:
            with MemoryService.open(f'sqlite:///{file}', read_only=True) as before:
                assert before.snapshot() == old
    assert seen == {old, new}


def test_a_purge(nursery: Nursery, folder: Path) -> None:
    with MemoryService.open(f'sqlite:///{folder}/memory.db') as memory:
        memory.write([fact('mug', label='cup'), MemoryItem(kind='semantic', key='kept', valid_from=1)])
    code = """
with MemoryService.open(url) as memory:
    memory.purge(MemoryQuery(key='mug'))
    acknowledge('purged')
    """
    for place, words in nursery.kill_along(folder, code):
        with reopened(place) as memory:
            assert memory.query(MemoryQuery(key='kept')).total == 1
            left = memory.query(MemoryQuery(key='mug')).total
            assert left <= ('purged' not in words)
            memory.purge(MemoryQuery(key='mug'))
        assert b'zebra' not in (place / 'memory.db').read_bytes()
