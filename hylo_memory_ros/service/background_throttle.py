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
        self._asking = 0
        self._silent = threading.Event()
        self._silent.set()
        self._resumed_s = time.monotonic()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Let background work wait until the end of the block."""
        with self._lock:
            self._asking += 1
            self._silent.clear()
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                if not self._asking:
                    self._silent.set()

    def give_way(self) -> None:
        """Wait until no query is being answered.

        At most four times as long as the work since the last wait took, and at most 50 ms.
        """
        worked_s = time.monotonic() - self._resumed_s
        self._silent.wait(min(_WAIT_OF_WORK * worked_s, _LONGEST_WAIT_S))
        self._resumed_s = time.monotonic()
