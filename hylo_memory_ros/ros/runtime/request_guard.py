"""The outermost guard of every service: a request is answered, whatever happens."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic import ValidationError

from hylo_memory_ros.errors import HyloMemoryError, NotActiveError, StoreError
from hylo_memory_ros.msg import ErrorCode
from hylo_memory_ros.ros.convert.errors import described

__all__ = ['Handler', 'RequestGuard']

logger = logging.getLogger(__name__)

Handler = Callable[[Any, Any], Coroutine[Any, Any, Any]]
"""Takes a request and an empty response, and returns the response to send."""


class RequestGuard:
    """Lets requests through while the node is active, and turns every refusal into an answer.

    A request comes in in the executor's thread and may end in another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.open = False
        """Whether the node is active."""
        self.running = 0
        """Requests that are being answered."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called when the last of them was."""
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
            Of its responses; that of a refusal is a fresh one, with nothing else in it.
        handler : Handler
            What answers.
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
        """Count a request that came in."""
        with self._lock:
            self.running += 1
            self.calls[name] += 1

    def left(self) -> None:
        """Count a request whose answer was sent, or could not be."""
        with self._lock:
            self.running -= 1
            idle = not self.running
        if idle:
            self.on_idle()

    def _refusal(self, name: str, exc: Exception, response: Any) -> Any:
        with self._lock:
            self.refused[name] += 1
        if not self.open and isinstance(exc, StoreError):
            exc = NotActiveError('the node is not active: its memory was closed meanwhile')
        code, message = described(exc)
        if not isinstance(exc, HyloMemoryError | ValidationError):
            logger.error('~/%s failed', name, exc_info=exc)
        elif code == ErrorCode.INTERNAL:
            logger.error('~/%s failed: %s', name, message)
        else:
            logger.debug('~/%s refused: %s', name, message)
        response.success, response.error_code, response.message = False, code, message
        return response
