import json
import os
from pathlib import Path

import pytest

from hylo_memory_ros.model import MemoryQuery

from .conftest import Run, S, Written, spatial


def test_what_is_near_is_answered_with_distance_and_a_summary(run: Run, file: Path) -> None:
    answer = run('query', file, '--near', 2, 0, 0, '--radius', 0.5)
    assert answer.code == 0
    assert 'red mug' in answer.out
    assert '1 of 1, within 0.5 m of 2.00 0.00 0.00 map' in answer.out


def test_json_is_one_object_a_line_with_every_field(run: Run, file: Path) -> None:
    (hit,) = run('query', file, '--near', -2, 0, 0, '--radius', 4, '--json').lines
    assert hit['key'] == 'red mug'
    assert hit['distance_m'] == 4.0
    assert hit['valid_from_ns'] == 150 * S
    assert hit['valid_to_ns'] is None
    assert hit['status'] == 'current'
    assert hit['pose']['position'] == [2.0, 0.0, 0.0]


def test_an_empty_answer_says_why(run: Run, file: Path) -> None:
    answer = run('query', file, '--key', 'lamp')
    assert answer.code == 0
    assert '0 of 0' in answer.out
    assert '1 forgotten' in answer.out


def test_explain_adds_a_last_line_to_json(run: Run, file: Path) -> None:
    *hits, summary = run('query', file, '--near', 0, 0, 0, '--radius', 1, '--json', '--explain').lines
    assert hits == []
    assert summary['excluded']['outside_radius'] == 1
    assert summary['nearest_excluded_m'] == 2.0


@pytest.mark.parametrize(
    'moment', ['50', '50000000000ns', '1970-01-01T00:00:50Z', '1970-01-01T01:00:50+01:00']
)
def test_every_form_of_a_time_asks_the_same(run: Run, file: Path, moment: str) -> None:
    hits = run('query', file, '--label', 'mug', '--label', 'lamp', '--as-of', moment, '--json').lines
    assert {hit['key']: hit['pose']['position'][0] for hit in hits} == {'red mug': 1.0, 'lamp': 4.0}


def test_both_time_axes(run: Run, file: Path) -> None:
    def place(*when: object) -> list[float]:
        return [
            hit['pose']['position'][0]
            for hit in run('query', file, '--key', 'red mug', '--json', *when).lines
        ]

    assert place('--as-of', 120, '--known-at', 100) == [1.0]
    assert place('--as-of', 250, '--known-at', 100) == [1.0]
    assert place('--as-of', 250, '--known-seq', 2) == [2.0]
    assert place('--as-of', 5) == []
    assert place('--include-invalidated') == [2.0, 1.0]


def test_filters_combine(run: Run, file: Path) -> None:
    assert len(run('query', file, '--kind', 'episodic', '--text', 'door', '--json').lines) == 1
    assert run('query', file, '--kind', 'spatial', '--text', 'door', '--json').lines == []
    assert run('query', file, '--map', 'attic', '--key', 'red mug', '--json').lines == []
    assert len(run('query', file, '--map', 'flat', '--key', 'red mug', '--json').lines) == 1


def test_a_long_answer_goes_on_with_its_cursor(run: Run, written: Written) -> None:
    written.memory.write([spatial(f'chair {number}', number, 250.0, 'chair') for number in range(5)])
    asked = ('query', written.path, '--label', 'chair', '-k', 3, '--json', '--explain')
    *first, summary = run(*asked).lines
    *rest, last = run(*asked, '--cursor', summary['cursor']).lines
    assert len({hit['key'] for hit in (*first, *rest)}) == 5
    assert last['cursor'] is None


def test_now_is_the_time_of_the_newest_record(run: Run, file: Path) -> None:
    *_, summary = run('query', file, '--json', '--explain').lines
    assert summary['as_of_ns'] // S == 301


