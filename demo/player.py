"""Plays a bag into a running node, as fast as the node keeps up."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from demo.bag import CLOCK, DETECTIONS, TF, TF_STATIC, Recorded
from demo.memory_client import MemoryClient, RefusedError, around, ns_of, time_of

__all__ = ['Player']

# The node's subscription to tf keeps 100 messages; two steps may be on their way.
_STEP = 45
# Messages that the node may hold back, for their transform or their order, before it gets more.
_MOST_PENDING = 64


class Player:
    """Publishes recorded messages, and waits for the node when it falls behind.

    How far the node has come is read from its ``~/status`` (detections: watermark, pending) and
    from where it says that ``base_link`` is now (transforms).

    Parameters
    ----------
    client : MemoryClient
        The way to the node.
    recorded : sequence of Recorded
        The bag.
    reorder_window_ns : int
        How far the node's watermark stays behind the newest stamp, nanoseconds.
    """

    def __init__(
        self, client: MemoryClient, recorded: Sequence[Recorded], reorder_window_ns: int = 500_000_000
    ) -> None:
        self._client = client
        self._recorded = recorded
        self._window_ns = reorder_window_ns
        kinds = {one.topic: one.type for one in recorded}
        self._publishers: dict[str, Any] = {topic: self._publisher(topic, kinds[topic]) for topic in kinds}

    def _publisher(self, topic: str, kind: str) -> Any:
        package, _, name = kind.split('/')
        message = getattr(importlib.import_module(f'{package}.msg'), name)
        latched = topic == TF_STATIC
        durability = DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE
        profile = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE, durability=durability)
        return self._client.node.create_publisher(message, topic, profile)

    def wait_for_listener(self) -> None:
        """Wait until the node subscribes to every topic of the bag, and hears what is published.

        A publisher knows of its subscriber before the subscriber knows of it, and what is published
        in between is lost; so the first transform is repeated until the node has it.
        """
        for topic, publisher in self._publishers.items():
            self._client.wait_until(publisher.get_subscription_count, f'the node listens to {topic}')
        firsts = [next(one for one in self._recorded if one.topic == topic) for topic in (CLOCK, TF)]

        def heard() -> bool:
            for one in firsts:
                self._publishers[one.topic].publish(one.data)
            return bool(self._position_ns())

        self._client.wait_until(heard, 'the node hears the first transform')

    def play(self, begin_ns: int, end_ns: int, told: Callable[[int], None] = lambda stamp_ns: None) -> None:
        """Play what lies in [begin_ns, end_ns), and wait until the node has received it.

        Parameters
        ----------
        begin_ns, end_ns : int
            Stamps, nanoseconds.
        told : callable
            Is told the stamp that the node has come to.
        """
        previous: tuple[int, int] = (0, 0)
        for step in _steps(one for one in self._recorded if begin_ns <= one.stamp_ns < end_ns):
            for one in step:
                self._publishers[one.topic].publish(one.data)
            self._wait_for(*previous)
            previous = _newest(step, TF), _newest(step, DETECTIONS) or previous[1]
            told(step[-1].stamp_ns)
        self._wait_for(*previous)

    def rewind(self) -> None:
        """Set the clock back to the beginning, and wait until the node has noticed.

        The transforms of the old time are gone then, so it does not know where the robot is.
        """
        first = next(one for one in self._recorded if one.topic == CLOCK)

        def noticed() -> bool:
            self._publishers[CLOCK].publish(first.data)
            return not self._position_ns()

        self._client.wait_until(noticed, 'the node noticed that the clock was set back')

    def flush(self, until_ns: int) -> Any:
        """Tell the node that nothing up to a stamp is missing any more; return its answer."""
        response = self._client.call('flush', until=time_of(until_ns))
        if response.pending:
            raise RuntimeError(f'~/flush left {response.pending} messages waiting')
        return response

    def _wait_for(self, transform_ns: int, detection_ns: int) -> None:
        self._client.wait_until(
            lambda: self._is_heard(detection_ns), f'~/status says that detections up to {detection_ns} came'
        )
        self._client.wait_until(
            lambda: self._position_ns() >= transform_ns, f'transforms up to {transform_ns} came'
        )

    def _is_heard(self, stamp_ns: int) -> bool:
        status = self._client.status
        if not stamp_ns or status is None:
            return not stamp_ns
        behind = status.watermark_ns[0] < stamp_ns - self._window_ns
        return not behind and status.pending[0] <= _MOST_PENDING

    def _position_ns(self) -> int:
        """Return the stamp of the newest transform that the node has; 0: none."""
        try:
            response = self._client.call('query', filter=around('base_link', 0.0), k=0)
        except RefusedError as refusal:
            if refusal.is_about_frames:
                return 0
            raise
        return ns_of(response.center_used.header.stamp)


def _steps(recorded: Iterable[Recorded]) -> Iterator[list[Recorded]]:
    """Yield the messages of some stamps at a time, whole stamps together."""
    step: list[Recorded] = []
    stamps = 0
    for _, together in groupby(recorded, key=lambda one: one.stamp_ns):
        step.extend(together)
        stamps += 1
        if stamps == _STEP:
            yield step
            step, stamps = [], 0
    if step:
        yield step


def _newest(step: Iterable[Recorded], topic: str) -> int:
    return max((one.stamp_ns for one in step if one.topic == topic), default=0)
