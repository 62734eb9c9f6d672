"""The executor: it moves messages between the middleware and the workers, and survives bad ones."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.service import Service
from rclpy.task import Task

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

    def _make_handler(self, entity: Any, node: Any, take_from_wait_list: Any) -> Any:
        """Serve a deferred service without the two turns of the loop that rclpy adds to each call."""
        begin = getattr(getattr(entity, 'callback', None), 'begin', None)
        if begin is None or not isinstance(entity, Service):
            return super()._make_handler(entity, node, take_from_wait_list)
        return Task(lambda: self._taken(_begun, entity), executor=self)

    def _take_service(self, srv: Any) -> Any:
        return self._taken(super()._take_service, srv)

    def _take_client(self, client: Any) -> Any:
        return self._taken(super()._take_client, client)

    def _take_waitable(self, waitable: Any) -> Any:
        return self._taken(super()._take_waitable, waitable)

    def _taken(self, take: Callable[[Any], Any], entity: Any) -> Any:
        try:
            return take(entity)
        except InvalidHandle:
            return None  # destroyed since the middleware said that there is something
        except Exception as exc:  # noqa: BLE001 - whatever it is, one message must not end the node
            name = str(getattr(entity, 'topic_name', getattr(entity, 'srv_name', type(entity).__name__)))
            self.unreadable[name] += 1
            logger.warning('%s: dropped a message that cannot be read: %s', name, exc)
            return None


def _begun(service: Any) -> None:
    """Take a request whose handler answers by itself, later."""
    with service.handle:
        request, header = service.handle.service_take_request(service.srv_type.Request)
    if header is not None:
        service.callback.begin(service, request, header)
