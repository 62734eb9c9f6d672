"""Time is integer nanoseconds; seconds are converted exactly."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hylo_memory_ros.model import MAX_STAMP_NS, MemoryItem, MemoryQuery, TimeSpan, ns_from_seconds

STAMP = 1553575413247045598


@given(st.integers(0, MAX_STAMP_NS))
def test_nanoseconds_keep_every_digit(stamp_ns: int) -> None:
    assert MemoryItem(kind='semantic', valid_from_ns=stamp_ns).valid_from_ns == stamp_ns
    assert TimeSpan(start_ns=stamp_ns).start_ns == stamp_ns
    assert MemoryQuery(as_of_ns=stamp_ns).as_of_ns == stamp_ns


@given(st.integers(0, 2**31 - 1))
def test_whole_seconds_are_exact(seconds: int) -> None:
    assert ns_from_seconds(seconds) == seconds * 10**9


def test_a_float_is_converted_exactly_not_through_a_product() -> None:
    assert ns_from_seconds(0.1) == 100_000_000
    assert ns_from_seconds(1753360039.123456) == 1753360039123456001
    assert ns_from_seconds(float(STAMP) / 1e9) != STAMP  # the digits are gone before we see them


def test_zero_is_a_time() -> None:
    assert MemoryItem(kind='semantic', valid_from=0.0).valid_from_ns == 0
    assert MemoryQuery(as_of=0).as_of_ns == 0


@pytest.mark.parametrize('bad', [-1, -1e-9, math.nan, math.inf, 2**31, '1', True])
def test_a_bad_time_is_refused(bad: object) -> None:
    with pytest.raises(ValidationError):
        MemoryItem(kind='semantic', valid_from=bad)
    with pytest.raises(ValidationError):
        MemoryQuery(as_of=bad)
    with pytest.raises(ValidationError):
        TimeSpan(start=bad)


@pytest.mark.parametrize('bad', [-1, MAX_STAMP_NS + 1, 1.0, '1'])
def test_a_bad_count_of_nanoseconds_is_refused(bad: object) -> None:
    with pytest.raises(ValidationError):
        MemoryItem(kind='semantic', valid_from_ns=bad)


@pytest.mark.parametrize('name', ['as_of', 'known_at'])
def test_both_units_are_refused(name: str) -> None:
    with pytest.raises(ValidationError, match=f'{name} and {name}_ns'):
        MemoryQuery(**{name: 1, f'{name}_ns': 10**9})


def test_a_span_ends_after_it_begins() -> None:
    assert TimeSpan(start=1, end=1).end == 1.0
    assert TimeSpan(start=1).end is None
    with pytest.raises(ValidationError, match='before start'):
        TimeSpan(start=2, end=1)


def test_a_range_may_be_open_at_either_end() -> None:
    assert MemoryQuery(time_range=(None, 2)).time_range_ns == (None, 2 * 10**9)
    assert MemoryQuery(time_range=(1, None)).time_range_ns == (10**9, None)
    with pytest.raises(ValidationError, match='time_range'):
        MemoryQuery(time_range=(2, 1))
    with pytest.raises(ValidationError, match='time_range and time_range_ns'):
        MemoryQuery(time_range=(1, 2), time_range_ns=(1, 2))
