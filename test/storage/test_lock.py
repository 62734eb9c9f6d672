"""What the lock tells of a holder that ended in disorder: only a file that lost something is refused."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ClockError, ConfigurationError, DamagedFileError, StoreBusyError
from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

WRITE = """
import os, sys
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.service import MemoryService
memory = MemoryService.open('sqlite:///' + sys.argv[1])
memory.write([MemoryItem(kind='semantic', key='mug', content='red')])
"""
# Nothing is closed, as after SIGKILL.
KILLED = WRITE + 'os._exit(0)'


def run(code: str, path: Path) -> None:
    subprocess.run([sys.executable, '-c', code, str(path)], check=False, capture_output=True)


def opened(path: Path, **how: object) -> MemoryService:
    return MemoryService.open(f'sqlite:///{path}', **how)  # type: ignore[arg-type]


def held(path: Path) -> list[str]:
    with opened(path) as memory:
        assert memory.verify().ok
        return [hit.item.content for hit in memory.query(MemoryQuery(key='mug'))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'memory.db'


def log(path: Path) -> Path:
    return path.with_name(path.name + '-wal')


@pytest.mark.parametrize(
    'code',
    [
        KILLED,
        WRITE,
        WRITE + 'raise ValueError',
        WRITE + "memory.snapshot(sys.argv[1] + '.copy')\n"
        'from hylo_memory_ros.storage import sqlite\n'
        'sqlite.swap_file = lambda *names: os._exit(0)\n'
        "memory.restore(sys.argv[1] + '.copy')",
        WRITE + "memory.snapshot(sys.argv[1] + '.copy')\n"
        'from hylo_memory_ros.storage import sqlite\n'
        'swap = sqlite.swap_file\n'
        'sqlite.swap_file = lambda *names: (swap(*names), os._exit(0))\n'
        "memory.restore(sys.argv[1] + '.copy')",
    ],
    ids=['killed', 'left open', 'failed', 'killed before the swap of a restore', 'killed after it'],
)
def test_a_holder_may_end_in_any_way(path: Path, code: str) -> None:
    run(code, path)
    assert held(path) == ['red']
    assert held(path) == ['red']


def test_a_killed_holder_may_be_followed_by_another(path: Path) -> None:
    run(KILLED, path)
    run(
        'import os, sys\n'
        'from hylo_memory_ros.service import MemoryService\n'
        'from hylo_memory_ros.storage import sqlite\n'
        'sqlite.Database = lambda *given, **named: os._exit(0)\n'
        "MemoryService.open('sqlite:///' + sys.argv[1])",
        path,
    )
    assert held(path) == ['red']


def test_another_program_may_empty_the_log_of_a_killed_holder(path: Path) -> None:
    run(KILLED, path)
    with closing(sqlite3.connect(path)) as other:
        other.execute('SELECT count(*) FROM version').fetchone()
    assert not log(path).exists()
    assert held(path) == ['red']


def test_a_refused_opening_costs_nothing(path: Path) -> None:
    with opened(path, clock=lambda: 2 * 10**18) as memory:
        memory.write([MemoryItem(kind='semantic', key='mug', content='red')])
    with pytest.raises(ClockError):
        opened(path, clock=lambda: 10**18)
    with pytest.raises(ConfigurationError):
        opened(path, config=MemoryConfig(identity_scope=('robot_id',)))
    with opened(path, clock=lambda: 10**18, config=MemoryConfig(accept_older_clock=True)) as memory:
        assert len(memory.query(MemoryQuery(key='mug'))) == 1


@pytest.mark.parametrize('lost', ['log', 'log and index', 'end of the log'])
def test_lost_commits_are_told_and_everything_is_left(path: Path, lost: str) -> None:
    run(KILLED, path)
    if lost == 'end of the log':
        log(path).write_bytes(log(path).read_bytes()[:-1000])
    else:
        log(path).unlink()
    if lost != 'log':
        path.with_name(path.name + '-shm').unlink()
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(DamagedFileError, match=r'memory\.db-wal.* gone.*memory\.db\.lock'):
            opened(path)
    assert path.read_bytes() == before
    path.with_name(path.name + '.lock').unlink()
    assert held(path) == []


def test_a_restore_waits_for_nobody_who_reads_an_older_state(path: Path, tmp_path: Path) -> None:
    with opened(path) as memory:
        memory.write([MemoryItem(kind='semantic', key='mug', content='red')])
        memory.snapshot(str(tmp_path / 'copy.db'))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute('BEGIN')
            other.execute('SELECT count(*) FROM version').fetchone()
            memory.write([MemoryItem(kind='semantic', key='mug', content='blue')])
            with pytest.raises(StoreBusyError):
                memory.restore(str(tmp_path / 'copy.db'))
            assert [hit.item.content for hit in memory.query(MemoryQuery(key='mug'))] == ['blue']
            other.execute('COMMIT')
            memory.restore(str(tmp_path / 'copy.db'))
            # What the other program still holds is the file before.
            assert other.execute('SELECT count(*) FROM txn').fetchone() == (2,)
            memory.write([MemoryItem(kind='semantic', key='mug', content='green')])
        assert memory.verify().ok
    assert held(path) == ['green']
