"""Two ways to ask a tree."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.spatial import cKDTree

from hylo_memory_ros.index import _probe
from hylo_memory_ros.index._ball import Ball


def test_whatever_way_is_in_use_answers_as_the_usual_one() -> None:
    assert _probe.agree(_probe.near, _probe.ask)


def test_where_the_point_cannot_be_moved_trees_are_asked_the_usual_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: object) -> None:
        raise ValueError('cannot set WRITEABLE flag to True of this array')

    monkeypatch.setattr(_probe.Probe, '__init__', refuse)
    assert _probe.quickest() is _probe.ask


def test_a_way_that_answers_otherwise_is_found_out() -> None:
    assert not _probe.agree(lambda tree, ball: _probe.ask(tree, ball)[1:], _probe.ask)
    # As it would be if scipy kept the point, or the box around it, as it was at first.
    first = Ball((0.0, 0.0, 0.0), 2.0, planar=False), Ball((0.0, 0.0, 0.0), 2.0, planar=True)
    assert not _probe.agree(lambda tree, ball: _probe.ask(tree, first[ball.planar]), _probe.ask)


def test_both_ways_agree_on_random_points_from_several_threads() -> None:
    rng = np.random.default_rng(1)
    points = rng.uniform(-50.0, 50.0, (20_000, 3))
    trees = cKDTree(points), cKDTree(np.ascontiguousarray(points[:, :2]))
    start = threading.Barrier(4)

    def compare(seed: int) -> None:
        rng = np.random.default_rng(seed)
        start.wait()
        for number in range(300):
            planar = number % 2 == 1
            ball = Ball(tuple(rng.uniform(-60.0, 60.0, 3)), rng.uniform(0.0, 8.0), planar)
            assert sorted(_probe.near(trees[planar], ball)) == sorted(_probe.ask(trees[planar], ball))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(compare, range(4)))
