"""Uncertainty of localization, from a topic such as ``amcl_pose``.

Threads: the executor's; the receiver passes reports on to the writer's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from geometry_msgs.msg import PoseWithCovarianceStamped
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import normalize_frame
from hylo_memory_ros.ros import qos
from hylo_memory_ros.ros.convert.fields import stamp_ns

__all__ = ['LocalizationTopic']

logger = logging.getLogger(__name__)

DEPTH = 10


class LocalizationTopic:
    """Subscription to the robot's pose, for its covariance.

    Parameters
    ----------
    node : Node
        Owner of the subscriptions.
    topic : str
        Where ``geometry_msgs/PoseWithCovarianceStamped`` is published.
    global_frame : str
        Reports in another frame are ignored.
    receive : callable
        Takes a stamp in nanoseconds and 36 numbers.
    group : CallbackGroup
        Group of the subscription.
    """

    def __init__(
        self,
        node: Node,
        topic: str,
        global_frame: str,
        receive: Callable[[int, Sequence[float]], None],
        group: CallbackGroup,
    ) -> None:
        self._node, self._global_frame, self._receive = node, global_frame, receive
        self.refused = 0
        """Reports without a valid stamp, or in another frame."""
        # Nav2 latches the pose and publishes it only when the robot moves; others do not latch it, and a
        # latched subscription receives nothing from them.
        self._subscriptions = [
            node.create_subscription(
                PoseWithCovarianceStamped, topic, self._take, profile, callback_group=group
            )
            for profile in (
                qos.detections('reliable', DEPTH, 'transient_local'),
                qos.detections('best_effort', DEPTH),
            )
        ]

    def close(self) -> None:
        """Unsubscribe; safe to repeat."""
        while self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop())

    def _take(self, message: PoseWithCovarianceStamped) -> None:
        try:
            at_ns = stamp_ns(message.header.stamp, 'header.stamp')
            frame_id = normalize_frame(message.header.frame_id)
        except (InvalidRequestError, ValueError):
            at_ns, frame_id = None, ''
        if at_ns is None or frame_id != self._global_frame:
            if not self.refused:
                logger.warning(
                    'localization: ignored a pose in %r: its stamp is invalid or it is not in %r',
                    message.header.frame_id,
                    self._global_frame,
                )
            self.refused += 1
            return
        self._receive(at_ns, message.pose.covariance.tolist())
