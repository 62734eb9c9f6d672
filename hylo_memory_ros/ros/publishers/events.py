"""Topic `~/events`: the ids that each committed transaction changed.

Published in the thread that committed; a subscriber that missed events reads `~/changes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rclpy.node import Node

from hylo_memory_ros.model import Change
from hylo_memory_ros.msg import MemoryEvent
from hylo_memory_ros.ros import qos
from hylo_memory_ros.ros.convert.results import bytes_of_event, event_to_msg
from hylo_memory_ros.service import MemoryService


class EventTopic:
    """Publishes the changes of one memory until it is closed.

    Parameters
    ----------
    node : Node
        Owner of the topic.
    memory : MemoryService
        Source of the changes.
    limit_bytes : int
        An event larger than this is published without its ids and extras; an eviction in parts.
    retrievals : bool
        Also publish each retrieval.
    """

    def __init__(
        self, node: Node, memory: MemoryService, limit_bytes: int, *, retrievals: bool = False
    ) -> None:
        self._memory, self._limit = memory, limit_bytes
        self._topic = qos.Topic(node, MemoryEvent, '~/events', qos.EVENTS)
        self._unsubscribe = [memory.subscribe(self._publish)]
        if retrievals:
            self._unsubscribe.append(memory.subscribe_retrievals(self._publish))

    def close(self) -> None:
        """Stop publishing. Safe to repeat."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._topic.close()

    def _publish(self, change: Change) -> None:
        for msg in self._messages(change):
            self._topic.publish(msg)

    def _messages(self, change: Change) -> Iterator[MemoryEvent]:
        msg = event_to_msg(change, self._memory.epoch)
        if bytes_of_event(msg) <= self._limit:
            yield msg
        elif change.op == 'evict' and len(change.ids) > 1:
            # An eviction is in no change feed: subscribers learn of it only here.
            half = len(change.ids) // 2
            for part in (slice(0, half), slice(half, None)):
                ids, keys, outcomes = change.ids[part], change.keys[part], change.outcomes[part]
                yield from self._messages(replace(change, ids=ids, keys=keys, outcomes=outcomes))
        else:
            # An event that must be looked up is better than a gap in the sequence.
            msg.ids, msg.keys, msg.outcomes, msg.extra_json = [], [], [], ''
            yield msg
