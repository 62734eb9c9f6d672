"""Who may read a file: everybody, but nobody while another is put in its place.

A connection to the file before would share the log of the one after, by its name, and mix the two.

Threads: every method may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ['Admittance']


class Admittance:
    """Counts those who read; one who has come in may come in again before leaving."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside: dict[int, int] = {}
        self._shut = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Be counted as a reader; while nobody may come in, wait."""
        me = threading.get_ident()
        with self._condition:
            while self._shut and me not in self._inside:
                self._condition.wait()
            self._inside[me] = self._inside.get(me, 0) + 1
        try:
            yield
        finally:
            with self._condition:
                self._inside[me] -= 1
                if not self._inside[me]:
                    del self._inside[me]
                    self._condition.notify_all()

    @contextmanager
    def shut(self, timeout_s: float) -> Iterator[bool]:
        """Let nobody in, and wait for those inside to leave; False: somebody stayed.

        Parameters
        ----------
        timeout_s : float
            How long to wait for them, on the steady clock.
        """
        me = threading.get_ident()
        with self._condition:
            self._shut = True
        try:
            with self._condition:
                alone = self._condition.wait_for(lambda: not self._inside.keys() - {me}, timeout_s)
            yield alone
        finally:
            with self._condition:
                self._shut = False
                self._condition.notify_all()
