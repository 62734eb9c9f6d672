"""Killed before any step of an operation, a memory opens again with all that was acknowledged.

Steps are what reaches the file system or SQLite: opened files, renames, statements. A process that
has imported everything forks one child for each kill, and the child kills itself before step n.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.child import PRELUDE

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

# Every step takes minutes (a stride of 1 was tried); so many reach every part of an operation.
KILLS = 8

NURSERY = (
    PRELUDE
    + """
import signal, sqlite3

STEPS = {'open', 'os.rename', 'os.link', 'os.remove', 'os.mkdir', 'os.truncate', 'fcntl.flock'}
steps = 0

def step(last):
    global steps
    steps += 1
    if steps == last:
        os.kill(os.getpid(), signal.SIGKILL)

def arm(last):
    connect = sqlite3.connect

    def traced(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(lambda statement: step(last))
        return connection

    sqlite3.connect = traced
    sys.addaudithook(lambda event, arguments: event in STEPS and step(last))

def acknowledge(word):
    os.write(acknowledged, word.encode() + b' ')

with tempfile.TemporaryDirectory() as spare, MemoryService.open(f'sqlite:///{spare}/m.db') as memory:
    memory.write([fact(0)])

for line in sys.stdin:
    folder, code, last = json.loads(line)
    child = os.fork()
    if child == 0:
        folder = pathlib.Path(folder)
        url = f'sqlite:///{folder}/memory.db'
        acknowledged = os.open(folder / 'acknowledged', os.O_CREAT | os.O_WRONLY)
        arm(last)
        exec(code)
        acknowledge(f'done after {steps}')
        os._exit(0)
    _, status = os.waitpid(child, 0)
    tell(status)
"""
)


class Ended(NamedTuple):
    """How a child ended, and what it had acknowledged."""

    status: int
    words: list[str]


class Nursery:
    """The process that forks."""

    def __init__(self) -> None:
        command = [sys.executable, '-c', NURSERY]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, folder: Path, code: str, last: int = 0) -> Ended:
        """Run `code` in a child that is killed before step `last`; 0: never."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps((str(folder), code, last)) + '\n')
        self._process.stdin.flush()
        status = json.loads(self._process.stdout.readline())
        return Ended(status, (folder / 'acknowledged').read_text().split())

    def kill_along(self, origin: Path, code: str) -> Iterator[tuple[Path, list[str]]]:
        """Kill the same operation on fresh copies of a folder, earlier and later."""
        whole = self._copy(origin, 'whole')
        ended = self.run(whole, code)
        assert (ended.status, ended.words[-3:-1]) == (0, ['done', 'after'])
        steps = int(ended.words[-1])
        yield whole, ended.words
        for last in range(1, steps + 1, steps // KILLS + 1):
            folder = self._copy(origin, f'{last}')
            ended = self.run(folder, code, last)
            assert ended.status == 9, f'not killed at step {last} of {steps}'
            yield folder, ended.words

    @staticmethod
    def _copy(origin: Path, name: str) -> Path:
        return Path(shutil.copytree(origin, origin.with_name(f'{origin.name}-{name}')))

    def close(self) -> None:
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0


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
