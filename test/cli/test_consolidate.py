"""`consolidate`, `consolidations`, `revert-consolidation`: on a file that nobody else writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.service import MemoryService

from .conftest import Run

NOW_NS = 2 * 10**18


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / 'memory.db'
    seen = [
        MemoryItem(kind='episodic', content='saw mug', valid_from=1000 + number, scope={'robot_id': 'r1'})
        for number in range(6)
    ]
    with MemoryService.open(f'sqlite:///{path}', clock=lambda: NOW_NS) as memory:
        memory.write(seen)
    return path


def test_a_file_is_brought_within_a_budget_and_back(run: Run, path: Path) -> None:
    before = run('snapshot', path).out
    answer = run('consolidate', path, '--items', '1')
    assert (answer.code, answer.err) == (0, '')
    assert answer.out.startswith('consolidation/1\nitems: 6 -> 1\n')
    assert 'merged: 6 statements into 1' in answer.out
    assert 'moved into the archive: 6 statements' in answer.out
    assert run('verify', path).code == 0
    assert run('query', path).out.count('saw mug') == 1
    assert '1 merged, 0 summarized, 6 aged' in run('consolidations', path).out
    answer = run('revert-consolidation', path, 'consolidation/1')
    assert answer.out.startswith('consolidation/1: 6 statements hold again\ntaken out: 1 summaries\n')
    assert run('snapshot', path).out.split()[0] == before.split()[0]
    assert 'reverted' in run('consolidations', path).out
    answer = run('revert-consolidation', path, 'consolidation/1')
    assert (answer.code, 'reverted before' in answer.err) == (1, True)


def test_a_dry_run_is_told_also_beside_a_writer_and_a_run_is_refused_there(run: Run, path: Path) -> None:
    held = path.read_bytes()
    with MemoryService.open(f'sqlite:///{path}', clock=lambda: NOW_NS):
        (dry,) = run('consolidate', path, '--items', '1', '--dry-run', '--json').lines
        answer = run('consolidate', path, '--items', '1')
        assert (answer.code, 'pid' in answer.err) == (1, True)
        assert run('revert-consolidation', path, 'consolidation/1').code == 1
    assert (dry['dry_run'], dry['items_after'], dry['merged_count'], dry['aged_count']) == (True, 1, 1, 6)
    assert path.read_bytes() == held
    (wet,) = run('consolidate', path, '--items', '1', '--json').lines
    assert (wet['merged'], wet['aged']) == (dry['merged'], dry['aged'])


def test_a_budget_that_is_not_met_is_an_exit_code(run: Run, path: Path) -> None:
    with MemoryService.open(f'sqlite:///{path}', clock=lambda: NOW_NS) as memory:
        memory.write([MemoryItem(kind='semantic', key=f'k{number}') for number in range(3)])
    answer = run('consolidate', path, '--items', '2')
    assert (answer.code, 'the budget is not met' in answer.out) == (1, True)
    assert run('consolidate', path, '--items', '1', '--kind', 'episodic').code == 0
    assert run('consolidate', path, '--items', '1', '--scope', 'robot_id=r2').out.startswith(
        'no statement changed'
    )


@pytest.mark.parametrize(
    ('options', 'said'),
    [
        ((), 'neither items nor bytes'),
        (('--items', '0'), 'items: 0'),
        (('--bytes', '-1'), 'bytes: -1'),
        (('--items', 'x'), "expected a whole number, got 'x'"),
        (('--items', '1', '--scope', 'r1'), "expected a name, '=' and a value, got 'r1'"),
        (('--items', '1', '--kind', 'working'), 'working'),
    ],
)
def test_what_makes_no_sense_is_refused(run: Run, path: Path, options: tuple[str, ...], said: str) -> None:
    held = path.read_bytes()
    answer = run('consolidate', path, *options)
    assert answer.code != 0
    assert said in answer.err
    assert path.read_bytes() == held


def test_a_file_that_is_not_there_is_not_made(run: Run, tmp_path: Path) -> None:
    missing = tmp_path / 'missing.db'
    answer = run('consolidate', missing, '--items', '1')
    assert (answer.code, 'there is no such file' in answer.err) == (1, True)
    assert not missing.exists()
