"""`hylo-memory episodes`: which there are and how they ended, as they were known at any time."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.conftest import Clock, Run, S

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.service import MemoryService


@pytest.fixture(scope='module')
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clock, path = Clock(), tmp_path_factory.mktemp('episodes') / 'memory.db'
    with MemoryService.open(f'sqlite:///{path}', clock=clock) as memory:
        for name, outcome in (('first', 'success'), ('second', 'failure')):
            clock.now_ns += 100 * S
            memory.begin_episode(name, {'task_id': 'fetch'}, note=f'the {name} \x1b[31mtry')
            memory.write([MemoryItem(kind='semantic', key=f'seen by {name}', content='x')])
            clock.now_ns += 10 * S
            memory.end_episode(outcome=outcome)
        clock.now_ns += 100 * S
        memory.begin_episode('third')
    return path


def test_a_table_for_people(run: Run, lived: Path) -> None:
    ran = run('episodes', lived)
    assert (ran.code, ran.err) == (0, '')
    lines = ran.out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [
        ['third', 'open'], ['second', 'failure'], ['first', 'success'],
    ]  # fmt: skip
    assert '1970-01-01T00:03:20Z  1970-01-01T00:03:30Z  10.0  1..3' in lines[3]
    assert '\x1b' not in ran.out
    assert lines[-1] == '3 episodes'


def test_lines_for_programs(run: Run, lived: Path) -> None:
    (line,) = run('episodes', lived, '--outcome', 'success', '--json').lines
    assert line == {
        'id': 'first', 'begun_ns': 200 * S, 'begin_seq': 1, 'ended_ns': 210 * S, 'end_seq': 3,
        'outcome': 'success', 'scope': {'task_id': 'fetch'}, 'note': 'the first \x1b[31mtry', 'end_note': '',
        'actor': '',
    }  # fmt: skip


@pytest.mark.parametrize(
    ('options', 'names'),
    [
        (['--from', '215', '--to', '1970-01-01T00:05:10Z'], ['second']),
        (['--to', '205'], ['first']),
        (['--from', '325'], ['third']),
        (['--scope', 'task_id=fetch'], ['second', 'first']),
        (['--scope', 'task_id=other'], []),
        (['--known-seq', '2'], ['first']),
        (['--known-seq', '2', '--outcome', 'success'], []),
        (['--known-at', '215'], ['first']),
        (['--limit', '1'], ['third']),
    ],
)
def test_it_is_narrowed_down(run: Run, lived: Path, options: list[str], names: list[str]) -> None:
    assert [line['id'] for line in run('episodes', lived, '--json', *options).lines] == names


def test_questions_and_the_feed_know_them(run: Run, lived: Path) -> None:
    hits = run('query', lived, '--kind', 'semantic', '--episode', 'first', '--json').lines
    assert [(hit['key'], hit['episode']) for hit in hits] == [('seen by first', 'first')]
    hits = run('query', lived, '--kind', 'semantic', '--outcome', 'failure', '--json').lines
    assert [hit['key'] for hit in hits] == ['seen by second']
    feed = run('changes', lived, '--json').lines
    assert [change['episode'] for change in feed] == ['first'] * 3 + ['second'] * 3 + ['third']
    (version,) = run('history', lived, '--key', 'seen by first', '--json').lines
    assert version['episode'] == 'first'


@pytest.mark.parametrize(
    ('options', 'code', 'named'),
    [
        (['--from', 'noon'], 2, "got 'noon'"),
        (['--scope', 'fetch'], 2, "expected a name, '=' and a value, got 'fetch'"),
        (['--outcome', ' '], 1, "outcome: ' ' is blank"),
        (['--from', '20', '--to', '10'], 1, 'time_range_ns: its end'),
        (['--known-seq', '1', '--known-at', '2'], 1, 'known_at_ns and known_seq'),
        (['--limit', '0'], 1, 'limit: 0'),
    ],
)
def test_what_makes_no_sense_is_refused(
    run: Run, lived: Path, options: list[str], code: int, named: str
) -> None:
    ran = run('episodes', lived, *options)
    assert ran.code == code
    assert named in ran.err
