"""Work that can wait gives way to questions.

All threads of a process share one interpreter: whoever computes for long keeps an answer waiting, also
without any lock. So long work is cut into pieces of about a millisecond, and asks between them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ['Courtesy']

# A breath is what the scheduler needs to let somebody else have the interpreter.
_BREATH_S = 0.0002
_LONGEST_WAIT_S = 0.05


class Courtesy:
    """Knows whether somebody is being answered.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking = 0
        self._silent = threading.Event()
        self._silent.set()

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

    def give_way(self) -> None:
        """Let others have the interpreter, and wait until nobody is being answered, for a while at most."""
        time.sleep(_BREATH_S)
        deadline_s = time.monotonic() + _LONGEST_WAIT_S
        while not self._silent.wait(_LONGEST_WAIT_S) and time.monotonic() < deadline_s:
            pass
