"""The same observations give the same memory, however they arrive and whenever it is stored."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from perception.pieces import (
    NS,
    Turning,
    a_bag,
    a_pipeline,
    feed,
    is_complete,
    open_memory,
    recorded,
    state_of,
    two_cameras,
)

from hylo_memory_ros.perception import Message


@pytest.fixture(scope='module')
def bag() -> list[Message]:
    return a_bag()


@pytest.fixture(scope='module')
def expected(bag: list[Message]) -> tuple[object, ...]:
    with open_memory() as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        assert set(feed(pipeline, bag)) == {'pending'}
        pipeline.close()
        assert is_complete(memory)
        return state_of(memory)


def test_something_was_learned(bag: list[Message], expected: tuple[object, ...]) -> None:
    _, landmarks, ledger, _ = expected
    assert 12 <= len(landmarks) <= 14
    assert len(ledger) == sum(len(message.detections) for message in bag)
    assert all(record.landmark for record in ledger)


@pytest.mark.parametrize('every', [1, 7, 1000])
def test_commits_do_not_matter(bag: list[Message], expected: tuple[object, ...], every: int) -> None:
    with open_memory() as memory:
        pipeline = a_pipeline(memory, two_cameras(statistics_interval_s=0.0), Turning())
        feed(pipeline, bag, commit_every=every)
        pipeline.close()
        assert state_of(memory) == expected


@pytest.mark.parametrize('seed', range(4))
def test_arrival_within_the_window_does_not_matter(
    bag: list[Message], expected: tuple[object, ...], seed: int
) -> None:
    rng = random.Random(seed)
    delayed = sorted(bag, key=lambda message: message.stamp_ns + rng.uniform(0.0, 0.45) * NS)
    with open_memory() as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        assert set(feed(pipeline, delayed, commit_every=23)) == {'pending'}
        pipeline.close()
        assert state_of(memory) == expected
        assert is_complete(memory)


def test_one_input_after_the_other_within_the_silence(
    bag: list[Message], expected: tuple[object, ...]
) -> None:
    """Chunks of 4 s of one camera, then of the other: the watermark waits for the slower one."""
    chunks = sorted(bag, key=lambda message: (message.stamp_ns // (4 * NS), message.input, message.stamp_ns))
    with open_memory() as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        assert set(feed(pipeline, chunks)) == {'pending'}
        pipeline.close()
        assert state_of(memory) == expected


def test_transforms_that_lag_do_not_matter(bag: list[Message], expected: tuple[object, ...]) -> None:
    with open_memory() as memory:
        robot = Turning(known_until_ns=0)
        pipeline = a_pipeline(memory, two_cameras(), robot)
        for message in bag:
            pipeline.offer(message)
            pipeline.poll()
            robot.known_until_ns = message.stamp_ns - 2 * NS
            pipeline.on_transforms()
        assert pipeline.flush() > 0
        robot.known_until_ns = None
        pipeline.on_transforms()
        pipeline.close()
        assert state_of(memory) == expected
        assert is_complete(memory)


def test_a_second_loop_changes_nothing(bag: list[Message], expected: tuple[object, ...]) -> None:
    with open_memory() as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        feed(pipeline, bag, commit_every=50)
        pipeline.on_clock_jump()
        for _ in range(2):
            assert set(feed(pipeline, bag, commit_every=50)) == {'repeated'}
            pipeline.on_clock_jump()
        pipeline.close()
        assert state_of(memory) == expected
        assert is_complete(memory)
        assert sum(one.repeated for one in pipeline.status().inputs) == 2 * len(bag)


def test_a_restart_in_the_middle_changes_nothing(
    bag: list[Message], expected: tuple[object, ...], tmp_path: Path
) -> None:
    path = tmp_path / 'memory.db'
    half = len(bag) // 2
    with open_memory(path) as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        feed(pipeline, bag[:half], commit_every=20)
        pipeline.close()
    with open_memory(path) as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        assert set(feed(pipeline, bag[half:], commit_every=20)) == {'pending'}
        pipeline.close()
        assert state_of(memory) == expected


@pytest.mark.parametrize('forced', [True, False])
def test_a_killed_process_goes_on_from_its_last_commit(
    bag: list[Message], expected: tuple[object, ...], tmp_path: Path, forced: bool
) -> None:
    path = tmp_path / 'memory.db'
    with open_memory(path) as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        feed(pipeline, bag[:150])
        pipeline.commit(force=forced)
        feed(pipeline, bag[150:200])
        kept = len(recorded(memory))
    with open_memory(path) as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        outcomes = feed(pipeline, bag, commit_every=20)
        assert outcomes.count('repeated') > 100
        assert 'late' not in outcomes
        pipeline.close()
        assert 0 < kept < len(recorded(memory))
        assert state_of(memory) == expected
        assert is_complete(memory)


def test_a_replay_after_a_restart_changes_nothing(
    bag: list[Message], expected: tuple[object, ...], tmp_path: Path
) -> None:
    path = tmp_path / 'memory.db'
    for run in range(3):
        with open_memory(path) as memory:
            pipeline = a_pipeline(memory, two_cameras(), Turning())
            assert set(feed(pipeline, bag, commit_every=30)) == ({'repeated'} if run else {'pending'})
            pipeline.close()
            assert state_of(memory) == expected


def test_what_came_too_late_makes_it_incomplete_for_ever(bag: list[Message], tmp_path: Path) -> None:
    path = tmp_path / 'memory.db'
    late, others = bag[20], bag[:20] + bag[21:]
    with open_memory(path) as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        feed(pipeline, others)
        assert pipeline.offer(late) == 'late'
        pipeline.close()
        assert not is_complete(memory)
    with open_memory(path) as memory:
        pipeline = a_pipeline(memory, two_cameras(), Turning())
        assert not is_complete(memory)
        status = {one.name: one for one in pipeline.status().inputs}
        # The counts of a status are those of its own run.
        assert status[late.input].late == 0
        assert pipeline.offer(late) == 'late'
        assert pipeline.offer(others[0]) == 'repeated'
