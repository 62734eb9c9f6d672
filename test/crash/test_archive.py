"""Killed before any step of a move to the archive or back, the next opening answers the same.

Steps are those of `support.nursery`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nursery import Nursery

from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

NOW_NS = 1000 * 10**9
# Of each operation: together they take as long as any other test of kills.
KILLS = 5


@pytest.fixture(scope='module')
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def opened(folder: Path) -> MemoryService:
    return MemoryService.open(f'sqlite:///{folder}/memory.db', clock=lambda: NOW_NS)


def told(memory: MemoryService) -> Any:
    """Return answers of every kind, and what must not change with them."""
    near = (Pose(frame_id='map', position=(0.0, 0.0, 0.0)), 3.0)
    questions = [
        MemoryQuery(key='mug'),
        MemoryQuery(key='mug', as_of=3),
        MemoryQuery(near=near, include_invalidated=True, k=100),
        MemoryQuery(text='zebra', as_of=150, k=100),
        MemoryQuery(text='zebra'),
        MemoryQuery(known_seq=1, kinds=['semantic', 'episodic'], k=100),
    ]
    answers = [(tuple(result), result.total, result.excluded) for result in map(memory.query, questions)]
    manifest = {**memory.manifest(), 'epoch': ''}
    return answers, memory.history(key='mug'), memory.changes().changes, manifest, memory.sequence


@pytest.fixture(scope='module')
def living(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a memory of which much has ended."""
    folder = tmp_path_factory.mktemp('lived') / 'folder'
    folder.mkdir()
    with opened(folder) as memory:
        pose = Pose(frame_id='map', position=(1.0, 0.0, 0.0))
        memory.write(
            [
                MemoryItem(
                    kind='semantic', key='mug', content=f'red {n}', valid_from=n, pose=pose, entities=('ann',)
                )
                for n in range(1, 9)
            ]
        )
        memory.write(
            [MemoryItem(kind='episodic', content=f'zebra {n}', valid_from=100 + n) for n in range(9)]
        )
        memory.forget(MemoryQuery(text='zebra'))
    return folder


@pytest.fixture
def lived(living: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(living, tmp_path / 'folder'))


@pytest.fixture
def archive(lived: Path) -> Path:
    """Return the folder of the same memory, all that may be in the archive file there."""
    folder = Path(shutil.copytree(lived, lived.with_name('archive')))
    with opened(folder) as memory:
        assert memory._core.store.archive.move(range(1, 20)).assertions == 15
    return folder


OPEN = 'with MemoryService.open(url, clock=lambda: 1000 * 10**9) as memory:\n    '


def check(folder: Path, expected: Any) -> None:
    with opened(folder) as memory:
        assert told(memory) == expected
        report = memory.verify()
        assert report.ok, report.problems
        # What was begun is finished: there is nothing in the archive file but what is archived.
        memory._core.store.archive.move(range(1, 20))
        assert told(memory) == expected
    names = {file.name for file in folder.iterdir()} - {'acknowledged', 'memory.db.lock'}
    assert names == {'memory.db', 'memory.db.archive'}


def test_a_move_there(nursery: Nursery, lived: Path) -> None:
    with opened(lived) as memory:
        expected = told(memory)
    code = (
        OPEN
        + 'while memory._core.store.archive.move(range(1, 20), limit=4).assertions: acknowledge("archived")'
    )
    for place, _ in nursery.kill_along(lived, code, KILLS):
        check(place, expected)


def test_a_move_back(nursery: Nursery, archive: Path) -> None:
    with opened(archive) as memory:
        expected = told(memory)
    code = f'{OPEN}memory._core.store.archive.restore(range(1, 20), limit=100); acknowledge("restored")'
    for place, _ in nursery.kill_along(archive, code, KILLS):
        check(place, expected)


def test_a_write_to_an_archived_past(nursery: Nursery, archive: Path) -> None:
    code = OPEN + (
        'memory.write([MemoryItem(kind="semantic", key="mug", content="late", valid_from=2.5)]); '
        'acknowledge("late")'
    )
    with opened(archive) as memory:
        before = told(memory)
    outcomes = set()
    for place, words in nursery.kill_along(archive, code, KILLS):
        with opened(place) as memory:
            late = memory.query(MemoryQuery(key='mug', as_of=2.7))[0].item.content
            assert late in ({'late'} if 'late' in words else {'late', 'red 2'})
            outcomes.add(late)
            expected = told(memory)
            assert (expected == before) == (late == 'red 2')
        check(place, expected)
    assert outcomes == {'late', 'red 2'}


def test_a_purge_of_archived_statements(nursery: Nursery, archive: Path) -> None:
    code = f'{OPEN}memory.purge(MemoryQuery(text="zebra")); acknowledge("purged")'
    for place, words in nursery.kill_along(archive, code, KILLS):
        with opened(place) as memory:
            left = memory.query(MemoryQuery(text='zebra', include_invalidated=True)).total
            assert left in ({0} if 'purged' in words else {0, 9})
            memory.purge(MemoryQuery(text='zebra'))
            assert memory.verify().ok
        for name in ('memory.db', 'memory.db.archive'):
            assert b'zebra' not in (place / name).read_bytes()


def test_a_restore_over_it(nursery: Nursery, archive: Path, tmp_path: Path) -> None:
    with opened(archive) as memory:
        before = told(memory)
        copy = tmp_path / 'copy.db'
        memory.snapshot(str(copy))
    code = f'{OPEN}memory.restore({str(copy)!r}); acknowledge("restored")'
    for place, words in nursery.kill_along(archive, code, KILLS):
        with opened(place) as memory:
            after = told(memory)
            assert after[0] == before[0]
            assert ('restore' in [change.op for change in after[2]]) >= ('restored' in words)
            assert memory.verify().ok
            memory._core.store.archive.move(range(1, 20))
            assert told(memory)[0] == before[0]
        for kept in place.glob('memory.db.before-restore-*'):
            if kept.suffix != '.archive':
                with MemoryService.open(f'sqlite:///{kept}', read_only=True, clock=lambda: NOW_NS) as memory:
                    assert told(memory) == before
