"""Radius test of points: `math.dist` decides, however the distance was measured first."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.index.spatial.segments import Ball

metres = st.floats(-1e9, 1e9) | st.floats(-1.0, 1.0) | st.sampled_from([0.0, 5e-324, 1e-160, 1e-12, 0.1])
points = st.tuples(metres, metres, metres)


@pytest.mark.parametrize('few', [True, False])
@pytest.mark.parametrize('horizontal', [True, False])
@given(center=points, stored=st.lists(points, min_size=1, max_size=8), which=st.integers(0, 7))
@example(center=(0.0, 0.0, 0.0), stored=[(0.3, 0.1, 0.2)], which=0)
@example(center=(0.0, 0.0, 0.0), stored=[(1e-170, 0.0, 0.0), (1e-200, 0.0, 0.0)], which=1)
def test_inside_is_what_math_dist_says_at_the_radius_of_a_point_and_just_below(
    few: bool, horizontal: bool, center: tuple[float, ...], stored: list[tuple[float, ...]], which: int
) -> None:
    stored = stored if few else stored * 10
    axes = 2 if horizontal else 3
    distances = [math.dist(point[:axes], center[:axes]) for point in stored]
    radius = distances[which % len(distances)]
    for r in (radius, math.nextafter(radius, 0.0), math.nextafter(radius, math.inf)):
        ball = Ball(center, r, horizontal)
        inside = ball.contains(np.array(stored))
        assert inside.tolist() == [distance <= r for distance in distances]
        assert ball.distances(np.array(stored)) == distances


@pytest.mark.parametrize('radius', [1e153, 1e154, 1e200, sys.float_info.max])
def test_any_finite_radius_is_one(radius: float) -> None:
    ball = Ball((0.0, 0.0, 0.0), radius, horizontal=False)
    assert ball.contains(np.array([[1e9, -1e9, 1e9]])).all()
    assert math.isfinite(ball.reach)


@pytest.mark.parametrize('radius', [-1.0, math.nan, math.inf])
def test_a_radius_that_is_no_radius_is_refused(radius: float) -> None:
    with pytest.raises(InvalidRequestError, match='radius_m'):
        Ball((0.0, 0.0, 0.0), radius, horizontal=False)


@pytest.mark.parametrize(
    'center',
    [
        (),
        (0.0, 0.0),
        (0.0,) * 4,
        (0.0, 0.0, math.nan),
        (math.nan, 0.0, 1.0),
        (math.inf, 0.0, 0.0),
        (0.0, 1e200, 0.0),
    ],
)
def test_a_center_that_is_no_point_is_refused(center: tuple[float, ...]) -> None:
    with pytest.raises(InvalidRequestError, match='center'):
        Ball(center, 1.0, horizontal=False)


@pytest.mark.parametrize('center', [(0, 0, 0), [0.0, 0.0, 0.0], np.zeros(3), np.zeros(3, np.float32)])
def test_a_center_may_be_any_three_numbers(center: object) -> None:
    ball = Ball(center, 1, horizontal=False)  # type: ignore[arg-type]
    assert ball.contains(np.array([[0.5, 0.0, 0.0]])).all()
    assert ball.distances(np.array([[0.5, 0.0, 0.0]])) == [0.5]
