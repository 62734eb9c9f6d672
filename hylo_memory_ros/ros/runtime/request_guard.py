"""Outermost guard of every service: each request is answered, whatever happens."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic import ValidationError

from hylo_memory_ros.errors import HyloMemoryError, NotActiveError, StoreError
from hylo_memory_ros.msg import ErrorCode
from hylo_memory_ros.ros.convert.errors import describe

logger = logging.getLogger(__name__)

Handler = Callable[[Any, Any], Coroutine[Any, Any, Any]]
"""Takes a request and an empty response, and returns the response to send."""


class RequestGuard:
    """Admits requests while the node is active, and turns every exception into a response.

    Threads: a request arrives in the executor's thread and may end in another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.open = False
        """True while the node is active."""
        self.running = 0
        """Requests in progress."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called when the last request in progress has ended."""
        self.calls: Counter[str] = Counter()
        """Requests received, by service."""
        self.refused: Counter[str] = Counter()
        """Requests refused, by service."""

    def wrapped(self, name: str, response_type: Any, handler: Handler) -> Handler:
        """Return a handler that never raises.

        Parameters
        ----------
        name : str
            Name of the service, for counts and logs.
        response_type : type
            Of its responses; a refusal is a fresh one with no other content.
        handler : Handler
            The handler.
        """

        async def guarded(request: Any, response: Any) -> Any:
            try:
                if not self.open:
                    raise NotActiveError('the node is not active: activate it first')
                response = await handler(request, response)
            except Exception as exc:  # noqa: BLE001 - no request may end the node
                return self._refusal(name, exc, response_type())
            else:
                response.success, response.error_code = True, int(ErrorCode.OK)
                return response

        return guarded

    def entered(self, name: str) -> None:
        """Count an incoming request."""
        with self._lock:
            self.running += 1
            self.calls[name] += 1

    def left(self) -> None:
        """Count a request as ended, whether or not its answer could be sent."""
        with self._lock:
            self.running -= 1
            idle = not self.running
        if idle:
            self.on_idle()

    def _refusal(self, name: str, exc: Exception, response: Any) -> Any:
        with self._lock:
            self.refused[name] += 1
        if not self.open and isinstance(exc, StoreError):
            exc = NotActiveError('the node is not active: its memory has been closed')
        code, message = describe(exc)
        if not isinstance(exc, HyloMemoryError | ValidationError):
            logger.error('~/%s failed', name, exc_info=exc)
        elif code == ErrorCode.INTERNAL:
            logger.error('~/%s failed: %s', name, message)
        else:
            logger.debug('~/%s refused: %s', name, message)
        response.success, response.error_code, response.message = False, code, message
        return response