def test_a_live_file_is_read_beside_its_writer(run: Run, written: Written) -> None:
    lock = Path(f'{written.path}.lock')
    holder = json.loads(lock.read_bytes())['pid']
    assert run('query', written.path, '--key', 'vase', '--json').lines == []
    written.memory.write([spatial('vase', 9.0, 290.0)])
    assert len(run('query', written.path, '--key', 'vase', '--json').lines) == 1
    written.memory.write([spatial('vase', 9.5, 295.0)])
    assert json.loads(lock.read_bytes())['pid'] == holder == os.getpid()


def test_history_tells_both_intervals(run: Run, file: Path) -> None:
    first, closed, open_one = run('history', file, '--key', 'red mug', '--json').lines
    assert (first['valid_from_ns'], first['valid_to_ns'], first['to_seq']) == (10 * S, None, 2)
    assert (closed['valid_from_ns'], closed['valid_to_ns'], closed['to_seq']) == (10 * S, 150 * S, None)
    assert open_one['valid_from_ns'] == 150 * S
    by_id = run('history', file, open_one['id'], '--json').lines
    assert by_id == [first, closed, {**open_one, 'is_asked': True}]
    assert '1970-01-01T00:02:30Z' in run('history', file, open_one['id']).out


def test_history_of_nothing_is_refused(run: Run, file: Path) -> None:
    answer = run('history', file, '--key', 'unicorn')
    assert (answer.code, answer.out) == (1, '')
    assert "'unicorn'" in answer.err
    assert run('history', file).code == 1


def test_changes_are_the_feed(run: Run, file: Path) -> None:
    feed = run('changes', file, '--json').lines
    assert [change['sequence'] for change in feed] == [1, 2, 3, 4]
    assert [change['op'] for change in feed] == ['write', 'write', 'write', 'forget']
    assert feed[1]['actor'] == 'tester'
    assert [
        change['sequence'] for change in run('changes', file, '--after', 2, '--limit', 1, '--json').lines
    ] == [3]
    assert 'up to sequence 4 of 4' in run('changes', file).out


def test_the_audit_tells_who_removed_what_and_why(run: Run, file: Path, written: Written) -> None:
    (entry,) = run('audit', file, '--json').lines
    assert (entry['op'], entry['reason'], entry['count'], entry['sequence']) == ('forget', 'moved out', 1, 4)
    assert entry['query'] == {'key': 'lamp'}
    answer = run('audit', file).out
    assert 'moved out' in answer
    assert '1 removals, up to sequence 4' in answer
    assert run('audit', file, entry['ids'][0], '--json').lines == [entry]
    assert run('audit', file, 'nobody').out == '0 removals\n'
    assert run('audit', file, '--after', 4, '--json').lines == []
    written.memory.purge(MemoryQuery(key='lamp'))
    assert [line['ids'] for line in run('audit', written.path, '--json').lines] == [None, None]


def test_another_epoch_is_refused_by_name(run: Run, file: Path) -> None:
    answer = run('changes', file, '--epoch', 'before')
    assert answer.code == 1
    assert "epoch: 'before'" in answer.err


def test_stored_text_cannot_steer_a_terminal(run: Run, written: Written) -> None:
    nasty = spatial('nasty', 8.0, 260.0).model_copy(update={'content': '\x1b[2J[red]gone[/red]\r\nnext'})
    written.memory.write([nasty])
    shown = run('query', written.path, '--key', 'nasty').out
    assert '\x1b' not in shown
    assert '\\x1b[2J[red]gone[/red]\\r\\nnext' in shown
    (hit,) = run('query', written.path, '--key', 'nasty', '--json').lines
    assert hit['content'] == nasty.content


def test_json_keeps_numbers_exact(run: Run, written: Written) -> None:
    written.memory.write([spatial('big', 1.0, 260.0, payload={'n': 2**70, 'x': 0.1})])
    line = run('query', written.path, '--key', 'big', '--json').out
    assert json.loads(line)['payload'] == {'n': 2**70, 'x': 0.1}
