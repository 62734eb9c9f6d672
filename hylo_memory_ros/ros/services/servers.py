"""Service servers of the node: created at configure, destroyed after cleanup.

They outlive a cleanup by the requests that are still being answered, and by a moment in which new
requests are refused and sent replies arrive: destroying a service costs its clients every reply that
they do not have yet. A configure within that time takes the same servers over, so that there are
never two of one name.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.clock import Clock
from rclpy.node import Node
from rclpy.service_introspection import ServiceIntrospectionState

from hylo_memory_ros.errors import NotActiveError
from hylo_memory_ros.ros import qos
from hylo_memory_ros.ros.runtime.request_guard import Handler, RequestGuard
from hylo_memory_ros.ros.runtime.worker_pool import awaited_in_executor, drive
from hylo_memory_ros.ros.services import SERVICES
from hylo_memory_ros.ros.services.maintenance import maintain_server
from hylo_memory_ros.ros.services.registration import Handlers

# The executor's next turn takes the interpreter from the thread that answers, and with it a fifth of
# the time of a small query. So it yields, but too briefly to delay messages.
YIELD_S = 0.002

# How long a service outlives the last request: the reply to it must have reached its client.
LINGER_S = 0.5

INTROSPECTION = {
    'off': ServiceIntrospectionState.OFF,
    'metadata': ServiceIntrospectionState.METADATA,
    'contents': ServiceIntrospectionState.CONTENTS,
}


class Servers:
    """Offers and withdraws the services. Only the executor's thread may call.

    Parameters
    ----------
    node : Node
        Whose services they are.
    guard : RequestGuard
        Wraps every handler.
    """

    def __init__(self, node: Node, guard: RequestGuard) -> None:
        self._node, self._guard = node, guard
        self._handlers: Mapping[str, Any] = {}
        self._services: list[Any] = []
        self._until_s = 0.0
        self._called = 0
        self._action: Any = None
        # Handlers are awaited; in a mutually exclusive group the first would block all others.
        self._group = ReentrantCallbackGroup()
        guard.on_idle = self._on_idle

    def offer(self, groups: Sequence[Handlers], introspection: str) -> None:
        """Answer requests with these handlers from now on.

        Parameters
        ----------
        groups : sequence of Handlers
            One of each class in `HANDLERS`.
        introspection : {'off', 'metadata', 'contents'}
            What is published about each call.
        """
        self._handlers = {
            name: getattr(group, name)
            for group in groups
            for name in (*SERVICES, 'perform')
            if hasattr(type(group), name)
        }
        if not self._services:
            self._services = [self._create(name, kind) for name, kind in SERVICES.items()]
            self._action = maintain_server(self._node, self._guard, self._group, self._maintain, self._wake)
        for service in self._services:
            service.configure_introspection(self._clock(), qos.INTROSPECTION, INTROSPECTION[introspection])

    def withdraw(self, *, linger: bool = True) -> None:
        """Destroy the services once pending requests are answered. Safe to repeat.

        Parameters
        ----------
        linger : bool
            Whether the executor goes on and can destroy them later; if not, `close` does it.
        """
        self._handlers = {}
        if not linger:
            return
        self._linger()
        executor = self._node.executor
        if self._services and executor is not None:
            executor.create_task(self._drained)
        else:
            self._destroy()

    def close(self) -> None:
        """Destroy the services now, unless a thread still answers; safe to repeat."""
        if not self._guard.running:
            self._destroy()

    async def _drained(self) -> None:
        await _Until(lambda: bool(self._handlers) or self._over())
        if not self._handlers:
            self._destroy()

    def _over(self) -> bool:
        called = sum(self._guard.calls.values())
        if self._guard.running or called != self._called:
            self._called = called
            self._linger()
        return time.monotonic() >= self._until_s

    def _linger(self) -> None:
        self._until_s = time.monotonic() + LINGER_S

    def _on_idle(self) -> None:
        if self._services and not self._handlers:
            self._wake()

    def _destroy(self) -> None:
        services, self._services = self._services, []
        for service in services:
            self._node.destroy_service(service)
        action, self._action = self._action, None
        if action is not None:
            action.destroy()

    def _create(self, name: str, kind: Any) -> Any:
        async def handle(request: Any, response: Any) -> Any:
            return await self._handler(name)(request, response)

        callback = deferred(
            self._guard, name, kind.Response, self._guard.wrapped(name, kind.Response, handle), self._wake
        )
        return self._node.create_service(
            kind, f'~/{name}', callback, qos_profile=qos.SERVICE, callback_group=self._group
        )

    def _wake(self) -> None:
        executor = self._node.executor
        if executor is not None:
            executor.wake()

    async def _maintain(self, goal: Any, progress: Any, result: Any) -> Any:
        return await self._handler('perform')(goal, progress, result)

    def _handler(self, name: str) -> Any:
        handler = self._handlers.get(name)
        if handler is None:
            raise NotActiveError('the node is not active: its memory is closed')
        return handler

    def _clock(self) -> Clock:
        return self._node.get_clock()


def deferred(
    guard: RequestGuard, name: str, response_type: Any, handler: Handler, wake: Callable[[], None]
) -> Callable[[Any, Any], Awaitable[Any]]:
    """Return a service callback that answers later.

    `MessageExecutor` calls its ``begin``, and the thread that has the answer sends it. Any other
    executor awaits it.
    """

    async def callback(request: Any, response: Any) -> Any:
        guard.entered(name)
        try:
            return await awaited_in_executor(handler(request, response), wake)
        finally:
            guard.left()

    def begin(service: Any, request: Any, header: Any) -> None:
        sent = threading.Event()

        def send(response: Any) -> None:
            try:
                service.send_response(response, header)
            finally:
                sent.set()
                guard.left()

        guard.entered(name)
        drive(handler(request, response_type()), send)
        sent.wait(YIELD_S)

    callback.begin = begin  # type: ignore[attr-defined]
    return callback


class _Until:
    """Awaits a condition; the executor asks again at every turn."""

    def __init__(self, condition: Any) -> None:
        self._condition = condition

    def __await__(self) -> Any:
        while not self._condition():
            yield
