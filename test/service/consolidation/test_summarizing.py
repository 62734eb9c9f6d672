"""Summaries of a day, of an episode and of summaries: what they say, and what they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from service.consolidation.pieces import NOW_S, SMALL, contents, diary, event
from support.clock import ManualClock

from hylo_memory_ros.model import Budget, MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService


def test_what_is_left_of_a_day_and_scope_becomes_summaries(memory: MemoryService) -> None:
    scopes = ({'robot_id': 'r1', 'task_id': 't1'}, {'robot_id': 'r2'})
    items = [
        one.model_copy(
            update={'scope': scopes[number % 2], 'label': 'trip', 'confidence': 0.9 - number / 100}
        )
        for number, one in enumerate(diary(12, first_s=86400.0 * 10))
    ]
    ids = memory.write(items).ids

    report = memory.consolidate(budget=Budget(items=2))

    assert report.merged == ()
    assert sorted(one.ids for one in report.summarized) == sorted((ids[0::2], ids[1::2]))
    first, second = sorted(
        (hit.item for hit in memory.query(MemoryQuery())), key=lambda item: item.scope['robot_id']
    )
    assert (first.scope, second.scope) == scopes
    assert first.content.startswith('6 records, 1970-01-11T00:00:00Z to 1970-01-11T01:40:01Z (trip x6):')
    assert items[0].content in first.content
    assert items[10].content in first.content
    assert len(first.content.encode()) <= 1024
    assert first.confidence == pytest.approx(0.8)
    assert first.source == 'extractive@1'


def test_an_episode_is_summarized_apart_and_its_summary_belongs_to_it(
    memory: MemoryService, clock: ManualClock
) -> None:
    memory.write(diary(4))
    memory.begin_episode('fetch-7')
    memory.write(diary(5, first_s=1_005_000.0))
    memory.end_episode(outcome='success')
    memory.begin_episode('fetch-8')
    memory.write(diary(3, first_s=1_010_000.0))
    clock.set(NOW_S + 10.0)
    open_before = contents(memory, episode='fetch-8')

    report = memory.consolidate(budget=Budget(items=1))

    assert not report.met
    assert contents(memory, episode='fetch-8') == open_before
    told = memory.query(MemoryQuery(episode='fetch-7', relation=None, k=50))
    summaries = [hit.item for hit in told if 'consolidated' in hit.item.payload]
    assert len(summaries) >= 1
    assert all(hit.episode == 'fetch-7' for hit in told)
    assert memory.query(MemoryQuery(key='episode/fetch-7')).total == 1
    assert any(hit.item.id == summaries[0].id for hit in memory.query(MemoryQuery(outcome='success', k=50)))


@pytest.mark.parametrize('step_ns', [0, 1_000_000])
def test_one_run_goes_on_with_summaries_of_summaries_until_the_budget_is_met(
    path: Path, step_ns: int
) -> None:
    with MemoryService.open(
        f'sqlite:///{path}', clock=ManualClock(NOW_S, step_ns=step_ns), config=SMALL
    ) as memory:
        items = [
            one.model_copy(update={'label': 'trip' if number % 2 else 'walk', 'scope': {'robot_id': 'zoë'}})
            for number, one in enumerate(diary(70, first_s=86400.0 * 12))
        ]
        ids = memory.write(items).ids
        before = memory.snapshot()
        dry = memory.consolidate(budget=Budget(items=1), dry_run=True)
        report = memory.consolidate(budget=Budget(items=1))

        assert (report.merged, report.summarized, report.aged) == (dry.merged, dry.summarized, dry.aged)
        assert (report.items_after, report.bytes_after, report.met) == (1, dry.bytes_after, True)
        assert [len(one.ids) for one in report.summarized] == [8] * 8 + [6, 8, 2]
        (hit,) = memory.query(MemoryQuery())
        told = hit.item.payload['consolidated']
        assert (hit.item.id, told['level'], told['count'], told['stands_for']) == (
            report.summarized[-1].id,
            3,
            2,
            70,
        )
        assert told['labels'] == {'trip': 35, 'walk': 35}
        assert hit.item.links == tuple(('summarizes', one) for one in report.summarized[-1].ids)
        head, *quoted = hit.item.content.splitlines()
        assert head == '70 records, 1970-01-13T00:00:00Z to 1970-01-13T11:30:01Z (trip x35, walk x35):'
        assert quoted[0] == f'{items[0].content}.'
        assert quoted[-1] == f'{items[-1].content}.'
        assert memory.verify().problems == ()

        reversion = memory.revert_consolidation(report.consolidation_id)
        assert set(reversion.restored) == set(ids)
        assert set(reversion.withdrawn) == {one.id for one in report.summarized}
        assert (reversion.digest, memory.query(MemoryQuery(k=0)).total) == (before, 70)
        assert memory.verify().problems == ()


def test_a_summary_of_what_was_merged_tells_when_it_happened_and_how_often(
    memory: MemoryService, clock: ManualClock
) -> None:
    said = 'saw Ann', 'the lift broke', 'rain?'
    at_s = 1_700_000_000.0
    memory.write([event(said[n // 2], at_s + 60 * n, valid_from=1_900_000_000 + n) for n in range(6)])
    memory.consolidate(budget=Budget(items=3))
    clock.set(NOW_S + 5.0)
    memory.consolidate(budget=Budget(items=1))
    (hit,) = memory.query(MemoryQuery())
    assert hit.item.content == (
        '6 records, 2023-11-14T22:13:20Z to 2023-11-14T22:18:21Z:\n'
        'saw Ann. (x2)\nthe lift broke. (x2)\nrain? (x2)'
    )


def test_what_is_of_many_days_becomes_one_when_nothing_of_a_day_is_left(
    memory: MemoryService, tmp_path: Path
) -> None:
    days = [event(f'day {name}', 86400.0 * 40 * n) for n, name in enumerate('abcdefghijklmnopqrst' * 2)]
    memory.write(
        [one for day in days for one in (day, day.model_copy(update={'content': f'{day.content}!!'}))]
    )
    before = memory.snapshot()
    copy = tmp_path / 'copy.db'
    memory.snapshot(str(copy))
    of_days = memory.consolidate(budget=Budget(items=40), dry_run=True)
    assert of_days.met
    assert {len(one.ids) for one in (*of_days.merged, *of_days.summarized)} == {2}
    dry = memory.consolidate(budget=Budget(items=1), dry_run=True)
    with MemoryService.open(f'sqlite:///{copy}', clock=ManualClock(NOW_S), config=SMALL) as whole:
        undisturbed = whole.consolidate(budget=Budget(items=1))
    made = [*undisturbed.merged, *undisturbed.summarized]
    assert (*dry.merged, *dry.summarized) == tuple(made)
    last = undisturbed.sequence - 2
    memory.consolidate(budget=Budget(items=1), cancelled=lambda: memory.sequence >= last)
    rest = memory.consolidate(budget=Budget(items=1))

    assert (rest.met, rest.digest_after) == (True, undisturbed.digest_after)
    assert memory.query(MemoryQuery())[0].item.payload['consolidated']['stands_for'] == 80
    for record in reversed(memory.consolidations()):
        memory.revert_consolidation(record.name)
    assert memory.snapshot() == before


@pytest.mark.parametrize('count', ['many', 10**6, -1, None, {'a': 1}])
def test_only_what_a_consolidation_made_counts_as_a_summary(memory: MemoryService, count: Any) -> None:
    told = {'stands_for': count, 'level': count, 'labels': {'x': count}, 'count': count}
    links = (('summarizes', 'x'),)
    made = [event(f'said {n}', 1000.0 + n, payload={'consolidated': told}, links=links) for n in range(3)]
    memory.write([*made, event('else', 1010.0, payload={'consolidated': told})])
    report = memory.consolidate(budget=Budget(items=1))
    assert (report.met, len(report.summarized)) == (True, 1)
    (hit,) = memory.query(MemoryQuery())
    assert (hit.item.payload['consolidated']['stands_for'], hit.item.content[:9]) == (4, '4 records')
    assert 'labels' not in hit.item.payload['consolidated']


def test_an_id_that_is_given_to_something_else_is_told_and_hinders_nothing_else(
    memory: MemoryService, clock: ManualClock
) -> None:
    memory.write(diary(16, first_s=86400.0 * 12))
    taken = memory.consolidate(budget=Budget(items=8), dry_run=True).summarized[0].id
    memory.write([MemoryItem(id=taken, kind='semantic', content='mine', valid_from=1)])
    dry = memory.consolidate(budget=Budget(items=3), dry_run=True)
    report = memory.consolidate(budget=Budget(items=3))
    assert dict(report.skipped) == dict(dry.skipped) == {taken: 'its id is that of another statement'}
    assert (report.summarized, len(report.summarized) > 0) == (dry.summarized, True)
    assert 'mine' in contents(memory)
