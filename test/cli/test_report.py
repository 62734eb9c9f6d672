"""`report helpfulness`: the table of what has helped, beside a memory that is being written."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import beta

from hylo_memory_ros.model import MemoryQuery

from .conftest import Run, Written


@pytest.fixture
def judged(written: Written) -> Written:
    memory = written.memory
    answer = memory.query(MemoryQuery(any_map=True, text='mug'), receipt=True)
    memory.feedback('useful', receipt_id=answer.receipt_id, note='found it')
    memory.feedback('useful', receipt_id=answer.receipt_id, actor='ann')
    door = memory.query(MemoryQuery(any_map=True, text='door'), receipt=True)
    memory.feedback('wrong', receipt_id=door.receipt_id)
    lamp = memory.query(MemoryQuery(any_map=True, key='lamp', include_invalidated=True))
    memory.feedback('not_applicable', ids=[lamp[0].item.id])
    return written


def test_the_table_tells_what_has_helped_most_helpful_first(run: Run, judged: Written) -> None:
    answer = run('report', 'helpfulness', judged.path)
    assert (answer.code, answer.err) == (0, '')
    heads, *rows, summary = answer.out.splitlines()
    assert heads.split()[:2] == ['score', '90']
    assert [row.split()[0] for row in rows] == ['0.750', '0.500', '0.333']
    assert 'red mug' in rows[0]
    assert 'opened the door' in rows[2]
    assert summary == '3 of 3 that were looked up or judged'


def test_lines_of_json_hold_every_count(run: Run, judged: Written) -> None:
    judged.memory.close()
    first, second, third = run('report', 'helpfulness', judged.path, '--json').lines
    assert (first['key'], first['kind'], first['content']) == ('red mug', 'spatial', 'the red mug')
    assert (first['useful'], first['wrong'], first['retrieved']) == (2, 0, 1)
    assert first['last_ns'] == 300 * 10**9
    assert first['low'] == pytest.approx(beta(3, 1).ppf(0.05))
    assert first['high'] == pytest.approx(beta(3, 1).ppf(0.95))
    assert (second['not_applicable'], second['score']) == (1, 0.5)
    assert (third['wrong'], third['retrieved'], third['key']) == (1, 1, '')


def test_order_and_limit_are_chosen(run: Run, judged: Written) -> None:
    def kinds(*options: str) -> list[str]:
        lines = run('report', 'helpfulness', judged.path, '--json', *options).lines
        return [line['content'] for line in lines]

    assert kinds('--ascending')[0] == 'opened the door'
    assert kinds('--order', 'wrong')[0] == 'opened the door'
    assert kinds('--order', 'useful', '--limit', '1') == ['the red mug']
    assert kinds('--order', 'retrieved', '--ascending')[0] == 'the lamp'
    assert len(kinds('--order', 'last')) == 3
    told = run('report', 'helpfulness', judged.path, '--limit', '2').out
    assert told.splitlines()[-1] == '2 of 3 that were looked up or judged'


def test_hits_and_questions_tell_of_it_too(run: Run, judged: Written) -> None:
    told = run('query', judged.path, '--text', 'mug').out
    assert 'helped' in told
    assert '0.75' in told
    (line,) = run('query', judged.path, '--min-helpfulness', '0.6', '--json').lines
    assert line['stats']['helpfulness']['score'] == 0.75
    ranked = run('query', judged.path, '--weight', 'helpfulness=1', '--json').lines
    assert [line['details']['helpfulness'] for line in ranked] == pytest.approx([0.75, 1 / 3])


def test_a_memory_that_learnt_nothing_has_an_empty_table(run: Run, file: Path) -> None:
    assert run('report', 'helpfulness', file).out == '0 of 0 that were looked up or judged\n'
    assert run('report', 'helpfulness', file, '--json').lines == []


@pytest.mark.parametrize(
    ('options', 'code', 'told'),
    [
        (['--order', 'beauty'], 2, "'beauty' is not one of 'score'"),
        (['--limit', '0'], 2, '--limit'),
        (['--limit', 'many'], 2, 'expected a whole number'),
        (['--json', '--csv'], 2, 'No such option'),
    ],
)
def test_what_makes_no_sense_is_refused(
    run: Run, file: Path, options: list[str], code: int, told: str
) -> None:
    answer = run('report', 'helpfulness', file, *options)
    assert answer.code == code
    assert told in ' '.join(answer.err.split())


def test_a_report_that_does_not_exist_and_a_file_that_does_not_are_refused(
    run: Run, file: Path, tmp_path: Path
) -> None:
    assert run('report', 'beauty', file).code == 2
    answer = run('report', 'helpfulness', tmp_path / 'none.db')
    assert (answer.code, 'none.db' in answer.err) == (1, True)
    (tmp_path / 'half.db').write_bytes(file.read_bytes()[:5000])
    assert run('report', 'helpfulness', tmp_path / 'half.db').code == 1
