"""Killed between a skill's file and its commit, directory and database agree again at the next opening."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from domain.skills.examples import skill
from support.nursery import Nursery

from hylo_memory_ros.domain.identity import content_bytes
from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.skill_directory import SET_ASIDE, file_name

# The child kills itself in the middle: before the n-th event of a kind that concerns a path or a statement.
KILL = """
import os, signal, sqlite3, sys

def kill_before(event, text, nth=1):
    seen = 0

    def look(what, told):
        nonlocal seen
        if what == event and text in told:
            seen += 1
            if seen == nth:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(lambda what, arguments: look(what, ' '.join(map(str, arguments))))
    for memory in memories:
        memory._core.store._transactions.database._writer.raw_connection().dbapi_connection.set_trace_callback(
            lambda statement: look('statement', statement)
        )

PAYLOAD = {'params': {'speed': 0.2}, 'api_surface': 'hylo.tools@v1', 'status': 'proposed'}

def skill(key):
    return MemoryItem(kind='skill', key=key, content=f'how to {key}', payload=PAYLOAD)

memories = [MemoryService.open(url)]
memory, = memories
"""


@pytest.fixture(scope='module')
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope='module')
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a memory of one verified skill, a copy of it, and a skill that the copy lacks."""
    folder = tmp_path_factory.mktemp('taught')
    with MemoryService.open(f'sqlite:///{folder}/memory.db') as memory:
        memory.write([skill()])
        memory.write([skill('verified')])
        memory.snapshot(str(folder / 'copy.db'))
        memory.write([skill(key='later')])
    return folder


@pytest.fixture
def folder(taught: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(taught, tmp_path / 'folder'))


def file_of(item: MemoryItem) -> str:
    return file_name(item.key or '', sha256(content_bytes(item)).digest())


def killed(nursery: Nursery, folder: Path, code: str) -> None:
    ended = nursery.run(folder, KILL + code)
    assert (ended.status, ended.words) == (9, [])


def agreed(folder: Path, *items: MemoryItem) -> tuple[str, ...]:
    """Hold the directory against the items that the memory must know; return what was set aside."""
    with MemoryService.open(f'sqlite:///{folder}/memory.db') as memory:
        assert memory.verify().problems == ()
        statuses = ('proposed', 'verified', 'refuted', 'deprecated')
        asked = MemoryQuery(kinds=['skill'], skill_status=statuses, include_invalidated=True)
        known = {(hit.item.key, hit.item.payload['status']) for hit in memory.query(asked)}
        assert known == {(item.key, item.payload['status']) for item in items}
        aside = tuple(name for name, _ in memory.skill_report.set_aside)
    names = {entry.name for entry in (folder / 'memory.db.skills').iterdir()}
    assert {name for name in names if SET_ASIDE not in name} == {*map(file_of, items), '.skills.lock'}
    return aside


HELD = (skill(), skill('verified'), skill(key='later'))


@pytest.mark.parametrize(
    ('point', 'stored'),
    [
        ("'open', '.json.new'", False),  # before the file
        ("'statement', 'COMMIT'", False),  # between the file and the commit
        ("'os.rename', '.json.new'", True),  # between the commit and the name
    ],
    ids=['before the file', 'before the commit', 'before the rename'],
)
def test_a_write(nursery: Nursery, folder: Path, point: str, stored: bool) -> None:
    code = f"kill_before({point})\nmemory.write([skill('fresh')])\nacknowledge('written')"
    killed(nursery, folder, code)
    assert agreed(folder, *HELD, *([skill(key='fresh')] if stored else [])) == ()


@pytest.mark.parametrize(
    'point',
    ["'os.remove', 'dock-', 1", "'os.remove', 'dock-', 2", "'statement', 'COMMIT'"],
    ids=['before the first file', 'between two files', 'before the commit'],
)
def test_a_purge(nursery: Nursery, folder: Path, point: str) -> None:
    code = f"kill_before({point})\nmemory.purge(MemoryQuery(key='dock'))\nacknowledge('purged')"
    killed(nursery, folder, code)
    assert agreed(folder, *HELD) == ()
    with MemoryService.open(f'sqlite:///{folder}/memory.db') as memory:
        assert memory.purge(MemoryQuery(key='dock')) == 2
    assert agreed(folder, skill(key='later')) == ()


@pytest.mark.parametrize(
    ('point', 'restored'),
    [
        ("'os.rename', '.json'", False),
        ("'os.rename', 'memory.db.restored'", False),
        ("'sqlite3.connect', 'memory.db?mode=rw'", True),
    ],
    ids=['before a file is set aside', 'before the swap', 'after the swap'],
)
def test_a_restore(nursery: Nursery, folder: Path, point: str, restored: bool) -> None:
    code = f"kill_before({point})\nmemory.restore(str(folder / 'copy.db'))\nacknowledge('restored')"
    killed(nursery, folder, code)
    assert agreed(folder, *(HELD[:2] if restored else HELD)) == ()


def test_an_opening_that_mends(nursery: Nursery, folder: Path) -> None:
    directory = folder / 'memory.db.skills'
    (directory / file_of(skill())).unlink()
    (directory / file_of(skill('verified'))).write_bytes(b'changed')
    (directory / file_of(skill(key='found'))).write_bytes(content_bytes(skill(key='found')))
    for event in ("'os.rename', 'dock-'", "'open', '.json.new'", "'os.rename', '.json.new'"):
        opening = KILL.replace(
            'memories = [MemoryService.open(url)]\nmemory, = memories\n', 'memories = []\n'
        )
        ended = nursery.run(folder, f'{opening}\nkill_before({event})\nMemoryService.open(url)')
        assert ended.status == 9
    agreed(folder, *HELD, skill(key='found'))
