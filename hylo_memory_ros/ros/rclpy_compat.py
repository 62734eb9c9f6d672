"""Uses of private parts of rclpy, each with its reason; written against rclpy 7.1 (Jazzy).

A new rclpy is checked by `test/ros/test_rclpy_compat.py`; where a private part is missing, the node goes
on with what rclpy does by itself.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.service import Service
from rclpy.task import Task

logger = logging.getLogger(__name__)


class MessageExecutor(SingleThreadedExecutor):
    """A single-threaded executor that survives messages it cannot read.

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
        # rclpy's own `spin` sometimes misses a signal on an idle node; a bounded turn does not.
        while wanted() and self.context.ok():
            self._turn()

    def _turn(self) -> None:
        try:
            self.spin_once(timeout_sec=0.5)
        except ExternalShutdownException:
            pass
        except Exception:  # the node must live; the traceback says what to fix
            logger.exception('a callback failed')

    def _take_subscription(self, sub: Any) -> Any:
        return self._taken(super()._take_subscription, sub)

    def _make_handler(self, entity: Any, node: Any, take_from_wait_list: Any) -> Any:
        # A deferred service answers by itself; this saves two turns of the loop for each call.
        begin = getattr(getattr(entity, 'callback', None), 'begin', None)
        if begin is None or not isinstance(entity, Service):
            return super()._make_handler(entity, node, take_from_wait_list)
        return Task(lambda: self._taken(_take_request, entity), executor=self)

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
            return None  # destroyed since the middleware reported a message
        except Exception as exc:  # noqa: BLE001 - whatever it is, one message must not end the node
            name = str(getattr(entity, 'topic_name', getattr(entity, 'srv_name', type(entity).__name__)))
            self.unreadable[name] += 1
            logger.warning('%s: dropped a message that cannot be read: %s', name, exc)
            return None


def _take_request(service: Any) -> None:
    with service.handle:
        request, header = service.handle.service_take_request(service.srv_type.Request)
    if header is not None:
        service.callback.begin(service, request, header)


def given_parameters(node: Node) -> Mapping[str, Any]:
    """Return the parameters given by files and the command line; rclpy shows only declared ones."""
    given: Mapping[str, Any] = getattr(node, '_parameter_overrides', {})
    return given


def lifecycle_state(node: LifecycleNode) -> tuple[int, str]:
    """Return number and name of a node's state; rclpy offers it only through a service call."""
    number, name = node._state_machine.current_state
    return int(number), str(name)


def answer_impossible_transitions(node: LifecycleNode) -> None:
    """Answer requests for transitions that are impossible now, where rclpy raises (ros2/rclpy#1209)."""
    service = getattr(node, '_service_change_state', None)
    if service is None:
        return
    change_state = service.callback

    def answer(request: Any, response: Any) -> Any:
        try:
            return change_state(request, response)
        except Exception as exc:  # noqa: BLE001 - RCLError is no public name
            label = request.transition.label or request.transition.id
            logger.warning(
                'transition %s is not possible in the state %s: %s', label, lifecycle_state(node)[1], exc
            )
            response.success = False
            return response

    service.callback = answer
