"""Keyframes begin when the base moved, turned or rested, and are in force until the next one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from perception.pieces import NS, some_settings

from hylo_memory_ros.perception.map.sightings import Keyframes
from hylo_memory_ros.transforms import Transform


def turned(yaw: float, x: float = 0.0) -> Transform:
    return Transform((x, 0.0, 0.0), (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)))


@pytest.mark.parametrize(
    ('pose', 'after_s', 'number'),
    [
        (turned(0.0, 0.49), 1, 1),
        (turned(0.0, 0.5), 1, 2),
        (turned(math.radians(14.9)), 1, 1),
        (turned(math.radians(-15.1)), 1, 2),
        (turned(math.radians(359.0)), 1, 1),
        (turned(0.0), 59, 1),
        (turned(0.0), 60, 2),
    ],
)
def test_a_new_one_begins_when_due(pose: Transform, after_s: int, number: int) -> None:
    frames = Keyframes(some_settings())
    assert frames.advance(NS, turned(0.0)) == 1
    assert frames.advance(NS + after_s * NS, pose) == number


def test_one_is_in_force_until_the_next() -> None:
    frames = Keyframes(some_settings())
    for second in range(1, 200):
        frames.advance(second * NS, turned(0.0, second * 0.6))
    assert len(frames) == 199
    assert [frames.at(stamp) for stamp in (NS - 1, NS, 2 * NS - 1, 2 * NS, 999 * NS)] == [-1, 0, 0, 1, 198]
    assert frames.pose(1).translation == (1.2, 0.0, 0.0)


def test_what_is_stored_comes_back() -> None:
    frames = Keyframes(some_settings())
    for second in range(1, 5):
        frames.advance(second * NS, turned(0.3 * second, float(second)))
    changes = frames.take_changes()
    assert [change.number for change in changes] == [1, 2, 3, 4]
    assert frames.take_changes() == []
    frames.put_back(changes[2:])
    assert [change.number for change in frames.take_changes()] == [3, 4]
    columns = dict(zip(('number', 'stamp_ns', 'pose'), zip(*changes, strict=True), strict=True))
    again = Keyframes(some_settings(), columns)
    assert again.columns.tobytes() == frames.columns.tobytes()
    again.replace_poses(np.array([1]), [(9.0, 9.0, 0.0)], [(0.0, 0.0, 0.0, 1.0)])
    assert again.pose(1).translation == (9.0, 9.0, 0.0)
    assert [change.number for change in again.take_changes()] == [2]
