"""Named quality-of-service profiles of all topics and services, and publishers that use them."""

from __future__ import annotations

import contextlib
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

RELIABLE, VOLATILE = ReliabilityPolicy.RELIABLE, DurabilityPolicy.VOLATILE


def _keep_last(
    depth: int, reliability: ReliabilityPolicy = RELIABLE, durability: DurabilityPolicy = VOLATILE
) -> QoSProfile:
    return QoSProfile(
        depth=depth, history=HistoryPolicy.KEEP_LAST, reliability=reliability, durability=durability
    )


EVENTS = _keep_last(1000)
"""`~/events`: reliable; a late subscriber, or one that lost events, reads `~/changes`."""

LATCHED = _keep_last(1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""`~/status` and `~/markers`: late subscribers receive the newest message."""

DIAGNOSTICS = _keep_last(10)
"""`/diagnostics`: the profile of the aggregator."""

SERVICE = _keep_last(100)
"""Requests and replies: as every client's default, with room for a hundred waiting requests."""

INTROSPECTION = _keep_last(1000)
"""Introspection of service calls."""

TF = _keep_last(1000)
"""`tf`: the profile of tf2's own listener, but deeper: what is lost here is interpolated over, in silence."""

TF_STATIC = _keep_last(100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""`tf_static`: latched, the last message of each publisher."""

TF_STATIC_VOLATILE = _keep_last(100)
"""`tf_static` of publishers that do not latch it, as some recorded bags offer it."""


def detections(reliability: str, depth: int, durability: str = 'volatile') -> QoSProfile:
    """Return the profile of a perception input.

    Parameters
    ----------
    reliability : {'reliable', 'best_effort'}
        A reliable subscription does not receive from a best-effort publisher.
    depth : int
        Messages that the middleware keeps.
    durability : {'volatile', 'transient_local'}
        A latched subscription also receives the last messages of publishers that latch.
    """
    return _keep_last(depth, ReliabilityPolicy[reliability.upper()], DurabilityPolicy[durability.upper()])


class Topic:
    """Publisher of one topic, for any thread, that may be closed while others publish.

    It has no event handlers: rclpy would wait for two events of each publisher, a third of the cost of a
    turn of its executor. A subscriber with an incompatible profile is warned on its own side.

    Parameters
    ----------
    node : Node
        Owner of the topic.
    kind : type
        Class of its messages.
    name : str
        Its name.
    profile : QoSProfile
        One of this module.
    """

    def __init__(self, node: Node, kind: Any, name: str, profile: QoSProfile) -> None:
        events = PublisherEventCallbacks(use_default_callbacks=False)
        self._node = node
        self._publisher: Any = node.create_publisher(kind, name, profile, event_callbacks=events)

    @property
    def wanted(self) -> bool:
        """True if somebody subscribes."""
        return self._publisher is not None and self._publisher.get_subscription_count() > 0

    def publish(self, message: Any) -> bool:
        """Publish, unless it is closed; return whether it was open."""
        publisher = self._publisher
        if publisher is None:
            return False
        # The executor's thread may have destroyed it since.
        with contextlib.suppress(InvalidHandle):
            publisher.publish(message)
        return True

    def close(self) -> None:
        """Destroy the publisher. Safe to repeat."""
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._publisher = None
