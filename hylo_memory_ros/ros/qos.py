"""Named quality-of-service profiles; one place says what each topic and service asks for."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

__all__ = ['DIAGNOSTICS', 'EVENTS', 'INTROSPECTION', 'LATCHED', 'SERVICE', 'detections']

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


def detections(reliability: str, depth: int) -> QoSProfile:
    """Return what a perception input asks for.

    Parameters
    ----------
    reliability : {'reliable', 'best_effort'}
        A reliable subscription does not receive from a best-effort publisher.
    depth : int
        Messages that the middleware keeps.
    """
    return QoSProfile(
        depth=depth,
        history=HistoryPolicy.KEEP_LAST,
        reliability=ReliabilityPolicy[reliability.upper()],
        durability=DurabilityPolicy.VOLATILE,
    )
