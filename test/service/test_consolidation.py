"""Consolidation: within a budget, and nothing false said; tried dry, ended early, told, taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.clock import ManualClock

from bench._past import answers, random_questions
from bench.consolidation import happenings
from hylo_memory_ros.config import ConsolidationSettings, MemoryConfig
from hylo_memory_ros.errors import (
    EpochChangedError,
    HyloMemoryError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
    StoreBusyError,
)
from hylo_memory_ros.model import Budget, Condensed, MemoryItem, MemoryKind, MemoryQuery, Pose, TimeSpan
from hylo_memory_ros.service import MemoryService

NOW_S = 2_000_000_000.0
HOUR_S = 3600.0
SMALL = MemoryConfig(consolidation=ConsolidationSettings(group_items=8, slice_items=16))


def event(content: str, at_s: float, **fields: Any) -> MemoryItem:
    span = TimeSpan(start=at_s, end=at_s + 1)
    return MemoryItem(kind='episodic', content=content, event_time=span, **fields)


def diary(count: int, first_s: float = 1_000_000.0) -> list[MemoryItem]:
    """Return what nobody would take for the same, ten minutes apart."""
    words = ('kitchen', 'hall', 'dock', 'office', 'stairs', 'garden', 'lab')
    return [
        event(f'went {words[number % 7]} by {words[number * 3 % 7]} for task{number}', first_s + 600 * number)
        for number in range(count)
    ]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_S)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'memory.db'


@pytest.fixture
def memory(path: Path, clock: ManualClock) -> Iterator[MemoryService]:
    with MemoryService.open(f'sqlite:///{path}', clock=clock, config=SMALL) as opened:
        yield opened
        assert opened.verify().problems == ()


def contents(memory: MemoryService, **asked: Any) -> list[str]:
    return sorted(hit.item.content for hit in memory.query(MemoryQuery(k=1000, **asked)))


def test_near_duplicates_become_one_that_tells_how_often_and_when(memory: MemoryService) -> None:
    about: dict[str, Any] = {'label': 'mug', 'object_ids': ('O1',), 'entities': ('ann',)}
    seen = [
        event('Saw the mug' + '!' * n, 1000.0 + HOUR_S * n, confidence=0.5 + n / 10, **about)
        for n in range(4)
    ]
    ids = memory.write(seen).ids

    report = memory.consolidate(budget=Budget(items=1))

    (merged,) = report.merged
    assert merged.ids == ids
    assert (report.items_before, report.items_after, report.met, report.hash_changed) == (4, 1, True, True)
    (hit,) = memory.query(MemoryQuery())
    item = hit.item
    assert (item.id, item.content, item.label, item.object_ids) == (
        merged.id,
        seen[0].content,
        'mug',
        ('O1',),
    )
    assert item.links == tuple(('summarises', one) for one in ids)
    assert item.event_time == TimeSpan(start=1000.0, end=1001.0 + 3 * HOUR_S)
    assert item.confidence == 0.8
    told = item.payload['consolidated']
    assert (told['by'], told['count'], told['stands_for']) == ('near-duplicate@1', 4, 4)
    assert (told['first_ns'], told['last_ns']) == (1000 * 10**9, round((1001.0 + 3 * HOUR_S) * 1e9))
    assert told['labels'] == {'mug': 4}
    assert hit.status == 'current'
    assert memory.query(MemoryQuery(relation=('summarises', ids[2])))[0].item.id == merged.id


@pytest.mark.parametrize(
    'differing',
    [
        {'entities': ('bob',)},
        {'object_ids': ('O7',)},
        {'label': 'mug'},
        {'scope': {'robot_id': 'r2'}},
        {'payload': {'how': 'fast'}},
        {'pose': Pose(frame_id='map', position=(9.0, 0.0, 0.0))},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_differs_in_more_than_time_is_no_near_duplicate(
    memory: MemoryService, differing: dict[str, Any]
) -> None:
    memory.write([event('saw it', 1000.0), event('saw it', 1001.0, **differing)])
    report = memory.consolidate(budget=Budget(items=1), dry_run=True)
    assert report.merged == ()


@pytest.mark.parametrize(
    'said',
    [
        ('battery at 80 %', 'battery at 5 %'),
        ('went to room 12', 'went to room 13'),
        ('-5 degrees', '5 degrees'),
        ('1.5 m', '15 m'),
        ('load > 3', 'load < 3'),
        ('left at 10:15', 'left at 10:16'),
        ('took O12', 'took O13'),
    ],
)
def test_what_says_another_number_stays_a_statement_of_its_own(
    memory: MemoryService, said: tuple[str, str]
) -> None:
    memory.write([event(said[n % 2], 1000.0 + n) for n in range(4)])
    report = memory.consolidate(budget=Budget(items=2))
    assert (report.met, len(report.merged)) == (True, 2)
    assert contents(memory) == sorted(said)


def test_near_duplicates_of_one_place_keep_a_place_that_was_measured(memory: MemoryService) -> None:
    poses = [Pose(frame_id='map', position=(2.0 + part, 3.1, 0.0)) for part in (0.1, 0.4, 0.2)]
    memory.write([event('passed', 1000.0 + n, pose=pose) for n, pose in enumerate(poses)])
    memory.consolidate(budget=Budget(items=1))
    centre = Pose(frame_id='map', position=(2.0, 3.0, 0.0))
    (hit,) = memory.query(MemoryQuery(near=(centre, 0.5)))
    assert hit.item.pose is not None
    assert hit.item.pose.position == poses[0].position


def test_only_as_much_is_done_as_the_budget_needs_oldest_first(memory: MemoryService) -> None:
    memory.write([event('saw it', 1000.0 + number) for number in range(6)] + diary(6))
    report = memory.consolidate(budget=Budget(items=9))
    assert [len(one.ids) for one in report.merged] == [4]
    assert report.summarised == ()
    assert report.items_after == 9


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
    assert sorted(one.ids for one in report.summarised) == sorted((ids[0::2], ids[1::2]))
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


def test_an_episode_is_summarised_apart_and_its_summary_belongs_to_it(
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


def test_what_has_ended_is_aged_first_and_changes_no_answer(
    memory: MemoryService, clock: ManualClock
) -> None:
    for number in range(6):
        memory.write(
            [
                MemoryItem(
                    kind='spatial', key='door', content=f'door is {number % 2}', valid_from=1000.0 + number
                )
            ]
        )
    facts = [
        MemoryItem(kind='semantic', key=f'k{number}', content=f'fact {number}', valid_from=1)
        for number in range(3)
    ]
    memory.write([*facts, *diary(3)])
    clock.set(NOW_S + 10.0)
    before = memory.snapshot(), memory.sequence, contents(memory), contents(memory, include_invalidated=True)

    report = memory.consolidate(budget=Budget(items=8))

    assert (len(report.aged), report.items_after, report.met) == (4, 8, True)
    assert (report.merged, report.summarised, report.consolidation_id, report.hash_changed) == (
        (),
        (),
        '',
        False,
    )
    assert (
        memory.snapshot(),
        memory.sequence,
        contents(memory),
        contents(memory, include_invalidated=True),
    ) == before
    assert len(memory.history(key='door').versions) == 11


def test_what_holds_and_is_no_event_is_never_summarised_away(memory: MemoryService) -> None:
    place = Pose(frame_id='map', position=(0.0, 0.0, 0.0))
    memory.write(
        [
            *(MemoryItem(kind='semantic', content='the same', valid_from=number) for number in range(5)),
            *(
                MemoryItem(kind='spatial', key=f'mug{n}', content='mug', pose=place, valid_from=1)
                for n in range(5)
            ),
            *(event('kept by its key', 1000.0 + number, key=f'e{number}') for number in range(5)),
        ]
    )
    report = memory.consolidate(budget=Budget(items=1))
    assert (report.merged, report.summarised, report.aged, report.met) == ((), (), (), False)
    assert report.items_after == report.items_before


def test_a_budget_of_bytes_is_held(memory: MemoryService) -> None:
    memory.write(diary(60))
    held = memory.consolidate(budget=Budget(items=10**6)).bytes_before
    report = memory.consolidate(budget=Budget(bytes=held // 2))
    assert report.met
    assert report.bytes_after <= held // 2
    assert report.summarised


def test_a_dry_run_tells_exactly_what_the_run_will_do_and_changes_nothing(
    memory: MemoryService, path: Path
) -> None:
    ids = memory.write([*happenings(120, seed=4), *diary(30), event('x', 5.0), event('x', 6.0)]).ids
    memory.forget(MemoryQuery(ids=ids[:7]))
    before = memory.snapshot(), memory.sequence, contents(memory)

    dry = memory.consolidate(budget=Budget(items=50), dry_run=True)

    assert (memory.snapshot(), memory.sequence, contents(memory)) == before
    assert not path.with_name('memory.db.cold').exists()
    assert memory.consolidations() == ()
    assert (dry.dry_run, dry.digest_after, dry.hash_changed) == (True, dry.digest_before, True)

    wet = memory.consolidate(budget=Budget(items=50))

    assert (wet.merged, wet.summarised, wet.aged) == (dry.merged, dry.summarised, dry.aged)
    assert (wet.items_after, wet.bytes_after, wet.met) == (dry.items_after, dry.bytes_after, dry.met)
    assert (wet.merged != (), wet.summarised != (), len(wet.aged) > 7) == (True, True, True)


def test_the_same_memory_and_budget_give_the_same_ids_and_hash(tmp_path: Path) -> None:
    reports = []
    for name, size, step_ns in (('a', 16, 0), ('b', 64, 10**8)):
        config = MemoryConfig(consolidation=ConsolidationSettings(group_items=8, slice_items=size))
        ticking = ManualClock(NOW_S, step_ns=step_ns)
        with MemoryService.open(f'sqlite:///{tmp_path}/{name}.db', clock=ticking, config=config) as memory:
            memory.write(happenings(100, seed=4))
            reports.append(memory.consolidate(budget=Budget(items=30)))
            assert memory.verify().ok
    first, second = reports
    assert (first.merged, first.summarised, first.digest_after) == (
        second.merged,
        second.summarised,
        second.digest_after,
    )
    assert sorted(first.aged) == sorted(second.aged)


def test_a_thousand_questions_about_before_are_answered_as_before(memory: MemoryService) -> None:
    items = [*happenings(300, seed=7), *diary(40)]
    ids: list[str] = []
    for first in range(0, len(items), 20):
        ids += memory.write(items[first : first + 20]).ids
    questions = random_questions(items, ids, memory.sequence, 1000, seed=8)
    known, last = answers(memory, questions), memory.sequence
    told = [memory.history(one).versions[0] for one in ids]

    report = memory.consolidate(budget=Budget(items=9))

    assert report.met
    assert max(hit.item.payload['consolidated']['level'] for hit in memory.query(MemoryQuery(k=50))) > 1
    assert memory.sequence > last
    again = answers(memory, questions)
    assert [place for place in range(1000) if again[place] != known[place]] == []
    for one, before in zip(ids, told, strict=True):
        version = memory.history(one).versions[0]
        assert (version.item, version.from_seq, version.valid_from_ns) == (
            before.item,
            before.from_seq,
            before.valid_from_ns,
        )
        assert version.valid_to_ns == before.valid_to_ns


def test_an_original_is_answered_as_of_before_and_its_history_tells_the_cause(
    memory: MemoryService, clock: ManualClock
) -> None:
    (first, *_) = ids = memory.write([event('saw it', 1000.0 + number) for number in range(3)]).ids
    clock.set(NOW_S + 5.0)
    report = memory.consolidate(budget=Budget(items=1))

    then = memory.query(MemoryQuery(as_of=1500.0))
    assert {hit.item.id for hit in then} == set(ids)
    assert {hit.status for hit in then} == {'invalidated'} or {hit.status for hit in then} == {'current'}
    whenever = {hit.item.id: hit.status for hit in memory.query(MemoryQuery(include_invalidated=True))}
    assert whenever == {report.merged[0].id: 'current', **dict.fromkeys(ids, 'invalidated')}
    stored, ended = memory.history(first).versions
    assert (stored.cause, stored.superseded_cause) == ('write', 'consolidate')
    assert (ended.cause, ended.superseded_cause, ended.forgotten) == ('consolidate', None, False)
    assert ended.valid_to_ns == round((NOW_S + 5.0) * 1e9)
    assert memory.changes().changes[-1].outcomes == (*['CONSOLIDATE'] * 3, 'ADD')


def test_what_is_written_again_stays_with_its_summary(memory: MemoryService) -> None:
    items = [event('saw it', 1000.0 + number) for number in range(3)]
    memory.write(items)
    report = memory.consolidate(budget=Budget(items=1))
    (again,) = memory.write([items[1]]).events
    assert (again.event, again.reason) == ('SKIP_DUP', 'consolidated')
    assert memory.query(MemoryQuery()).total == 1
    reversion = memory.revert_consolidation(report.consolidation_id)
    assert len(reversion.restored) == 3
    assert memory.query(MemoryQuery()).total == 3


def test_a_consolidation_is_taken_back_to_the_same_hash(memory: MemoryService) -> None:
    memory.write([*happenings(80, seed=4), *(event('x', 5.0 + number) for number in range(5))])
    before, open_before = memory.snapshot(), contents(memory)
    report = memory.consolidate(budget=Budget(items=20))
    summaries = [one.id for one in (*report.merged, *report.summarised)]

    reversion = memory.revert_consolidation(report.consolidation_id, actor='ann')

    assert (reversion.digest, memory.snapshot(), contents(memory)) == (before, before, open_before)
    assert sorted(reversion.withdrawn) == sorted(summaries)
    assert sorted(reversion.restored) == sorted(
        name for one in (*report.merged, *report.summarised) for name in one.ids
    )
    assert memory.query(MemoryQuery(ids=tuple(summaries))).total == 0
    # What was known in between stays answerable.
    assert memory.query(MemoryQuery(ids=tuple(summaries), known_seq=report.sequence, k=0)).total == len(
        summaries
    )
    with pytest.raises(InvalidRequestError, match='reverted before'):
        memory.revert_consolidation(report.consolidation_id)
    again = memory.consolidate(budget=Budget(items=20))
    assert {one.id for one in again.summarised}.isdisjoint(summaries)
    assert again.digest_after == report.digest_after


def test_what_was_consolidated_again_is_reverted_in_order_only(
    memory: MemoryService, clock: ManualClock
) -> None:
    memory.write(diary(64, first_s=86400.0 * 12))
    first = memory.consolidate(budget=Budget(items=8))
    assert len(first.summarised) == 8
    clock.set(NOW_S + 1.0)
    second = memory.consolidate(budget=Budget(items=1))
    assert second.met
    (top,) = second.summarised
    assert set(top.ids) == {one.id for one in first.summarised}
    (hit,) = memory.query(MemoryQuery())
    assert hit.item.payload['consolidated']['stands_for'] == 64

    with pytest.raises(InvalidRequestError, match=f'again by {second.consolidation_id}'):
        memory.revert_consolidation(first.consolidation_id)
    memory.revert_consolidation(second.consolidation_id)
    reversion = memory.revert_consolidation(first.consolidation_id)
    assert len(reversion.restored) == 64
    assert reversion.digest == first.digest_before


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

        assert (report.merged, report.summarised, report.aged) == (dry.merged, dry.summarised, dry.aged)
        assert (report.items_after, report.bytes_after, report.met) == (1, dry.bytes_after, True)
        assert [len(one.ids) for one in report.summarised] == [8] * 8 + [6, 8, 2]
        (hit,) = memory.query(MemoryQuery())
        told = hit.item.payload['consolidated']
        assert (hit.item.id, told['level'], told['count'], told['stands_for']) == (
            report.summarised[-1].id,
            3,
            2,
            70,
        )
        assert told['labels'] == {'trip': 35, 'walk': 35}
        assert hit.item.links == tuple(('summarises', one) for one in report.summarised[-1].ids)
        head, *quoted = hit.item.content.splitlines()
        assert head == '70 records, 1970-01-13T00:00:00Z to 1970-01-13T11:30:01Z (trip x35, walk x35):'
        assert quoted[0] == f'{items[0].content}.'
        assert quoted[-1] == f'{items[-1].content}.'
        assert memory.verify().problems == ()

        reversion = memory.revert_consolidation(report.consolidation_id)
        assert set(reversion.restored) == set(ids)
        assert set(reversion.withdrawn) == {one.id for one in report.summarised}
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
    assert {len(one.ids) for one in (*of_days.merged, *of_days.summarised)} == {2}
    dry = memory.consolidate(budget=Budget(items=1), dry_run=True)
    with MemoryService.open(f'sqlite:///{copy}', clock=ManualClock(NOW_S), config=SMALL) as whole:
        undisturbed = whole.consolidate(budget=Budget(items=1))
    made = [*undisturbed.merged, *undisturbed.summarised]
    assert (*dry.merged, *dry.summarised) == tuple(made)
    last = undisturbed.sequence - 2
    memory.consolidate(budget=Budget(items=1), cancelled=lambda: memory.sequence >= last)
    rest = memory.consolidate(budget=Budget(items=1))

    assert (rest.met, rest.digest_after) == (True, undisturbed.digest_after)
    assert memory.query(MemoryQuery())[0].item.payload['consolidated']['stands_for'] == 80
    for record in reversed(memory.consolidations()):
        memory.revert_consolidation(record.name)
    assert memory.snapshot() == before


def test_what_was_judged_goes_on_with_what_stands_for_it(memory: MemoryService, clock: ManualClock) -> None:
    said = ['saw Ann', 'saw Ann', 'the lift broke', 'rain']
    ids = memory.write([event(one, 1000.0 + n) for n, one in enumerate(said)]).ids
    for number in range(3):
        memory.feedback('useful', ids=[ids[number]])
    memory.feedback('wrong', ids=[ids[1]], actor='ann')

    def judged(**asked: Any) -> list[tuple[str, int, int]]:
        hits = memory.query(MemoryQuery(k=50, **asked))
        counts = [(hit.item.id, hit.stats.helpfulness) for hit in hits if hit.stats]
        return sorted((str(name), told.useful, told.wrong) for name, told in counts if told)

    before = judged()
    first = memory.consolidate(budget=Budget(items=3))
    assert (first.merged[0].id, 2, 1) in judged()
    clock.set(NOW_S + 5.0)
    second = memory.consolidate(budget=Budget(items=1))
    assert judged() == [(second.summarised[-1].id, 3, 1)]
    assert len(memory.query(MemoryQuery(min_helpfulness=0.5))) == 1
    for report in (second, first):
        memory.revert_consolidation(report.consolidation_id)
    assert judged() == before
    assert memory.verify().problems == ()


@pytest.mark.parametrize('count', ['many', 10**6, -1, None, {'a': 1}])
def test_only_what_a_consolidation_made_counts_as_a_summary(memory: MemoryService, count: Any) -> None:
    told = {'stands_for': count, 'level': count, 'labels': {'x': count}, 'count': count}
    links = (('summarises', 'x'),)
    made = [event(f'said {n}', 1000.0 + n, payload={'consolidated': told}, links=links) for n in range(3)]
    memory.write([*made, event('else', 1010.0, payload={'consolidated': told})])
    report = memory.consolidate(budget=Budget(items=1))
    assert (report.met, len(report.summarised)) == (True, 1)
    (hit,) = memory.query(MemoryQuery())
    assert (hit.item.payload['consolidated']['stands_for'], hit.item.content[:9]) == (4, '4 records')
    assert 'labels' not in hit.item.payload['consolidated']


def test_an_id_that_is_given_to_something_else_is_told_and_hinders_nothing_else(
    memory: MemoryService, clock: ManualClock
) -> None:
    memory.write(diary(16, first_s=86400.0 * 12))
    taken = memory.consolidate(budget=Budget(items=8), dry_run=True).summarised[0].id
    memory.write([MemoryItem(id=taken, kind='semantic', content='mine', valid_from=1)])
    dry = memory.consolidate(budget=Budget(items=3), dry_run=True)
    report = memory.consolidate(budget=Budget(items=3))
    assert dict(report.skipped) == dict(dry.skipped) == {taken: 'its id is that of another statement'}
    assert (report.summarised, len(report.summarised) > 0) == (dry.summarised, True)
    assert 'mine' in contents(memory)


def test_an_id_that_is_given_meanwhile_is_told(memory: MemoryService) -> None:
    memory.write(diary(16, first_s=86400.0 * 12))
    taken = memory.consolidate(budget=Budget(items=2), dry_run=True).summarised[0].id

    def tell(part: float, stage: str) -> None:
        if stage == 'summarising' and part > 0 and memory.sequence == 1:
            memory.write([MemoryItem(id=taken, kind='semantic', content='mine', valid_from=1)])

    report = memory.consolidate(budget=Budget(items=2), kinds=[MemoryKind.EPISODIC], tell=tell)
    assert report.skipped[taken] == 'its id is that of another statement'
    assert len(report.summarised) >= 1


def test_what_was_forgotten_as_the_summary_of_summaries_stays_forgotten(
    memory: MemoryService, clock: ManualClock
) -> None:
    memory.write(diary(40, first_s=86400.0 * 12))
    report = memory.consolidate(budget=Budget(items=1))
    assert len(report.summarised) == 6
    clock.set(NOW_S + 1.0)
    memory.forget(MemoryQuery(ids=(report.summarised[-1].id,)))
    reversion = memory.revert_consolidation(report.consolidation_id)
    assert set(reversion.kept) == {one.id for one in report.summarised}
    assert (reversion.restored, memory.query(MemoryQuery()).total) == ((), 0)


def test_what_was_forgotten_as_a_summary_stays_forgotten(memory: MemoryService, clock: ManualClock) -> None:
    memory.write(
        [
            event('saw ann', 1000.0),
            event('saw ann', 1001.0),
            event('saw bob', 1002.0),
            event('saw bob', 1003.0),
        ]
    )
    report = memory.consolidate(budget=Budget(items=2))
    clock.set(NOW_S + 1.0)
    ann = memory.query(MemoryQuery(text='ann'))[0].item.id
    memory.forget(MemoryQuery(ids=(str(ann),)))
    memory.consolidate(budget=Budget(items=1))  # the forgotten one is in cold storage by now
    reversion = memory.revert_consolidation(report.consolidation_id)
    assert dict(reversion.kept) == {ann: 'it was forgotten, with what it stands for'}
    assert contents(memory) == ['saw bob', 'saw bob']


def test_what_was_retracted_or_purged_meanwhile_does_not_come_back(memory: MemoryService) -> None:
    items = [
        event(f'saw {name}', 1000.0 + number, entities=('x',))
        for number, name in enumerate(['a'] * 4 + ['b'] * 3)
    ]
    ids = memory.write(items).ids
    report = memory.consolidate(budget=Budget(items=2))
    memory.retract(MemoryQuery(ids=(ids[0],)))
    told = memory.query(MemoryQuery(relation=('summarises', ids[5])))[0].item.id
    removal = memory.purge(MemoryQuery(ids=(ids[5],)))
    # The summary has its words.
    assert set(removal.ids) == {ids[5], told}
    assert memory.query(MemoryQuery(ids=(str(told), ids[5]), include_invalidated=True)).total == 0
    reversion = memory.revert_consolidation(report.consolidation_id)
    assert set(reversion.restored) == {ids[1], ids[2], ids[3], ids[4], ids[6]}
    assert {hit.item.id for hit in memory.query(MemoryQuery())} == set(reversion.restored)


def test_a_purge_by_words_leaves_nothing_of_them_in_any_summary(memory: MemoryService) -> None:
    memory.write([*diary(6), event('met zebedee at the gate', 1_000_100.0)])
    memory.consolidate(budget=Budget(items=1))
    assert memory.query(MemoryQuery(text='zebedee')).total == 1
    memory.purge(MemoryQuery(text='zebedee'))
    for asked in ({}, {'known_seq': 1}, {'as_of': 1_000_200.0}):
        assert memory.query(MemoryQuery(text='zebedee', include_invalidated=True, **asked)).total == 0


@pytest.mark.parametrize('left', [9, 2, 1])
def test_it_ends_between_slices_and_the_next_one_finishes_it(
    memory: MemoryService, tmp_path: Path, left: int
) -> None:
    memory.write(happenings(150, seed=4))
    copy = tmp_path / 'copy.db'
    memory.snapshot(str(copy))
    with MemoryService.open(f'sqlite:///{copy}', clock=ManualClock(NOW_S), config=SMALL) as whole:
        undisturbed = whole.consolidate(budget=Budget(items=3))
    last = undisturbed.sequence - left

    part = memory.consolidate(budget=Budget(items=3), cancelled=lambda: memory.sequence >= last)
    assert (part.cancelled, part.met, part.sequence) == (True, False, last)
    assert memory.verify().ok
    rest = memory.consolidate(budget=Budget(items=3))

    assert rest.met
    assert rest.digest_after == undisturbed.digest_after
    made = {one.id for report in (part, rest) for one in (*report.merged, *report.summarised)}
    assert made == {one.id for one in (*undisturbed.merged, *undisturbed.summarised)}


def test_others_write_between_slices_and_what_changed_meanwhile_is_left_alone(memory: MemoryService) -> None:
    ids = memory.write([event('saw it', 1000.0 + number) for number in range(32)]).ids
    told: list[tuple[float, str]] = []

    def tell(part: float, stage: str) -> None:
        told.append((part, stage))
        if stage == 'merging near duplicates' and len(memory.changes().changes) == 1:
            memory.forget(MemoryQuery(ids=(ids[3],)))
            memory.write([event('in between', 2000.0)])

    report = memory.consolidate(budget=Budget(items=1), tell=tell)
    assert set(report.skipped.values()) == {'what it was to stand for has changed meanwhile'}
    assert 'in between' in contents(memory)
    assert ids[3] not in {hit.item.id for hit in memory.query(MemoryQuery(k=100))}
    # No summary stands for it, and the others of its group became one later.
    assert memory.query(MemoryQuery(relation=('summarises', ids[3]), include_invalidated=True)).total == 0
    assert memory.query(MemoryQuery(relation=('summarises', ids[2]), include_invalidated=True)).total == 1
    parts = [part for part, _ in told]
    assert parts == sorted(parts)
    assert told[-1] == (1.0, 'done')


def test_there_is_one_at_a_time(memory: MemoryService) -> None:
    memory.write(diary(10))
    refused = []

    def tell(_: float, __: str) -> None:
        with pytest.raises(StoreBusyError, match='another consolidation'):
            memory.consolidate(budget=Budget(items=1))
        refused.append(True)

    memory.consolidate(budget=Budget(items=5), tell=tell)
    assert refused


def test_a_memory_that_was_restored_meanwhile_is_not_touched(memory: MemoryService, tmp_path: Path) -> None:
    memory.write(diary(40))
    copy = tmp_path / 'copy.db'
    memory.snapshot(str(copy))
    digest = memory.snapshot()

    def tell(_: float, stage: str) -> None:
        if stage == 'summarising' and memory.sequence == 1:
            memory.restore(str(copy))

    with pytest.raises(EpochChangedError):
        memory.consolidate(budget=Budget(items=2), tell=tell)
    assert memory.snapshot() == digest


@pytest.mark.parametrize(
    'limits', [{}, {'items': 0}, {'bytes': 0}, {'items': -1}, {'bytes': -5}, {'items': True}, {'items': 1.5}]
)
def test_a_budget_of_nothing_or_less_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r'budget|items|bytes'):
        Budget(**limits)


@pytest.mark.parametrize(
    ('asked', 'said'),
    [
        ({}, 'budget'),
        ({'budget': 5}, 'budget'),
        ({'budget': Budget(items=1), 'kinds': ['working']}, 'working'),
        ({'budget': Budget(items=1), 'kinds': []}, 'kinds'),
        ({'budget': Budget(items=1), 'kinds': ['nonsense']}, 'nonsense'),
        ({'budget': Budget(items=1), 'scope': {'': 'x'}}, 'scope'),
        ({'budget': Budget(items=1), 'scope': {'robot_id': '\x00'}}, 'scope'),
        ({'budget': Budget(items=1), 'scope': {'t': 1}}, r"scope\['t'\]"),
        ({'budget': Budget(items=1), 'scope': {1: 't'}}, 'scope'),
        ({'budget': Budget(items=1), 'scope': 'x'}, 'scope'),
        ({'budget': Budget(items=1), 'kinds': 5}, 'kinds'),
        ({'budget': Budget(items=1), 'kinds': 'episodic'}, 'kinds'),
        ({'budget': Budget(items=1), 'actor': '\ud800'}, 'actor'),
        ({'budget': Budget(items=1), 'actor': 5}, 'actor'),
    ],
)
def test_a_request_that_is_not_sound_is_refused_by_name(
    memory: MemoryService, asked: dict[str, Any], said: str
) -> None:
    memory.write(diary(5))
    before = memory.snapshot(), memory.sequence
    with pytest.raises(HyloMemoryError, match=said):
        memory.consolidate(**asked)
    assert (memory.snapshot(), memory.sequence) == before


def test_a_scope_that_matches_nothing_gives_an_empty_report(memory: MemoryService) -> None:
    memory.write(diary(5))
    report = memory.consolidate({'robot_id': 'nobody'}, Budget(items=1))
    assert (report.items_before, report.items_after, report.met) == (0, 0, True)
    assert (report.merged, report.summarised, report.aged, report.consolidation_id) == ((), (), (), '')


def test_a_scope_leaves_what_is_not_in_it(memory: MemoryService) -> None:
    both = [one.model_copy(update={'scope': {'robot_id': name}}) for name in ('r1', 'r2') for one in diary(8)]
    memory.write(both)
    report = memory.consolidate({'robot_id': 'r1'}, Budget(items=1))
    assert report.items_before == 8
    assert memory.query(MemoryQuery(scope={'robot_id': 'r1'})).total == 1
    assert memory.query(MemoryQuery(scope={'robot_id': 'r2'})).total == 8


@pytest.mark.parametrize(
    'name',
    ['', 'nonsense', 'consolidation/', 'consolidation/0', 'consolidation/01', f'consolidation/{10**30}'],
)
def test_an_unknown_consolidation_is_refused(memory: MemoryService, name: str) -> None:
    with pytest.raises(NotFoundError):
        memory.revert_consolidation(name)


@pytest.mark.parametrize(
    'asked', [{'consolidation_id': 5}, {'consolidation_id': 'consolidation/1', 'actor': 5}]
)
def test_a_reversal_of_what_is_no_name_is_refused(memory: MemoryService, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match='is no text'):
        memory.revert_consolidation(**asked)


def test_a_file_that_was_opened_for_reading_is_only_looked_at(memory: MemoryService, path: Path) -> None:
    memory.write(diary(10))
    with MemoryService.open(
        f'sqlite:///{path}', clock=ManualClock(NOW_S), config=SMALL, read_only=True
    ) as reading:
        dry = reading.consolidate(budget=Budget(items=2), dry_run=True)
        with pytest.raises(ReadOnlyError):
            reading.consolidate(budget=Budget(items=2))
    assert memory.consolidate(budget=Budget(items=2)).summarised == dry.summarised


def test_its_record_is_kept(memory: MemoryService) -> None:
    memory.write(diary(10))
    report = memory.consolidate({}, Budget(items=2), kinds=[MemoryKind.EPISODIC], actor='ann')
    (record,) = memory.consolidations()
    assert (record.name, record.actor) == (report.consolidation_id, 'ann')
    assert record.asked == {'scope': {}, 'budget': {'items': 2}, 'kinds': ['episodic']}
    assert record.report is not None
    assert record.report['summarised_count'] == len(report.summarised)
    assert json.dumps(report.as_dict())
    assert report.as_dict(1)['summarised'] == [
        {'id': report.summarised[0].id, 'ids': report.summarised[0].ids}
    ]
    assert isinstance(report.summarised[0], Condensed)


def test_in_memory_what_gave_way_is_not_at_hand_any_more(clock: ManualClock) -> None:
    with MemoryService.open(clock=clock) as memory:
        memory.write(diary(20))
        report = memory.consolidate(budget=Budget(items=3))
        assert (report.met, report.aged) == (True, ())
        assert memory.verify().ok
        assert memory.revert_consolidation(report.consolidation_id).digest == report.digest_before
