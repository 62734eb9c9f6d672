"""A pose is finite, its quaternion unit or absent, its covariance usable or unknown."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hylo_memory_ros.model import Pose, validate_covariance

coordinates = st.floats(-1e9, 1e9)
parts = st.floats(-1.0, 1.0)


def at(*position: Any, **fields: Any) -> Pose:
    return Pose(frame_id='map', position=position, **fields)


@pytest.mark.parametrize('bad', [math.nan, math.inf, -math.inf, 1.0000001e9, -1e300])
@pytest.mark.parametrize('axis', [0, 1, 2])
def test_a_coordinate_is_finite_and_on_earth(bad: float, axis: int) -> None:
    position = [0.0, 0.0, 0.0]
    position[axis] = bad
    with pytest.raises(ValidationError, match='position'):
        at(*position)


@given(coordinates, coordinates, coordinates)
def test_coordinates_keep_every_bit(x: float, y: float, z: float) -> None:
    assert at(x, y, z).position == (x, y, z)


def test_minus_zero_is_zero() -> None:
    assert str(at(-0.0, 0, 0).position[0]) == '0.0'
    assert '-0.0' not in str(at(0, 0, 0, orientation=(-0.0, 0, 0, 1)).orientation)


@pytest.mark.parametrize('zeros', [(0, 0, 0, 0), (0.0, -0.0, 0.0, 0.0), None])
def test_exactly_zero_is_no_orientation(zeros: Any) -> None:
    assert at(0, 0, 0, orientation=zeros).orientation is None


def test_a_nearly_unit_quaternion_is_normalized() -> None:
    q = at(0, 0, 0, orientation=(0, 0, 0, 1.004)).orientation
    assert q == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    'q', [(0, 0, 0, 1.006), (0, 0, 0, 0.5), (1e-9, 0, 0, 0), (1, 1, 1, 1), (math.nan, 0, 0, 1), (0, 0, 1)]
)
def test_any_other_quaternion_is_refused(q: Any) -> None:
    with pytest.raises(ValidationError, match='orientation'):
        at(0, 0, 0, orientation=q)


@given(st.tuples(parts, parts, parts, parts).filter(lambda q: math.hypot(*q) > 0.1))
def test_normalizing_again_changes_nothing(q: tuple[float, ...]) -> None:
    size = math.hypot(*q)
    once = at(0, 0, 0, orientation=[part / size for part in q])
    assert at(0, 0, 0, orientation=once.orientation).orientation == once.orientation


def diagonal(*values: float) -> list[float]:
    cov = [0.0] * 36
    cov[::7] = values
    return cov


@pytest.mark.parametrize(
    'cov',
    [
        [0.0] * 36,
        diagonal(-1, 0, 0, 0, 0, 0),
        diagonal(1, 1, -1e-9, 0, 0, 0),
        diagonal(math.nan, 1, 1, 1, 1, 1),
        diagonal(math.inf, 1, 1, 1, 1, 1),
        [1.0, 5.0, *[0.0] * 34],
    ],
)
def test_a_covariance_that_says_nothing_is_unknown(cov: list[float]) -> None:
    assert validate_covariance(cov) is None
    assert at(0, 0, 0, covariance=cov).covariance is None


def test_a_usable_covariance_is_kept() -> None:
    cov = diagonal(1, 2, 3, 0, 0, 0)
    assert at(0, 0, 0, covariance=cov).covariance == tuple(cov)


@pytest.mark.parametrize('size', [1, 9, 35, 37])
def test_a_covariance_has_36_numbers(size: int) -> None:
    with pytest.raises(ValidationError, match='covariance'):
        at(0, 0, 0, covariance=[1.0] * size)


def test_both_units_of_a_stamp_are_refused() -> None:
    with pytest.raises(ValidationError, match='stamp and stamp_ns'):
        at(0, 0, 0, stamp=1, stamp_ns=1)
    assert at(0, 0, 0, stamp=1.5).stamp_ns == 1_500_000_000
