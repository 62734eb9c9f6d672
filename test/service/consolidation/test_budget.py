"""Only as much is done as the budget needs, in order; a dry run and a second memory tell the same."""

from __future__ import annotations

from pathlib import Path

from service.consolidation.pieces import NOW_S, contents, diary, event
from support.clock import ManualClock

from bench.consolidation import happenings
from hylo_memory_ros.config import ConsolidationSettings, MemoryConfig
from hylo_memory_ros.model import Budget, MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService


def test_only_as_much_is_done_as_the_budget_needs_oldest_first(memory: MemoryService) -> None:
    memory.write([event('saw it', 1000.0 + number) for number in range(6)] + diary(6))
    report = memory.consolidate(budget=Budget(items=9))
    assert [len(one.ids) for one in report.merged] == [4]
    assert report.summarized == ()
    assert report.items_after == 9


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
    assert (report.merged, report.summarized, report.consolidation_id, report.hash_changed) == (
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


def test_what_holds_and_is_no_event_is_never_summarized_away(memory: MemoryService) -> None:
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
    assert (report.merged, report.summarized, report.aged, report.met) == ((), (), (), False)
    assert report.items_after == report.items_before


def test_a_budget_of_bytes_is_held(memory: MemoryService) -> None:
    memory.write(diary(60))
    held = memory.consolidate(budget=Budget(items=10**6)).bytes_before
    report = memory.consolidate(budget=Budget(bytes=held // 2))
    assert report.met
    assert report.bytes_after <= held // 2
    assert report.summarized


def test_a_dry_run_tells_exactly_what_the_run_will_do_and_changes_nothing(
    memory: MemoryService, path: Path
) -> None:
    ids = memory.write([*happenings(120, seed=4), *diary(30), event('x', 5.0), event('x', 6.0)]).ids
    memory.forget(MemoryQuery(ids=ids[:7]))
    before = memory.snapshot(), memory.sequence, contents(memory)

    dry = memory.consolidate(budget=Budget(items=50), dry_run=True)

    assert (memory.snapshot(), memory.sequence, contents(memory)) == before
    assert not path.with_name('memory.db.archive').exists()
    assert memory.consolidations() == ()
    assert (dry.dry_run, dry.digest_after, dry.hash_changed) == (True, dry.digest_before, True)

    wet = memory.consolidate(budget=Budget(items=50))

    assert (wet.merged, wet.summarized, wet.aged) == (dry.merged, dry.summarized, dry.aged)
    assert (wet.items_after, wet.bytes_after, wet.met) == (dry.items_after, dry.bytes_after, dry.met)
    assert (wet.merged != (), wet.summarized != (), len(wet.aged) > 7) == (True, True, True)


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
    assert (first.merged, first.summarized, first.digest_after) == (
        second.merged,
        second.summarized,
        second.digest_after,
    )
    assert sorted(first.aged) == sorted(second.aged)
