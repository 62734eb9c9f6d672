"""The executor: it moves messages between the middleware and the workers, and survives bad ones."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

__all__ = ['MessageExecutor']

logger = logging.getLogger(__name__)


class MessageExecutor(SingleThreadedExecutor):
    """A single-threaded executor that outlives what cannot be read.

    In rclpy an exception while a message is taken leaves the entity marked as executing: it is
    never served again, nor is anything else in its callback group. Here the message is counted
    and dropped, and the entity goes on.
    """

    def __init__(self, *, context: Context | None = None) -> None:
        super().__init__(context=context)
        self.unreadable: Counter[str] = Counter()
        """Messages that could not be taken, by the name of the topic or service."""

    def spin_while(self, wanted: Callable[[], bool]) -> None:
        """Serve until it is no longer wanted or ROS shuts down; never let an exception out."""
        while wanted() and self.context.ok():
            self._turn()

    def _turn(self) -> None:
        try:
            self.spin_once(timeout_sec=0.5)
        except ExternalShutdownException:
            pass
        except Exception:  # the node must live; the traceback says what to mend
            logger.exception('a callback failed')

    def _take_subscription(self, sub: Any) -> Any:
        return self._taken(super()._take_subscription, sub)

    def _take_service(self, srv: Any) -> Any:
        return self._taken(super()._take_service, srv)

    def _take_client(self, client: Any) -> Any:
        return self._taken(super()._take_client, client)

    def _take_waitable(self, waitable: Any) -> Any:
        return self._taken(super()._take_waitable, waitable)

    def _taken(self, take: Callable[[Any], Any], entity: Any) -> Any:
        try:
            return take(entity)
        except Exception as exc:  # noqa: BLE001 - whatever it is, one message must not end the node
            name = str(getattr(entity, 'topic_name', getattr(entity, 'srv_name', type(entity).__name__)))
            self.unreadable[name] += 1
            logger.warning('%s: dropped a message that cannot be read: %s', name, exc)
            return None
