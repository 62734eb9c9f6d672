"""Throttle of background work: it yields to queries.

All threads of a process share one interpreter: a long computation delays an answer even without any lock.
So background work is cut into pieces of about a millisecond, and calls `give_way` between them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ['BackgroundThrottle']

_LONGEST_WAIT_S = 0.05
# Background work keeps a fifth of the time, however many queries come.
_WAIT_OF_WORK = 4.0


class BackgroundThrottle:
    """Counts the queries that are being answered, and lets background work wait for them.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries = 0
        self._idle = threading.Event()
        self._idle.set()
        self._resumed_s = time.monotonic()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold background work until the end of the block, which answers a query."""
        with self._lock:
            self._queries += 1
            self._idle.clear()
        try:
            yield
        finally:
            with self._lock:
                self._queries -= 1
                if not self._queries:
                    self._idle.set()

    def give_way(self) -> None:
        """Wait until no query is being answered.

        At most four times as long as the work since the last wait took, and at most 50 ms.
        """
        worked_s = time.monotonic() - self._resumed_s
        self._idle.wait(min(_WAIT_OF_WORK * worked_s, _LONGEST_WAIT_S))
        self._resumed_s = time.monotonic()
