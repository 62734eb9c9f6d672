"""Event bus: publishes commits to listeners, in the thread of the writer."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hylo_memory_ros.model import Change

logger = logging.getLogger(__name__)


class EventBus:
    """Listeners to the feed; the failure of one is logged, and does not stop the others."""

    def __init__(self) -> None:
        self.listeners: tuple[Callable[[Change], None], ...] = ()

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call a listener on every change from now on; the returned callable unsubscribes it."""
        # Replaced whole: `publish` iterates over the old tuple without a lock.
        self.listeners = (*self.listeners, listener)

        def remove() -> None:
            self.listeners = tuple(other for other in self.listeners if other is not listener)

        return remove

    def publish(self, change: Change) -> None:
        """Call every listener with one change."""
        for listener in self.listeners:
            self._call(listener, change)

    @staticmethod
    def _call(listener: Callable[[Change], None], change: Change) -> None:
        try:
            listener(change)
        # The commit is done; a listener can no longer undo it.
        except Exception:
            logger.exception('a listener failed at sequence %d', change.sequence)
