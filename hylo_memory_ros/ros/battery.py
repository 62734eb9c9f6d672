"""The robot's battery: told once in each discharge, when it gets low.

Who may touch what: all in the executor's thread.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from sensor_msgs.msg import BatteryState

from hylo_memory_ros.ros import qos

__all__ = ['BatteryTopic', 'Discharge']

logger = logging.getLogger(__name__)

DEPTH = 10
CHARGING = {BatteryState.POWER_SUPPLY_STATUS_CHARGING, BatteryState.POWER_SUPPLY_STATUS_FULL}
# A reading that wavers about the limit is one discharge.
RISE = 0.05


class Discharge:
    """Notices when a battery gets low.

    Parameters
    ----------
    low : float
        Part of its capacity, 0 to 1, at or below which it is low.

    Examples
    --------
    >>> discharge = Discharge(0.2)
    >>> [discharge.is_now_low(part, charging=False) for part in (0.5, 0.2, 0.1, 0.3, 0.2)]
    [False, True, False, False, True]
    """

    def __init__(self, low: float) -> None:
        # A percentage is a float32: 0.2 arrives as a little more.
        self._low = low + 1e-6
        self._told = False

    def is_now_low(self, part: float, *, charging: bool) -> bool:
        """Return whether a reading is the first low one since the battery was charged."""
        if charging or part > self._low + RISE:
            self._told = False
            return False
        if self._told or part > self._low:
            return False
        self._told = True
        return True


class BatteryTopic:
    """Subscribes to the state of the battery.

    Parameters
    ----------
    node : Node
        Whose namespace and remappings give the topic its name.
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
        self._discharge = Discharge(low)
        self._warned = False
        self._subscription = node.create_subscription(
            BatteryState, topic, self._take, qos.detections('best_effort', DEPTH), callback_group=group
        )

    def close(self) -> None:
        """Subscribe no more."""
        self._node.destroy_subscription(self._subscription)

    def _take(self, message: BatteryState) -> None:
        part = message.percentage
        if not 0.0 <= part <= 1.0:
            # NaN is how drivers say that they do not know it; 80 for 80 % is a mistake worth a word.
            if not self._warned and not math.isnan(part):
                logger.warning('battery: percentage %g is not between 0 and 1; it says nothing', part)
                self._warned = True
            return
        if self._discharge.is_now_low(part, charging=message.power_supply_status in CHARGING):
            self._on_low()
