"""What was said before stays answerable, and what was judged goes on with what stands for it."""

from __future__ import annotations

from typing import Any

from service.consolidation.pieces import NOW_S, diary, event
from support.clock import ManualClock
from support.effort import scaled

from bench._past import answers, random_questions
from bench.consolidation import happenings
from hylo_memory_ros.model import Budget, MemoryQuery
from hylo_memory_ros.service import MemoryService


def test_a_thousand_questions_about_before_are_answered_as_before(memory: MemoryService) -> None:
    items = [*happenings(300, seed=7), *diary(40)]
    ids: list[str] = []
    for first in range(0, len(items), 20):
        ids += memory.write(items[first : first + 20]).ids
    questions = random_questions(items, ids, memory.sequence, scaled(1000), seed=8)
    known, last = answers(memory, questions), memory.sequence
    told = [memory.history(one).versions[0] for one in ids]

    report = memory.consolidate(budget=Budget(items=9))

    assert report.met
    assert max(hit.item.payload['consolidated']['level'] for hit in memory.query(MemoryQuery(k=50))) > 1
    assert memory.sequence > last
    again = answers(memory, questions)
    assert [place for place in range(len(questions)) if again[place] != known[place]] == []
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
    assert judged() == [(second.summarized[-1].id, 3, 1)]
    assert len(memory.query(MemoryQuery(min_helpfulness=0.5))) == 1
    for report in (second, first):
        memory.revert_consolidation(report.consolidation_id)
    assert judged() == before
    assert memory.verify().problems == ()


def test_in_memory_what_gave_way_is_not_at_hand_any_more(clock: ManualClock) -> None:
    with MemoryService.open(clock=clock) as memory:
        memory.write(diary(20))
        report = memory.consolidate(budget=Budget(items=3))
        assert (report.met, report.aged) == (True, ())
        assert memory.verify().ok
        assert memory.revert_consolidation(report.consolidation_id).digest == report.digest_before
