"""The newest rows: in order of x while they are few, all looked at when they are many."""

from __future__ import annotations

import math
import random

import pytest

from hylo_memory_ros.index import OPEN
from hylo_memory_ros.index._ball import Ball
from hylo_memory_ros.index._block import Block

ALWAYS = -OPEN, OPEN, 1


def grown(steps: list[int], side: float) -> tuple[Block, list[tuple[float, float, float]]]:
    rng = random.Random(1)
    block, points = Block(live=True), []
    for step in steps:
        added = [(rng.uniform(0, side), rng.uniform(0, side), rng.uniform(0, 1)) for _ in range(step)]
        first = len(points)
        block.extend([(first + i + 1, 0, OPEN, 1, 1, OPEN) for i in range(step)], added)
        points += added
    return block, points


@pytest.mark.parametrize('steps', [[1] * 200, [1, 40, 3, 100, 1], [6000, 1], [4000, 100, 1, 1]])
@pytest.mark.parametrize('side', [0.0, 10.0, 1000.0])
def test_finds_what_lies_within_however_it_grew(steps: list[int], side: float) -> None:
    block, points = grown(steps, side)
    block.scrub(block.locate(block.rows[0, 3:5]))
    for center in [*points[:20], (side / 2, side / 2, 0.5)]:
        for planar in (False, True):
            axes = 2 if planar else 3
            index, _ = block.match(Ball(center, 1.0, planar), ALWAYS)
            expected = [
                i
                for i, p in enumerate(points)
                if math.dist(p[:axes], center[:axes]) <= 1.0 and i not in (3, 4)
            ]
            assert sorted(index.tolist()) == expected


def test_a_row_added_after_a_scrub_is_found_and_the_scrubbed_are_not() -> None:
    block, points = grown([5], 10.0)
    block.scrub(block.locate(block.rows[0, :2]))
    block.extend([(99, 0, OPEN, 1, 1, OPEN)], [points[0]])
    index, _ = block.match(Ball(points[0], 0.0, planar=False), ALWAYS)
    assert index.tolist() == [5]
    assert block.locate(block.rows[0, :6]).tolist() == [-1, -1, 2, 3, 4, 5]
    assert (len(block), block.scrubbed) == (6, 2)
