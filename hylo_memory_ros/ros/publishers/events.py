"""`~/events`: what each committed transaction did, ids only.

Published in the thread that committed; whoever comes late or misses some asks `~/changes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rclpy.node import Node

from hylo_memory_ros.model import Change
from hylo_memory_ros.msg import MemoryEvent
from hylo_memory_ros.ros import qos
from hylo_memory_ros.ros.convert.results import bytes_of_event, event_to_msg
from hylo_memory_ros.service import MemoryService

__all__ = ['Events']


class Events:
    """Publishes the changes of one memory until it is closed.

    Parameters
    ----------
    node : Node
        Whose topic it is.
    memory : MemoryService
        Whose changes they are.
    limit_bytes : int
        An event larger than this is published without its ids and extras; an eviction in parts.
    retrievals : bool
        Also publish what is asked.
    """

    def __init__(
        self, node: Node, memory: MemoryService, limit_bytes: int, *, retrievals: bool = False
    ) -> None:
        self._node, self._memory, self._limit = node, memory, limit_bytes
        self._publisher: Any = qos.publisher(node, MemoryEvent, '~/events', qos.EVENTS)
        self._unsubscribe = [memory.subscribe(self._publish)]
        if retrievals:
            self._unsubscribe.append(memory.subscribe_retrievals(self._publish))

    def close(self) -> None:
        """Publish no more. Safe to repeat."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._publisher = None

    def _publish(self, change: Change) -> None:
        for msg in self._messages(change):
            publisher = self._publisher
            if publisher is not None:
                qos.publish(publisher, msg)

    def _messages(self, change: Change) -> Iterator[MemoryEvent]:
        msg = event_to_msg(change, self._memory.epoch)
        if bytes_of_event(msg) <= self._limit:
            yield msg
        elif change.op == 'evict' and len(change.ids) > 1:
            # It is in no feed, so this is the only place to learn of it.
            half = len(change.ids) // 2
            for part in (slice(0, half), slice(half, None)):
                ids, keys, outcomes = change.ids[part], change.keys[part], change.outcomes[part]
                yield from self._messages(replace(change, ids=ids, keys=keys, outcomes=outcomes))
        else:
            # A gap in the sequence would be worse than an event that must be looked up.
            msg.ids, msg.keys, msg.outcomes, msg.extra_json = [], [], [], ''
            yield msg
