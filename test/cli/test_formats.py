import re
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hylo_memory_ros.cli.formats import format_instant, parse_instant
from hylo_memory_ros.model import MAX_STAMP_NS


@given(st.integers(0, MAX_STAMP_NS))
def test_what_is_printed_is_read_exactly(stamp_ns: int) -> None:
    assert parse_instant(format_instant(stamp_ns)) == stamp_ns


@given(st.integers(0, MAX_STAMP_NS))
def test_nanoseconds_and_decimal_seconds_are_exact(stamp_ns: int) -> None:
    assert parse_instant(f'{stamp_ns}ns') == stamp_ns
    assert parse_instant(f'{stamp_ns // 10**9}.{stamp_ns % 10**9:09d}') == stamp_ns


@pytest.mark.parametrize(
    ('text', 'stamp_ns'),
    [
        ('1553575413.247045598', 1553575413247045598),
        ('1553575413247045598ns', 1553575413247045598),
        ('5e3', 5000 * 10**9),
        ('0', 0),
        ('2026-01-02T03:00+09:00', int(datetime(2026, 1, 1, 18, tzinfo=timezone.utc).timestamp()) * 10**9),
        ('2001-09-09 01:46:40.123456789z', 1000000000123456789),
        ('1970-01-01T00:00:00.5-0100', 3600_500_000_000),
    ],
)
def test_forms_of_one_instant(text: str, stamp_ns: int) -> None:
    assert parse_instant(text) == stamp_ns


@pytest.mark.parametrize(
    'text',
    [
        '2026-01-02T03:00:00', '2026-01-02', '2026-13-02T03:00Z', '2026-01-02T25:00Z', 'yesterday', '', ' ',
        'nan', 'inf', '-1', '-5ns', '1.5ns', '1e400', '1e-400000000', '2038-01-20T00:00Z', '2147483648',
        '0x10', '1_000', '\u0665', '12:30', '1970-01-01T00:30+01:00',
    ],
)  # fmt: skip
def test_what_is_no_instant_is_refused_with_the_value(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_instant(text)


def test_a_time_without_offset_says_what_to_add() -> None:
    with pytest.raises(ValueError, match=r'has no offset.*add Z'):
        parse_instant('2026-01-02T03:00:00')
