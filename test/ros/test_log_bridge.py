"""The core's log lines reach the ROS log; what repeats is throttled and counted."""

import logging

import pytest

from hylo_memory_ros.ros.log_bridge import UNTHROTTLED, RosLogHandler

pytestmark = pytest.mark.ros


class FakeLogger:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __getattr__(self, severity: str) -> object:
        return lambda text: self.lines.append((severity, text))


@pytest.fixture
def logger() -> logging.Logger:
    return logging.Logger('hylo_memory_ros.test')


def test_severities_are_kept(logger: logging.Logger) -> None:
    ros = FakeLogger()
    logger.addHandler(RosLogHandler(ros, throttle_s=0.0))

    for level in ('debug', 'info', 'warning', 'error', 'critical'):
        getattr(logger, level)('said %s', level)

    assert ros.lines == [
        ('debug', 'said debug'), ('info', 'said info'), ('warning', 'said warning'), ('error', 'said error'),
        ('fatal', 'said critical'),
    ]  # fmt: skip


def test_what_repeats_is_held_back_and_counted(logger: logging.Logger) -> None:
    ros, now = FakeLogger(), [0.0]
    logger.addHandler(RosLogHandler(ros, throttle_s=10.0, steady_s=lambda: now[0]))

    for second in range(0, 25, 4):
        now[0] = float(second)
        logger.warning('bad message %d', second)

    assert [text for _, text in ros.lines] == [
        'bad message 0', 'bad message 12 (and 2 more like this)', 'bad message 24 (and 2 more like this)',
    ]  # fmt: skip


def test_what_is_told_once_is_not_held_back(logger: logging.Logger) -> None:
    ros = FakeLogger()
    logger.addHandler(RosLogHandler(ros))

    logger.warning('one')
    logger.warning('two')

    assert len(ros.lines) == 2


def test_what_answers_somebody_is_never_held_back(logger: logging.Logger) -> None:
    ros = FakeLogger()
    logger.addHandler(RosLogHandler(ros))

    for _ in range(3):
        logger.error('configure failed', extra={UNTHROTTLED: True})

    assert len(ros.lines) == 3
