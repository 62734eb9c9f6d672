"""Work that can wait: it stands back for questions, and still gets on however steadily they come."""

from __future__ import annotations

import threading
import time

import pytest

from hylo_memory_ros.service import core as throttle
from hylo_memory_ros.service.core import BackgroundThrottle


class Silence(threading.Event):
    """Keeps how long it was waited for, and waits for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_s.append(timeout)
        return self.is_set()


@pytest.mark.parametrize(('worked_s', 'waits_s'), [(0.001, 0.004), (0.01, 0.04), (3.0, 0.05)])
def test_it_waits_for_questions_four_times_as_long_as_it_worked_at_most(
    monkeypatch: pytest.MonkeyPatch, worked_s: float, waits_s: float
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(time, 'monotonic', lambda: now_s[0])
    silence = Silence()
    monkeypatch.setattr(throttle.threading, 'Event', lambda: silence)
    giving = BackgroundThrottle()
    with giving.hold():
        assert not silence.is_set()
        for _ in range(3):
            now_s[0] += worked_s
            giving.give_way()
    assert silence.is_set()
    assert silence.waited_s == [pytest.approx(waits_s)] * 3
