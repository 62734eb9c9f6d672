"""`skills` lists what a robot can do, and how each came to be allowed."""

from pathlib import Path

import pytest
from cli.conftest import Run
from domain.skills.examples import payload, skill

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.service import MemoryService


@pytest.fixture(scope='module')
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp('skills') / 'memory.db'
    with MemoryService.open(f'sqlite:///{path}', clock=lambda: 100 * 10**9) as memory:
        memory.write([skill(preconditions=['battery < 0.3']), skill(key='idea two')], actor='planner')
        memory.write([skill('verified', preconditions=['battery < 0.3'])], actor='reviewer')
        memory.write([MemoryItem(kind='semantic', key='fact', content='no skill')])
    return path


def test_it_lists_key_status_and_verdicts(run: Run, file: Path) -> None:
    told = run('skills', file)
    assert told.code == 0
    header, dock, idea = told.out.splitlines()[:3]
    assert header.split()[:6] == ['key', 'status', 'useful', 'misleading', 'not', 'applicable']
    assert dock.split()[:6] == ['dock', 'verified', '8', '1', '3', '3']
    assert 'proposed' in idea


def test_it_filters_by_status_state_and_time(run: Run, file: Path) -> None:
    def keys(*arguments: str) -> list[str]:
        return sorted(line['key'] for line in run('skills', file, '--json', *arguments).lines)

    assert keys() == ['dock', 'idea two']
    assert keys('--status', 'verified') == ['dock']
    assert keys('--status', 'verified', '--status', 'refuted', '--state', '{"battery": 0.9}') == []
    assert keys('--state', '{"battery": 0.1}') == ['dock', 'idea two']
    assert keys('--key', 'dock', '--known-seq', '1', '--status', 'verified') == []
    assert keys('--limit', '1') in (['dock'], ['idea two'])
    assert '1 precondition failed' in run('skills', file, '--state', '{"battery": 0.9}').out


def test_it_tells_the_steps_through_the_gate(run: Run, file: Path) -> None:
    told = run('skills', file, '--transitions')
    assert told.out.splitlines()[0].split()[-1] == 'traces'
    assert 'reviewer' in told.out
    steps = run('skills', file, '--transitions', '--key', 'dock', '--json').lines
    assert [(step['from_status'], step['to_status'], step['actor']) for step in steps] == [
        (None, 'proposed', 'planner'), ('proposed', 'verified', 'reviewer'),
    ]  # fmt: skip
    assert steps[1]['evidence']['traces'] == payload('verified')['evidence']


@pytest.mark.parametrize(
    ('arguments', 'told'),
    [
        (('--status', 'done'), 'done'),
        (('--state', '{'), '--state'),
        (('--state', '[1]'), '--state'),
        (('--limit', '0'), '--limit'),
        (('--limit', 'many'), 'many'),
    ],
)
def test_it_is_used_wrongly(run: Run, file: Path, arguments: tuple[str, ...], told: str) -> None:
    ran = run('skills', file, *arguments)
    assert ran.code == 2
    assert told in ran.err


def test_a_state_that_is_none_is_refused(run: Run, file: Path) -> None:
    ran = run('skills', file, '--state', '{"a": 99999999999999999999}')
    assert ran.code == 1
    assert 'state' in ran.err


def test_verify_looks_at_the_directory_too(run: Run, file: Path) -> None:
    assert run('verify', file).code == 0
    stranger = file.with_name('memory.db.skills') / 'stranger'
    stranger.touch()
    ran = run('verify', file)
    stranger.unlink()
    assert ran.code == 1
    assert 'stranger is not known to the database' in ran.out


def test_what_writes_a_file_here_leaves_its_skills_alone(run: Run, file: Path, tmp_path: Path) -> None:
    copy = tmp_path / 'copy.db'
    assert run('snapshot', file, '--copy', copy).code == 0
    run('consolidate', copy, '--items', '10')
    assert [path.name for path in tmp_path.iterdir() if 'skills' in path.name] == []
