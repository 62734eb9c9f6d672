"""Work that can wait gives way to questions.

All threads of a process share one interpreter: whoever computes for long keeps an answer waiting, also
without any lock. So long work is cut into pieces of about a millisecond, and asks between them; meanwhile
whoever wants the interpreter gets it sooner than usual.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ['BackgroundThrottle']

_LONGEST_WAIT_S = 0.05
# However steadily somebody asks, a fifth of the time is left for work.
_WAIT_OF_WORK = 4.0
# Instead of 5 ms: who answers comes back from the database several times, and waits each time.
_SWITCH_S = 0.0001


class BackgroundThrottle:
    """Knows whether somebody is being answered.

    Threads: any.
    """

    # The interpreter is one for all memories of a process.
    _process = threading.Lock()
    _working = 0
    _interval_s = 0.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking = 0
        self._silent = threading.Event()
        self._silent.set()
        self._resumed_s = time.monotonic()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Let work that can wait stand back until the end of the block."""
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

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let others have the interpreter sooner until the end of the block, also in the midst of a piece."""
        shared = type(self)
        with shared._process:
            shared._working += 1
            if shared._working == 1:
                shared._interval_s = sys.getswitchinterval()
                sys.setswitchinterval(_SWITCH_S)
        try:
            yield
        finally:
            with shared._process:
                shared._working -= 1
                if not shared._working:
                    sys.setswitchinterval(shared._interval_s)

    def give_way(self) -> None:
        """Wait until nobody is being answered.

        It waits four times as long as was worked since it last did, at most, and 50 ms.
        """
        worked_s = time.monotonic() - self._resumed_s
        self._silent.wait(min(_WAIT_OF_WORK * worked_s, _LONGEST_WAIT_S))
        self._resumed_s = time.monotonic()
