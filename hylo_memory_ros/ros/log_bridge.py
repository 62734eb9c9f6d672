"""Bridge from the core's `logging` to the ROS log, with throttling of repeated records."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

NAME = 'hylo_memory_ros'
UNTHROTTLED = 'unthrottled'
"""Name of the `extra` of a record that answers a request, and so is never throttled."""


class RosLogHandler(logging.Handler):
    """Handler that passes records on to a ROS logger.

    Parameters
    ----------
    ros_logger : rclpy logger
        Target of the records.
    throttle_s : float
        Time after a warning or error in which others from the same line of code are suppressed,
        seconds; the next one gives their number.
    steady_s : callable
        The steady clock, seconds.
    """

    def __init__(
        self, ros_logger: Any, *, throttle_s: float = 10.0, steady_s: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._ros = ros_logger
        self._throttle_s, self._steady_s = throttle_s, steady_s
        self._guard = threading.Lock()
        self._places: dict[tuple[str, int], tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a record on, unless one from the same line of code was passed on a moment ago."""
        try:
            throttled = record.levelno >= logging.WARNING and not hasattr(record, UNTHROTTLED)
            held_back = self._held_back(record) if throttled else 0
            if held_back is None:
                return
            text = self.format(record)
            if held_back:
                text += f' (and {held_back} more like this)'
            self._pass_on(record.levelno, text)
        except Exception:  # noqa: BLE001 - a log line must not fail its caller
            self.handleError(record)

    def _held_back(self, record: logging.LogRecord) -> int | None:
        place, now = (record.pathname, record.lineno), self._steady_s()
        with self._guard:
            last, count = self._places.get(place, (-self._throttle_s, 0))
            if now - last < self._throttle_s:
                self._places[place] = last, count + 1
                return None
            self._places[place] = now, 0
            return count

    def _pass_on(self, level: int, text: str) -> None:
        # rclpy allows one severity a line of code.
        if level >= logging.CRITICAL:
            self._ros.fatal(text)
        elif level >= logging.ERROR:
            self._ros.error(text)
        elif level >= logging.WARNING:
            self._ros.warning(text)
        elif level >= logging.INFO:
            self._ros.info(text)
        else:
            self._ros.debug(text)


def bridged(ros_logger: Any) -> Callable[[], None]:
    """Send all records of the package to a ROS logger; return a function that undoes this."""
    handler = RosLogHandler(ros_logger)
    source = logging.getLogger(NAME)
    before = source.level, source.propagate
    source.addHandler(handler)
    source.setLevel(logging.DEBUG if ros_logger.is_enabled_for(10) else logging.INFO)
    source.propagate = False

    def undo() -> None:
        source.removeHandler(handler)
        source.setLevel(before[0])
        source.propagate = before[1]

    return undo
