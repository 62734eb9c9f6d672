"""Retention worker of the node, and the detection of a low battery.

Threads: one of its own does the work, in slices between which the writer and the readers go on; the
executor's thread and readers only request it and read its results.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from sensor_msgs.msg import BatteryState

from hylo_memory_ros.model.consolidation import Fill, RetentionReport
from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.ros import qos
from hylo_memory_ros.ros.runtime.worker_pool import WorkerPool, logged
from hylo_memory_ros.service import MemoryService

logger = logging.getLogger(__name__)

# Period of the search for items that are too old, and between two attempts to meet a limit, seconds.
AGAIN_S = 60.0
# Growth since the last attempt, as part of the limit, after which it is repeated at once.
STEP = 0.1
# A shutdown must end within 5 s, and closing takes its part.
END_S = 1.5
LIMITS = 'keeping within limits'
# Part of a limit from which on /diagnostics warns.
WARN_AT = 0.8


class RetentionScheduler:
    """Keeps one memory within the limits of its configuration.

    Parameters
    ----------
    memory : MemoryService
        The memory.
    config : NodeConfig
        Its limits, and when to look at them.
    """

    def __init__(self, memory: MemoryService, config: NodeConfig) -> None:
        self._memory = memory
        self._retention = config.memory.retention
        self._aging = [kind for kind, limits in self._retention.by_kind.items() if limits.max_age_s]
        self._pool = WorkerPool('retention', 1, 1)
        self._aged_at_s = -AGAIN_S
        self._left: dict[str, tuple[float, float]] = {}
        self._problems: dict[str, str] = {}
        self._last = ''

    def check(self) -> None:
        """Check the limits in its own thread, unless a check is running."""
        if self._retention.any:
            self._pool.once(f'{LIMITS} (check)', self._check)

    def keep(self, reason: str) -> None:
        """Bring every kind that has limits to its target; `reason` is for the log."""
        self._pool.once(f'{LIMITS} ({reason})', lambda: self._retain(None, reason))

    def run_at_shutdown(self) -> None:
        """Enforce the limits once more at shutdown, for at most `END_S` seconds; stops between slices."""
        self.close()
        until_s = time.monotonic() + END_S
        reason = 'shutdown'
        logged(f'{LIMITS} ({reason})', lambda: self._retain(None, reason, lambda: time.monotonic() > until_s))

    def close(self) -> None:
        """End after the current slice. Safe to repeat."""
        if not self._pool.close(END_S):
            logger.warning('%s did not end within %g s', LIMITS, END_S)

    def diagnosis(self) -> tuple[Mapping[str, Any], list[str]]:
        """Return values for /diagnostics, and warnings."""
        full = self._memory.fill()
        values = {f'fill {kind}': str(one) for kind, one in full.items()}
        if self._last:
            values['last consolidation'] = self._last
        problems = dict(self._problems)
        warnings = [
            sentence
            for kind in self._retention.by_kind
            for sentence in self._warnings(full[kind], problems.get(kind, ''))
        ]
        return values, warnings

    def _warnings(self, one: Fill, problem: str) -> Collection[str]:
        return (problem,) if problem and one.part > 1.0 else one.reached(WARN_AT)

    def _check(self) -> None:
        now_s = time.monotonic()
        over = [full.kind for full in self._memory.over_limit() if self._is_due(full, now_s)]
        if over:
            self._retain(over, f'{", ".join(over)} over a limit')
        if self._aging and now_s - self._aged_at_s >= AGAIN_S:
            self._aged_at_s = now_s
            self._retain(self._aging, 'age')

    def _is_due(self, full: Fill, now_s: float) -> bool:
        """Return whether another attempt at a kind may help: what holds now is never removed."""
        done_at_s, left = self._left.get(full.kind, (now_s - AGAIN_S, 0.0))
        return now_s - done_at_s >= AGAIN_S or full.part >= left + STEP

    def _retain(
        self, kinds: Collection[str] | None, reason: str, cancelled: Callable[[], bool] | None = None
    ) -> None:
        report = self._memory.retain(
            kinds, cancelled=cancelled or (lambda: self._pool.closing), actor=f'retention: {reason}'
        )
        self._note(report, reason)

    def _note(self, report: RetentionReport, reason: str) -> None:
        now_s = time.monotonic()
        for one in report.kinds:
            kind = one.after.kind
            self._problems[kind], self._left[kind] = one.problem, (now_s, one.after.part)
            if one.problem:
                logger.warning('%s', one.problem)
        changes = [
            f'{one.after.kind} from {one.before.items} to {one.after.items} items'
            for one in report.kinds
            if one.consolidation is not None or one.aged
        ]
        if changes:
            self._last = f'{reason}: {", ".join(changes)}' + (', cut short' if report.cancelled else '')
            logger.info('consolidated (%s)', self._last)


DEPTH = 10
CHARGING = {BatteryState.POWER_SUPPLY_STATUS_CHARGING, BatteryState.POWER_SUPPLY_STATUS_FULL}
# Hysteresis: a reading that wavers about the limit is one discharge.
RISE = 0.05


class LowBatteryDetector:
    """Detector of a low battery.

    Parameters
    ----------
    low : float
        Part of its capacity, 0 to 1, at or below which it is low.

    Examples
    --------
    >>> discharge = LowBatteryDetector(0.2)
    >>> [discharge.is_now_low(part, charging=False) for part in (0.5, 0.2, 0.1, 0.3, 0.2)]
    [False, True, False, False, True]
    """

    def __init__(self, low: float) -> None:
        # A percentage is a float32: 0.2 arrives as a little more.
        self._low = low + 1e-6
        self._reported = False

    def is_now_low(self, part: float, *, charging: bool) -> bool:
        """Return whether a reading is the first low one since the battery was charged."""
        if charging or part > self._low + RISE:
            self._reported = False
            return False
        if self._reported or part > self._low:
            return False
        self._reported = True
        return True


class BatteryTopic:
    """Subscription to the state of the battery.

    Parameters
    ----------
    node : Node
        Owner of the subscription.
    topic : str
        Where ``sensor_msgs/BatteryState`` is published.
    low : float
        Part of its capacity at or below which it is low.
    on_low : callable
        Called once in each discharge.
    group : CallbackGroup
        Group of the subscription.
    """

    def __init__(
        self, node: Node, topic: str, low: float, on_low: Callable[[], None], group: CallbackGroup
    ) -> None:
        self._node, self._on_low = node, on_low
        self._discharge = LowBatteryDetector(low)
        self._warned = False
        self._subscription = node.create_subscription(
            BatteryState, topic, self._take, qos.detections('best_effort', DEPTH), callback_group=group
        )

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)

    def _take(self, message: BatteryState) -> None:
        part = message.percentage
        if not 0.0 <= part <= 1.0:
            # NaN means unknown; 80 for 80 % is a mistake of the driver.
            if not self._warned and not math.isnan(part):
                logger.warning('battery: percentage %g is not between 0 and 1, it is ignored', part)
                self._warned = True
            return
        if self._discharge.is_now_low(part, charging=message.power_supply_status in CHARGING):
            self._on_low()
