"""Stamps of another age are told of once."""

import pytest

from hylo_memory_ros.ros.open_memory import StampWatch

pytestmark = pytest.mark.ros
NOW = 1_790_000_000 * 10**9


@pytest.mark.parametrize(('stamp_s', 'said'), [(1_753_360_039, 'before'), (1_800_000_000, 'after')])
def test_a_replay_against_the_wall_clock_is_told_of_once(
    caplog: pytest.LogCaptureFixture, stamp_s: int, said: str
) -> None:
    watch = StampWatch(lambda: NOW)
    for _ in range(3):
        watch.check(stamp_s * 10**9, 'input front')

    assert len(caplog.records) == 1
    assert f'{stamp_s}.000 s' in caplog.text
    assert said in caplog.text
    assert 'use_sim_time' in caplog.text


@pytest.mark.parametrize('stamp_ns', [None, 0, NOW, NOW - 3600 * 10**9])
def test_other_stamps_are_nothing_to_tell_of(caplog: pytest.LogCaptureFixture, stamp_ns: int | None) -> None:
    StampWatch(lambda: NOW).check(stamp_ns, 'x')

    assert not caplog.records


def test_a_clock_that_has_not_started_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    StampWatch(lambda: 0).check(5, 'x')

    assert not caplog.records
