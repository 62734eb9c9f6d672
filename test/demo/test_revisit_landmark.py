"""What a memory is worth to a robot that sees its target only from nearby; stale and wrong ones included."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from demo.__main__ import main
from demo.revisit_landmark.experiment import EPISODES, MOVED, WRONG, Episode, Result, run
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService

NEAR_M = 0.05


@pytest.fixture(scope='module')
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp('revisit') / 'memory.db'


@pytest.fixture(scope='module')
def result(file: Path) -> Result:
    return run(file)


def believes_the_truth(episode: Episode) -> bool:
    return len(episode.believed) == 1 and math.dist(episode.believed[0], episode.target) < NEAR_M


def test_after_the_first_episode_it_needs_less_than_half_of_the_steps(result: Result) -> None:
    assert result.ratio <= 0.5
    first, *later = result.episodes
    assert first.mode == 'explored'
    assert first.with_memory == first.without
    straight = [one for one in later if one.number not in (MOVED, WRONG)]
    assert {one.mode for one in straight} == {'went straight'}
    assert max(one.with_memory for one in straight) < first.without


def test_every_episode_ends_at_the_target_and_with_a_true_memory(result: Result) -> None:
    assert len(result.episodes) == EPISODES
    for one in result.episodes:
        assert math.dist(one.path[-1], one.target) <= result.room.sight_m
        assert believes_the_truth(one), one.number


def test_a_stale_memory_is_noticed_and_corrected(result: Result, file: Path) -> None:
    before, moved = result.episodes[MOVED - 2 : MOVED]
    assert moved.mode == 'was wrong, corrected'
    # It went to the old place first.
    assert min(math.dist(place, before.target) for place in moved.path) < NEAR_M
    with MemoryService.open(f'sqlite:///{file}', read_only=True) as memory:
        history = memory.query(MemoryQuery(labels=['target'], any_map=True, include_invalidated=True, k=99))
        places = [hit.item.pose.position[:2] for hit in history if hit.item.pose is not None]
    for place in (before.target, moved.target):
        assert any(math.dist(place, known) < NEAR_M for known in places)


def test_a_wrong_landmark_written_by_hand_is_corrected(result: Result, file: Path) -> None:
    wrong = result.episodes[WRONG - 1]
    assert wrong.mode == 'was wrong, corrected'
    assert wrong.with_memory < wrong.without
    with MemoryService.open(f'sqlite:///{file}', read_only=True) as memory:
        assert not memory.query(MemoryQuery(key='target/by-hand', any_map=True, include_stale=True))
        (hit,) = memory.query(MemoryQuery(key='target/by-hand', any_map=True, include_invalidated=True))
        assert hit.status == 'ended'
        assert memory.verify().ok


@pytest.mark.parametrize('seed', range(2, 5))
def test_it_does_not_depend_on_the_places(seed: int) -> None:
    result = run(seed=seed)
    assert result.ratio <= 0.5
    assert all(believes_the_truth(one) for one in result.episodes)


def test_the_same_seed_gives_the_same_steps_and_the_same_memory(result: Result) -> None:
    again = run()
    assert (again.episodes, again.snapshot) == (result.episodes, result.snapshot)


def test_the_demonstration_draws_a_picture_and_ends_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['revisit_landmark', '--out', str(tmp_path)]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told['steps_ratio'] <= 0.5
    assert (tmp_path / 'revisit_landmark.png').read_bytes().startswith(b'\x89PNG')
    # A second run begins with an empty memory.
    assert main(['revisit_landmark', '--out', str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == told
