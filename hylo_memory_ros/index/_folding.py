"""The thread that folds places in the background. It lives only while there is something to fold."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from hylo_memory_ros.index._place import Place, fold

__all__ = ['ClosingError', 'Folding']

_logger = logging.getLogger(__name__)


class ClosingError(Exception):
    """The mirror is closing; what was being built is dropped."""


class Folding:
    """Folds whatever place is due, one at a time.

    Not a daemon: the interpreter waits for the fold in hand (about a second for a million rows), and
    none can be caught half-way by its end.

    Parameters
    ----------
    lock : lock
        Guards the places; held for moments only.
    places : callable
        Returns the places.
    cutoff_ns : callable
        Rows that end by this world time are built into closed runs.
    """

    def __init__(
        self, lock: threading.RLock, places: Callable[[], Collection[Place]], cutoff_ns: Callable[[], int]
    ) -> None:
        self._lock = lock
        self._places = places
        self._cutoff_ns = cutoff_ns
        self._idle = threading.Event()
        self._idle.set()
        self._closing = False
        self._forced: list[Place] = []
        self._thread: threading.Thread | None = None

    def kick(self, force: bool = False) -> None:
        """Start to fold if a place is due; with `force`, fold every place."""
        with self._lock:
            if force:
                self._forced = list(self._places())
            if self._closing or self._thread is not None or not self._next():
                return
            # The name is short enough for the kernel to show it.
            thread = threading.Thread(target=self._run, name='mirror-fold')
            self._idle.clear()
            try:
                thread.start()
            except RuntimeError:
                # No thread can start while the interpreter ends; answers need none.
                self._idle.set()
            else:
                self._thread = thread

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is being folded; False after the timeout."""
        return self._idle.wait(timeout_s)

    def check(self) -> None:
        """Raise `ClosingError` once the mirror is closing."""
        if self._closing:
            raise ClosingError

    def close(self) -> None:
        """Drop the fold in hand and wait for the thread to end."""
        self._closing = True
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _next(self) -> tuple[Place, str] | None:
        for place in self._forced:
            return place, 'deep'
        for place in self._places():
            kind = place.due()
            if kind is not None:
                return place, kind
        return None

    def _run(self) -> None:
        failed = False
        while True:
            with self._lock:
                # After a failure the next change tries again.
                job = None if self._closing or failed else self._next()
                if job is None:
                    self._thread = None
                    self._idle.set()
                    return
                place, kind = job
                if place in self._forced:
                    self._forced.remove(place)
            try:
                self._fold(place, kind)
            except ClosingError:
                pass
            except Exception:
                _logger.exception('a rebuild of the spatial mirror failed; answers stay exact')
                failed = True

    def _fold(self, place: Place, kind: str) -> None:
        if kind == 'planar':
            place.build_planar(self.check)
            return
        deep = kind == 'deep'
        with self._lock:
            parts = place.freeze(deep)
        failed = True
        try:
            runs = fold(parts, self._cutoff_ns(), place.planar, self.check)
            with self._lock:
                place.settle(runs, deep)
            failed = False
        except ClosingError:
            failed = False
            raise
        finally:
            with self._lock:
                place.thaw(failed)
