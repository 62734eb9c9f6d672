"""Every kind within its limits: condensed, aged out, and what still holds told instead of dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.clock import NS, ManualClock

from hylo_memory_ros.config import KindLimits, MemoryConfig, Retention
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

START_S = 1_000_000.0
Opened = Callable[..., MemoryService]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_S)


@pytest.fixture
def opened(tmp_path: Path, clock: ManualClock) -> Iterator[Opened]:
    """Open memories with limits; each is verified at the end."""
    memories: list[MemoryService] = []

    def open_with(**limits: Any) -> MemoryService:
        path = tmp_path / f'{len(memories)}.db'
        config = MemoryConfig(retention=Retention(**limits))
        memories.append(MemoryService.open(f'sqlite:///{path}', clock=clock, config=config))
        return memories[-1]

    yield open_with
    for memory in memories:
        assert memory.verify().problems == ()
        memory.close()


def event(number: int) -> MemoryItem:
    return MemoryItem(
        kind='episodic',
        content=f'met person {number} at door {number % 7}',
        valid_from=START_S - 5000 + number,
    )


def place(key: str, x: float, at: float) -> MemoryItem:
    pose = Pose(frame_id='map', position=(x, 0.0, 0.0))
    return MemoryItem(kind='spatial', key=key, content=key, pose=pose, valid_from=at)


def moved(times: int, at: float = START_S - 1000.0) -> list[MemoryItem]:
    """Return a thing that was seen in one place after another."""
    return [place('mug', float(n), at + n) for n in range(times)]


def test_fill_levels_follow_what_is_written(opened: Opened) -> None:
    memory = opened(episodic=KindLimits(max_items=10, max_bytes=10**6))
    memory.write([event(n) for n in range(9)])
    memory.write([MemoryItem(kind='working', key='goal', content='x')])
    fill = memory.fill()
    assert (fill['episodic'].items, fill['episodic'].part) == (9, 0.9)
    assert fill['episodic'].reached(0.8) == ('episodic: 9 of 10 items (90 %)',)
    assert (fill['working'].items, fill['working'].max_items) == (1, 1024)
    assert fill['semantic'].part == 0.0
    assert memory.over_limit() == ()
    memory.write([event(n) for n in range(9, 11)])
    assert [full.kind for full in memory.over_limit()] == ['episodic']


def test_within_limits_nothing_is_done(opened: Opened) -> None:
    memory = opened(episodic=KindLimits(max_items=100))
    memory.write([event(n) for n in range(60)])
    sequence = memory.sequence
    (kind,) = memory.retain().kinds
    assert (kind.consolidation, kind.aged, kind.problem) == (None, 0, '')
    assert memory.sequence == sequence


def test_over_a_limit_it_is_brought_to_the_target_and_the_past_answers_as_before(opened: Opened) -> None:
    memory = opened(episodic=KindLimits(max_items=100))
    memory.write([event(n) for n in range(150)])
    before = memory.query(MemoryQuery(kinds=['episodic'], known_seq=memory.sequence, k=200))
    report = memory.retain()
    assert report.problems == ()
    assert memory.fill()['episodic'].items <= 70
    again = memory.query(MemoryQuery(kinds=['episodic'], known_seq=before.sequence, k=200))
    assert [hit.item for hit in again] == [hit.item for hit in before]


def test_a_limit_far_below_what_there_is_is_held_by_one_run_and_by_each_after_it(
    opened: Opened, clock: ManualClock
) -> None:
    memory = opened(episodic=KindLimits(max_items=5))
    for turn in range(4):
        memory.write([event(400 * turn + n) for n in range(400)])
        assert memory.retain().problems == ()
        assert memory.fill()['episodic'].items <= 3
        clock.now_ns += NS
    stands_for = [hit.item.payload['consolidated']['stands_for'] for hit in memory.query(MemoryQuery())]
    assert sum(stands_for) == 1600


def test_bytes_are_a_limit_too(opened: Opened) -> None:
    memory = opened(episodic=KindLimits(max_bytes=50_000))
    memory.write([event(n) for n in range(150)])
    assert [full.kind for full in memory.over_limit()] == ['episodic']
    assert memory.retain().problems == ()
    assert memory.fill()['episodic'].bytes <= 35_000


def test_what_has_ended_leaves_for_its_age_alone_and_changes_no_answer(opened: Opened) -> None:
    memory = opened(spatial=KindLimits(max_age_s=500.0))
    memory.write(moved(100))
    digest = memory.snapshot()
    questions = [MemoryQuery(key='mug', as_of=START_S - 1000.0 + n + 0.5) for n in range(100)]
    answers = [memory.query(question).hits for question in questions]
    (kind,) = memory.retain().kinds
    assert kind.aged >= 90
    assert kind.after.items == 100 - kind.aged
    assert memory.snapshot() == digest
    assert [memory.query(question).hits for question in questions] == answers


def test_nothing_ages_before_its_time(opened: Opened, clock: ManualClock) -> None:
    memory = opened(spatial=KindLimits(max_age_s=2000.0))
    memory.write(moved(10))
    assert memory.retain().kinds[0].aged == 0
    clock.now_ns += 3000 * NS
    assert memory.retain().kinds[0].aged > 0


def test_events_that_are_too_old_are_condensed_although_they_hold(opened: Opened, clock: ManualClock) -> None:
    memory = opened(episodic=KindLimits(max_age_s=4900.0))
    memory.write([event(n) for n in range(200)])
    memory.retain()
    assert memory.fill()['episodic'].items <= 110
    held = memory.fill()['episodic'].items
    memory.retain()
    assert memory.fill()['episodic'].items == held


def test_what_holds_is_told_and_not_dropped(opened: Opened) -> None:
    memory = opened(spatial=KindLimits(max_items=10))
    memory.write([place(f'k{n}', float(n), 1.0) for n in range(20)])
    report = memory.retain()
    assert report.problems == (
        'spatial: 20 of 10 items (200 %): what is left holds, and nothing that holds is dropped',
    )
    assert memory.query(MemoryQuery(kinds=['spatial'], k=50)).total == 20


def test_without_a_file_there_is_nowhere_to_go_and_that_is_told(clock: ManualClock) -> None:
    limits = MemoryConfig(retention=Retention(spatial=KindLimits(max_items=10, max_age_s=1.0)))
    with MemoryService.open(clock=clock, config=limits) as memory:
        memory.write(moved(20))
        assert memory.retain().problems == (
            'spatial: 20 of 10 items (200 %): a memory without a file has no archive',
        )


def test_a_run_that_is_cancelled_says_so_and_the_next_goes_on(opened: Opened) -> None:
    memory = opened(episodic=KindLimits(max_items=100))
    memory.write([event(n) for n in range(150)])
    looks = iter([False, False])
    report = memory.retain(cancelled=lambda: next(looks, True))
    assert report.cancelled
    assert memory.verify().ok
    assert not memory.retain().cancelled
    assert memory.fill()['episodic'].items <= 70


def test_a_kind_without_limits_is_refused_by_name(opened: Opened) -> None:
    memory = opened(episodic=KindLimits(max_items=100))
    with pytest.raises(InvalidRequestError, match="retain: 'spatial' has no limits"):
        memory.retain(['spatial'])


@pytest.mark.parametrize(
    'wrong', [{'max_items': -1}, {'max_bytes': -5}, {'max_age_s': -0.1}, {'max_items': 1.5}, {'max': 3}]
)
def test_limits_that_are_none_are_no_setting(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        KindLimits(**wrong)


def test_a_limit_of_zero_is_none() -> None:
    assert not KindLimits(max_items=0, max_bytes=0, max_age_s=0).any


def test_a_fact_confirmed_ten_thousand_times_keeps_to_its_limit(tmp_path: Path) -> None:
    """What still holds stays at hand; that it was said again and again is counted."""
    clock = ManualClock(20_000.0)
    config = MemoryConfig(retention=Retention(semantic=KindLimits(max_items=100)))
    asked = MemoryQuery(key='door', as_of=6_000.0)
    with MemoryService.open(f'sqlite:///{tmp_path}/m.db', clock=clock, config=config) as memory:
        for first in range(0, 10_000, 250):
            memory.write([open_door(at) for at in range(first + 1, first + 251)])
            before = memory.history(key='door'), memory.snapshot(), memory.counts()
            report = memory.retain()
            assert [one.problem for one in report.kinds] == ['']
            assert (memory.history(key='door'), memory.snapshot(), memory.counts()) == before
            assert memory.fill()['semantic'].items <= 80
        assert memory._core.store.archive.info() is None
        assert [hit.item.valid_from_ns for hit in memory.query(asked)] == [NS]
        assert [event.event for event in memory.write([open_door(10_001)]).events] == ['SKIP_DUP']
        shut = MemoryItem(kind='semantic', key='door', content='the door is shut', valid_from=5_000.5)
        assert [event.event for event in memory.write([shut]).events] == ['INVALIDATE']
        assert [hit.item.content for hit in memory.query(MemoryQuery(key='door', as_of=5_000.75))] == [
            'the door is shut'
        ]
        assert memory.verify().ok


def open_door(at: float) -> MemoryItem:
    return MemoryItem(kind='semantic', key='door', content='the door is open', valid_from=float(at))
