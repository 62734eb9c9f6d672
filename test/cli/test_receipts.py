import json
from pathlib import Path

import pytest

from hylo_memory_ros.model import MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

from .conftest import Clock, Run, Written

NEAR = MemoryQuery(near=(Pose(frame_id='map', position=(0.0, 0.0, 0.0)), 10.0), any_map=True)


@pytest.fixture
def kept(file: Path) -> str:
    """The id of a receipt in the file, of a rendering."""
    with MemoryService.open(f'sqlite:///{file}', clock=Clock()) as memory:
        return memory.render(NEAR, receipt=True).receipt_id


def test_a_receipt_is_printed_whole(run: Run, file: Path, kept: str) -> None:
    answer = run('receipt', file, kept)
    assert answer.code == 0
    assert json.loads(answer.out) == run('receipt', file, kept, '--json').lines[0]
    assert json.loads(answer.out)['id'] == kept


def test_a_receipt_replays_to_the_same_ids(run: Run, file: Path, kept: str) -> None:
    answer = run('replay-receipt', file, kept)
    assert (answer.code, answer.out) == (0, 'the same: 1 ids in the same order\n')
    (replay,) = run('replay-receipt', file, kept, '--json').lines
    assert replay['same']
    assert replay['ids'] == replay['found']


def test_a_replay_that_differs_says_why_and_fails(run: Run, file: Path, kept: str) -> None:
    clock = Clock()
    clock.now_ns *= 10
    with MemoryService.open(f'sqlite:///{file}', clock=clock) as memory:
        memory.purge(MemoryQuery(key='red mug'))
    answer = run('replay-receipt', file, kept)
    assert answer.code == 1
    assert 'because: purged: ' in answer.out
    assert run('replay-receipt', file, kept, '--json').code == 1
    assert 'not complete: a purge took hits out of the receipt' in run('chain', file, kept).out


def test_a_replay_works_while_the_file_is_written(run: Run, written: Written) -> None:
    name = written.memory.query(NEAR, receipt=True).receipt_id
    written.memory._core.receipts.flush()
    assert run('replay-receipt', written.path, name).code == 0


def test_the_chain_is_printed_step_by_step(run: Run, file: Path, kept: str) -> None:
    out = run('chain', file, kept).out
    steps = [line for line in out.splitlines() if not line.startswith(' ')]
    assert steps == [
        'statements:', 'vectors: none', 'candidate index: none', 'candidates:', 'order:', 'prompt:',
        'cache: none', 'compressed: none',
    ]  # fmt: skip
    links = run('chain', file, kept, '--json').lines
    assert [link['step'] for link in links] == ['record', 'candidates', 'rerank', *['segment'] * 4]
    assert all(link['digest'] in out for link in links)


@pytest.mark.parametrize('command', ['receipt', 'replay-receipt', 'chain'])
@pytest.mark.parametrize('name', ['retrieval/0', '', 'x y'])
def test_an_unknown_receipt_is_refused(run: Run, file: Path, command: str, name: str) -> None:
    answer = run(command, file, name)
    assert answer.code == 1
    assert f'there is none of the id {name!r}' in answer.err
    assert answer.out == ''


def test_a_prompt_is_rendered(run: Run, file: Path) -> None:
    near = ('--near', 0, 0, 0, '--radius', 10)
    out = run('render', file, *near).out
    assert out.startswith('<memory renderer="hylo-prelude@1">\n- id="spatial/')
    assert 'says="the red mug"' in out
    assert run('render', file, *near).out == out
    assert run('render', file, *near, '--renderer', 'hylo-jsonl@1').lines[-1]['shown'] == 1
    assert 'shown=0 left_out="1"' in run('render', file, *near, '--max-tokens', 60).out


@pytest.mark.parametrize(
    ('options', 'said', 'code'),
    [
        (('--renderer', 'x@1'), "renderer: 'x@1' is none of", 1),
        (('--max-tokens', 3), 'max_tokens: 3 is below', 1),
        (('--max-tokens', -3), 'max_tokens: -3 is negative', 1),
        (('--max-tokens', 'few'), 'few', 2),
        (('--radius', 3), '--near', 2),
    ],
)
def test_what_cannot_be_rendered_is_refused(
    run: Run, file: Path, options: tuple[object, ...], said: str, code: int
) -> None:
    answer = run('render', file, *options)
    assert answer.code == code
    assert said in answer.err
