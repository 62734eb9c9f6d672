"""The newest rows of a partition, however they arrived."""

from __future__ import annotations

import math
import random

import pytest

from hylo_memory_ros.index.spatial import OPEN
from hylo_memory_ros.index.spatial.segments import Ball, DeltaSegment

ALWAYS = -OPEN, OPEN, 1


def grown(steps: list[int], side: float) -> tuple[DeltaSegment, list[tuple[float, float, float]]]:
    rng = random.Random(1)
    delta, points = DeltaSegment(live=True), []
    for step in steps:
        added = [(rng.uniform(0, side), rng.uniform(0, side), rng.uniform(0, 1)) for _ in range(step)]
        first = len(points)
        delta.extend([(first + i + 1, 0, OPEN, 1, 1, OPEN) for i in range(step)], added)
        points += added
    return delta, points


@pytest.mark.parametrize('steps', [[1] * 200, [1, 40, 3, 100, 1], [6000, 1], [4000, 100, 1, 1]])
@pytest.mark.parametrize('side', [0.0, 10.0, 1000.0])
def test_finds_what_lies_within_however_it_grew(steps: list[int], side: float) -> None:
    delta, points = grown(steps, side)
    delta.erase(delta.locate(delta.rows[0, 3:5]))
    for center in [*points[:20], (side / 2, side / 2, 0.5)]:
        for horizontal in (False, True):
            axes = 2 if horizontal else 3
            index, _ = delta.match(Ball(center, 1.0, horizontal), ALWAYS)
            expected = [
                i
                for i, p in enumerate(points)
                if math.dist(p[:axes], center[:axes]) <= 1.0 and i not in (3, 4)
            ]
            assert sorted(index.tolist()) == expected


def test_a_row_added_after_a_scrub_is_found_and_the_erased_are_not() -> None:
    delta, points = grown([5], 10.0)
    delta.erase(delta.locate(delta.rows[0, :2]))
    delta.extend([(99, 0, OPEN, 1, 1, OPEN)], [points[0]])
    index, _ = delta.match(Ball(points[0], 0.0, horizontal=False), ALWAYS)
    assert index.tolist() == [5]
    assert delta.locate(delta.rows[0, :6]).tolist() == [-1, -1, 2, 3, 4, 5]
    assert (len(delta), delta.erased) == (6, 2)
