"""Ended early, and beside others who write, restore or consolidate between its slices."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from service.consolidation.pieces import NOW_S, SMALL, contents, diary, event
from support.clock import ManualClock

from bench.consolidation import happenings
from hylo_memory_ros.errors import EpochChangedError, StoreBusyError
from hylo_memory_ros.model import Budget, MemoryItem, MemoryKind, MemoryQuery
from hylo_memory_ros.service import MemoryService


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
    made = {one.id for report in (part, rest) for one in (*report.merged, *report.summarized)}
    assert made == {one.id for one in (*undisturbed.merged, *undisturbed.summarized)}


def test_others_write_between_slices_and_what_changed_meanwhile_is_left_alone(memory: MemoryService) -> None:
    ids = memory.write([event('saw it', 1000.0 + number) for number in range(32)]).ids
    told: list[tuple[float, str]] = []

    def tell(part: float, stage: str) -> None:
        told.append((part, stage))
        if stage == 'merging near duplicates' and len(memory.changes().changes) == 1:
            memory.forget(MemoryQuery(ids=(ids[3],)))
            memory.write([event('in between', 2000.0)])

    report = memory.consolidate(budget=Budget(items=1), on_progress=tell)
    assert set(report.skipped.values()) == {'what it was to stand for has changed meanwhile'}
    # What was not made was to gain something, which what came in between gains in its place.
    assert report.items_after == 2, 'the summary, and what was forgotten'
    (text,) = contents(memory)
    assert text.endswith(':\nsaw it. (x31)\nin between.')
    assert ids[3] not in {hit.item.id for hit in memory.query(MemoryQuery(k=100))}
    # No summary stands for what was forgotten, and the others of its group became one later.
    event_count = Counter(name for one in (*report.merged, *report.summarized) for name in one.ids)
    assert (event_count[ids[3]], event_count[ids[2]]) == (0, 1)
    assert memory.query(MemoryQuery(relation=('summarizes', ids[3]), include_invalidated=True)).total == 0
    parts = [part for part, _ in told]
    assert parts == sorted(parts)
    assert told[-1] == (1.0, 'done')


def test_an_id_that_is_given_meanwhile_is_told(memory: MemoryService) -> None:
    memory.write(diary(16, first_s=86400.0 * 12))
    taken = memory.consolidate(budget=Budget(items=2), dry_run=True).summarized[0].id

    def tell(part: float, stage: str) -> None:
        if stage == 'summarizing' and part > 0 and memory.sequence == 1:
            memory.write([MemoryItem(id=taken, kind='semantic', content='mine', valid_from=1)])

    report = memory.consolidate(budget=Budget(items=2), kinds=[MemoryKind.EPISODIC], on_progress=tell)
    assert report.skipped[taken] == 'its id is that of another statement'
    assert len(report.summarized) >= 1


def test_there_is_one_at_a_time(memory: MemoryService) -> None:
    memory.write(diary(10))
    refused = []

    def tell(_: float, __: str) -> None:
        with pytest.raises(StoreBusyError, match='another consolidation'):
            memory.consolidate(budget=Budget(items=1))
        refused.append(True)

    memory.consolidate(budget=Budget(items=5), on_progress=tell)
    assert refused


def test_a_memory_that_was_restored_meanwhile_is_not_touched(memory: MemoryService, tmp_path: Path) -> None:
    memory.write(diary(40))
    copy = tmp_path / 'copy.db'
    memory.snapshot(str(copy))
    digest = memory.snapshot()

    def tell(_: float, stage: str) -> None:
        if stage == 'summarizing' and memory.sequence == 1:
            memory.restore(str(copy))

    with pytest.raises(EpochChangedError):
        memory.consolidate(budget=Budget(items=2), on_progress=tell)
    assert memory.snapshot() == digest
