"""Who is told of each commit, in the writer's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hylo_memory_ros.model import Change

__all__ = ['EventBus']

logger = logging.getLogger(__name__)


class EventBus:
    """Callables that follow the feed; one that fails is logged, and does not stop the others."""

    def __init__(self) -> None:
        self._listeners: tuple[Callable[[Change], None], ...] = ()

    def add(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Tell a listener of every change from now on; the result ends that."""
        self._listeners = (*self._listeners, listener)

        def remove() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return remove

    def __bool__(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def tell(self, change: Change) -> None:
        """Tell every listener of one change."""
        for listener in self._listeners:
            self._tell(listener, change)

    @staticmethod
    def _tell(listener: Callable[[Change], None], change: Change) -> None:
        try:
            listener(change)
        except Exception:
            logger.exception('a listener failed at sequence %d', change.sequence)
