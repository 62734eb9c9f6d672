"""A mirror that no longer equals the store is found out, and loaded anew."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService


def lamp(x: float) -> MemoryItem:
    return MemoryItem(
        kind='spatial',
        key='lamp',
        content='lamp',
        pose=Pose(frame_id='map', position=(x, 0, 0)),
        valid_from=1,
    )


def near(x: float) -> MemoryQuery:
    return MemoryQuery(near=(Pose(frame_id='map', position=(x, 0, 0)), 0.5))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'memory.db'


@pytest.fixture
def moved(path: Path):
    """A memory in whose file a lamp was moved from 1 to 5 m behind its back."""
    with MemoryService.open(f'sqlite:///{path}') as memory:
        memory.write([lamp(1.0)])
        with sqlite3.connect(path) as behind:
            behind.execute('UPDATE spatial SET x = 5.0')
        behind.close()
        yield memory


def test_a_difference_is_named_and_mended(moved: MemoryService, caplog: pytest.LogCaptureFixture) -> None:
    assert len(moved.query(near(1.0))) == 1
    (problem,) = moved.verify_mirror()
    assert 'position' in problem
    assert any(record.levelname == 'ERROR' for record in caplog.records)
    assert (len(moved.query(near(1.0))), len(moved.query(near(5.0)))) == (0, 1)
    assert moved.verify_mirror() == ()


def test_verification_tells_of_it(moved: MemoryService) -> None:
    report = moved.verify()
    assert not report.ok
    assert any(problem.startswith('mirror:') for problem in report.problems)
    # The moved lamp no longer has the digest that it was stored with either.
    assert any('digest' in problem for problem in report.problems)


def test_a_sound_mirror_is_left_alone(path: Path) -> None:
    with MemoryService.open(f'sqlite:///{path}') as memory:
        memory.write([lamp(1.0)])
        memory.forget(MemoryQuery(key='lamp'))
        assert memory.verify_mirror() == ()


def test_it_is_loaded_in_the_background(path: Path) -> None:
    with MemoryService.open(f'sqlite:///{path}') as memory:
        memory.write([lamp(1.0)])
    with MemoryService.open(f'sqlite:///{path}', background=True) as memory:
        assert memory.wait_ready(30.0)
        assert len(memory.query(near(1.0))) == 1
