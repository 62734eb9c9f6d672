"""A consolidation is taken back to the same hash; what was removed since does not come back."""

from __future__ import annotations

from typing import Any

import pytest
from service.consolidation.pieces import NOW_S, contents, diary, event
from support.clock import ManualClock

from bench.consolidation import happenings
from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import Budget, MemoryQuery
from hylo_memory_ros.service import MemoryService


def test_a_consolidation_is_taken_back_to_the_same_hash(memory: MemoryService) -> None:
    memory.write([*happenings(80, seed=4), *(event('x', 5.0 + number) for number in range(5))])
    before, open_before = memory.snapshot(), contents(memory)
    report = memory.consolidate(budget=Budget(items=20))
    summaries = [one.id for one in (*report.merged, *report.summarized)]

    reversion = memory.revert_consolidation(report.consolidation_id, actor='ann')

    assert (reversion.digest, memory.snapshot(), contents(memory)) == (before, before, open_before)
    assert sorted(reversion.withdrawn) == sorted(summaries)
    assert sorted(reversion.restored) == sorted(
        name for one in (*report.merged, *report.summarized) for name in one.ids
    )
    assert memory.query(MemoryQuery(ids=tuple(summaries))).total == 0
    # What was known in between stays answerable.
    assert memory.query(MemoryQuery(ids=tuple(summaries), known_seq=report.sequence, k=0)).total == len(
        summaries
    )
    with pytest.raises(InvalidRequestError, match='reverted before'):
        memory.revert_consolidation(report.consolidation_id)
    again = memory.consolidate(budget=Budget(items=20))
    assert {one.id for one in again.summarized}.isdisjoint(summaries)
    assert again.digest_after == report.digest_after


def test_what_was_consolidated_again_is_reverted_in_order_only(
    memory: MemoryService, clock: ManualClock
) -> None:
    memory.write(diary(64, first_s=86400.0 * 12))
    first = memory.consolidate(budget=Budget(items=8))
    assert len(first.summarized) == 8
    clock.set(NOW_S + 1.0)
    second = memory.consolidate(budget=Budget(items=1))
    assert second.met
    (top,) = second.summarized
    assert set(top.ids) == {one.id for one in first.summarized}
    (hit,) = memory.query(MemoryQuery())
    assert hit.item.payload['consolidated']['stands_for'] == 64

    with pytest.raises(InvalidRequestError, match=f'again by {second.consolidation_id}'):
        memory.revert_consolidation(first.consolidation_id)
    memory.revert_consolidation(second.consolidation_id)
    reversion = memory.revert_consolidation(first.consolidation_id)
    assert len(reversion.restored) == 64
    assert reversion.digest == first.digest_before


def test_what_was_forgotten_as_the_summary_of_summaries_stays_forgotten(
    memory: MemoryService, clock: ManualClock
) -> None:
    memory.write(diary(40, first_s=86400.0 * 12))
    report = memory.consolidate(budget=Budget(items=1))
    assert len(report.summarized) == 6
    clock.set(NOW_S + 1.0)
    memory.forget(MemoryQuery(ids=(report.summarized[-1].id,)))
    reversion = memory.revert_consolidation(report.consolidation_id)
    assert set(reversion.kept) == {one.id for one in report.summarized}
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
    memory.consolidate(budget=Budget(items=1))  # the forgotten one is in the archive by now
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
    told = memory.query(MemoryQuery(relation=('summarizes', ids[5])))[0].item.id
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
    with pytest.raises(InvalidRequestError, match='expected a text'):
        memory.revert_consolidation(**asked)
