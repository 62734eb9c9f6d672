"""Pending lookups of transforms that have not arrived yet, each with a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from hylo_memory_ros.errors import (
    DisconnectedFrameError,
    FrameError,
    HyloMemoryError,
    NotNowError,
    TransformTooNewError,
    UnknownFrameError,
)
from hylo_memory_ros.transforms.geometry import Transform
from hylo_memory_ros.transforms.source import LATEST, TransformSource

# What the next tf message may put right. A frame is also unknown, or not yet joined, during the
# first moments after a start, so these wait like a transform that is too new; all are completed,
# under their own names, when the time is over.
_MAY_STILL_COME = (TransformTooNewError, UnknownFrameError, DisconnectedFrameError)

_Answer = Transform | HyloMemoryError


@dataclass(frozen=True, slots=True, eq=False)
class _Lookup:
    target: str
    source: str
    stamp_ns: int
    submitted_ns: int
    deadline_ns: float
    future: Future[Transform]


_Completed = list[tuple[_Lookup, _Answer]]


class PendingLookups:
    """Queue of lookups in a `TransformSource`, repeated whenever transforms arrive.

    ===================================  ==========================================
    result of the source                 completion of the lookup
    ===================================  ==========================================
    a transform                          at once
    too old, or an invalid name          at once, refused: the past never arrives
    too new, unknown, not connected      when a message provides it, or refused
                                         with that error at its deadline
    ===================================  ==========================================

    Connect `poll` to `TransformSource.on_change`, and call `expire` from a timer. A poll makes one
    call for each pair of pending frames and one for each lookup it completes, however many are
    pending: lookups of one pair are tried in the order of their stamps, and the first one that must
    wait holds up all later ones.

    Parameters
    ----------
    source : TransformSource
        Source of the transforms.
    timeout_s : float
        Default timeout of a lookup on the steady clock, seconds.
    capacity : int
        Largest number of lookups; the oldest one beyond it is refused with `NotNowError` and counted.
    steady_ns : callable
        The steady clock, nanoseconds. Never wall time or the time of a replay: a paused or faster
        replay must not change the order of completion.

    Notes
    -----
    All methods may be called from any thread. Nothing waits. Futures are completed in the thread
    that calls, outside of the lock, so that a callback may submit again.
    """

    def __init__(
        self,
        source: TransformSource,
        *,
        timeout_s: float,
        capacity: int = 1024,
        steady_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._source = source
        self._timeout_s = timeout_s
        self._capacity = capacity
        self._steady_ns = steady_ns
        self._lock = threading.Lock()
        self._lookups: list[_Lookup] = []
        self.dropped = 0
        """Lookups refused because the queue was full."""
        self.expired = 0
        """Lookups refused after their deadline."""

    def __len__(self) -> int:
        return len(self._lookups)

    def submit(
        self, target_frame: str, source_frame: str, stamp_ns: int, *, timeout_s: float | None = None
    ) -> Future[Transform]:
        """Look up ``target_from_source`` at a stamp; one lookup per message, not per detection.

        Parameters
        ----------
        target_frame, source_frame, stamp_ns
            As for `TransformSource.lookup`.
        timeout_s : float, optional
            Seconds on the steady clock; 0 answers at once; `math.inf` leaves the end to
            `expire_before` and `finish`.

        Returns
        -------
        Future of Transform
            Done already when nothing needs to be waited for. Its exception is the named refusal.
            A cancelled one is forgotten.
        """
        wait_ns = (self._timeout_s if timeout_s is None else timeout_s) * 1e9
        now = self._steady_ns()
        future: Future[Transform] = Future()
        lookup = _Lookup(target_frame, source_frame, stamp_ns, now, now + wait_ns, future)
        with self._lock:
            answer = self._ask(lookup)
            if wait_ns > 0 and isinstance(answer, _MAY_STILL_COME):
                completed: _Completed = [(over, self._no_room(over)) for over in self._append(lookup)]
            else:
                completed = [(lookup, answer)]
        self._answer(completed)
        return future

    def poll(self) -> int:
        """Complete the lookups that succeed now; return how many. For `TransformSource.on_change`."""
        with self._lock:
            completed = self._answerable()
            self._forget(lookup for lookup, _ in completed)
        return self._answer(completed)

    def expire(self) -> int:
        """Complete the lookups that succeed, and refuse those past their deadline; return how many.

        Call it from a timer on the steady clock; half the shortest timeout is often enough.
        """
        now = self._steady_ns()
        return self._end(lambda lookup: lookup.deadline_ns <= now)

    def expire_before(self, stamp_ns: int) -> int:
        """Refuse lookups for stamps before a stamp that still fail; return how many.

        For work that must not depend on how fast a replay runs: its end is a stamp, not a clock.
        """
        return self._end(lambda lookup: lookup.stamp_ns < stamp_ns)

    def finish(self, reason: str) -> int:
        """Complete the lookups that succeed and refuse all others; return how many.

        For a clock that jumps back, a switch of maps, a node that stops.

        Parameters
        ----------
        reason : str
            Why, added to each message: ``the map was switched``.
        """
        return self._end(lambda _: True, reason)

    def next_deadline_ns(self) -> float | None:
        """Return the earliest deadline on the steady clock; None without lookups."""
        with self._lock:
            return min((lookup.deadline_ns for lookup in self._lookups), default=None)

    def _ask(self, lookup: _Lookup) -> _Answer:
        try:
            return self._source.lookup(lookup.target, lookup.source, lookup.stamp_ns)
        except HyloMemoryError as exc:
            return exc

    def _append(self, lookup: _Lookup) -> list[_Lookup]:
        """Append a lookup; return those that had to be dropped for it."""
        lookups = [known for known in self._lookups if not known.future.cancelled()]
        lookups.append(lookup)
        over, self._lookups = lookups[: -self._capacity], lookups[-self._capacity :]
        self.dropped += len(over)
        return over

    def _answerable(self) -> _Completed:
        completed: _Completed = []
        waiting: set[tuple[str, str, bool]] = set()
        for lookup in sorted(self._lookups, key=lambda lookup: lookup.stamp_ns):
            # "Latest" may have to wait where a stamp need not, so it is a pair of its own.
            pair = (lookup.target, lookup.source, lookup.stamp_ns == LATEST)
            if pair in waiting:
                continue
            answer = self._ask(lookup)
            if isinstance(answer, _MAY_STILL_COME):
                waiting.add(pair)
            else:
                completed.append((lookup, answer))
        return completed

    def _end(self, is_over: Callable[[_Lookup], bool], reason: str = '') -> int:
        """Complete the lookups that succeed; refuse those that are over, each with its own error."""
        now = self._steady_ns()
        with self._lock:
            completed = self._answerable() if self._lookups else []
            self._forget(lookup for lookup, _ in completed)
            over = [lookup for lookup in self._lookups if is_over(lookup)]
            self._forget(over)
            for lookup in over:
                answer = self._ask(lookup)
                if isinstance(answer, HyloMemoryError):
                    answer = _after_waiting(answer, (now - lookup.submitted_ns) / 1e9, reason)
                    self.expired += not reason
                completed.append((lookup, answer))
        return self._answer(completed)

    def _forget(self, lookups: Iterable[_Lookup]) -> None:
        gone = {id(lookup) for lookup in lookups}
        if gone:
            self._lookups = [known for known in self._lookups if id(known) not in gone]

    def _no_room(self, lookup: _Lookup) -> NotNowError:
        return NotNowError(
            f'no transform from {lookup.source!r} to {lookup.target!r}: {self._capacity} lookups '
            'already wait for transforms, and the oldest was dropped',
            target_frame=lookup.target,
            source_frame=lookup.source,
            stamp_ns=lookup.stamp_ns,
        )

    @staticmethod
    def _answer(completed: _Completed) -> int:
        for lookup, answer in completed:
            if not lookup.future.set_running_or_notify_cancel():
                continue
            if isinstance(answer, Transform):
                lookup.future.set_result(answer)
            else:
                lookup.future.set_exception(answer)
        return len(completed)


def _after_waiting(error: HyloMemoryError, waited_s: float, reason: str) -> HyloMemoryError:
    if not isinstance(error, FrameError):
        return error
    waited = f'waited {waited_s:.3f} s' + (f', {reason}' if reason else '')
    return type(error)(f'{error.message} ({waited})', **error.details, waited_s=waited_s)
