"""Named quality-of-service profiles; one place says what each topic and service asks for."""

from __future__ import annotations

import contextlib
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

__all__ = [
    'DIAGNOSTICS',
    'EVENTS',
    'INTROSPECTION',
    'LATCHED',
    'SERVICE',
    'detections',
    'publish',
    'publisher',
]

EVENTS = QoSProfile(
    depth=1000,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
"""`~/events`: reliable; whoever comes late or loses some asks `~/changes`."""

LATCHED = QoSProfile(
    depth=1,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
"""`~/status` and `~/markers`: the newest is also for whoever subscribes later."""

DIAGNOSTICS = QoSProfile(
    depth=10,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
"""`/diagnostics`: what the aggregator asks for."""

SERVICE = QoSProfile(
    depth=100,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
"""Requests and replies: as every client's default, with room for a hundred that wait."""


INTROSPECTION = QoSProfile(
    depth=1000,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
"""What services publish about their calls."""


def detections(reliability: str, depth: int, durability: str = 'volatile') -> QoSProfile:
    """Return what a perception input asks for.

    Parameters
    ----------
    reliability : {'reliable', 'best_effort'}
        A reliable subscription does not receive from a best-effort publisher.
    depth : int
        Messages that the middleware keeps.
    durability : {'volatile', 'transient_local'}
        A latched subscription also gets what was published before it, from publishers that latch.
    """
    return QoSProfile(
        depth=depth,
        history=HistoryPolicy.KEEP_LAST,
        reliability=ReliabilityPolicy[reliability.upper()],
        durability=DurabilityPolicy[durability.upper()],
    )


def publisher(node: Node, kind: Any, topic: str, profile: QoSProfile) -> Any:
    """Return a publisher without event handlers.

    rclpy would wait for two events of each; that is a third of what a turn of its executor costs.
    Who subscribes with another profile is warned on the own side.

    Parameters
    ----------
    node : Node
        Whose topic it is.
    kind : type
        Class of its messages.
    topic : str
        Its name.
    profile : QoSProfile
        One of this module.
    """
    events = PublisherEventCallbacks(use_default_callbacks=False)
    return node.create_publisher(kind, topic, profile, event_callbacks=events)


def publish(publisher: Any, message: Any) -> None:
    """Publish in any thread, unless the executor's has destroyed the publisher since."""
    with contextlib.suppress(InvalidHandle):
        publisher.publish(message)
