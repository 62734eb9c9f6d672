"""Questions whose transforms have not arrived yet, each with a time by which it is answered."""

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

__all__ = ['PendingQueue']

# What the next tf message may put right. A frame is also unknown, or not yet joined, during the
# first moments after a start, so these wait like a transform that is too new; all are answered,
# under their own names, when the time is over.
_MAY_STILL_COME = (TransformTooNewError, UnknownFrameError, DisconnectedFrameError)

_Answer = Transform | HyloMemoryError


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    target: str
    source: str
    stamp_ns: int
    asked_ns: int
    deadline_ns: float
    future: Future[Transform]


_Answered = list[tuple[_Question, _Answer]]


class PendingQueue:
    """Asks a `TransformSource`, and asks again whenever transforms arrive.

    ===================================  ==========================================
    the source says                      the question is answered
    ===================================  ==========================================
    a transform                          at once
    too old, or a name that is none      at once, refused: the past never arrives
    too new, unknown, not connected      when a message puts it right, or refused
                                         by that name when its time is over
    ===================================  ==========================================

    Connect `poll` to `TransformSource.on_change`, and call `expire` from a timer. A poll makes one
    lookup for each pair of frames that is waited for and one for each question it answers, however
    many are pending: questions of one pair are asked in the order of their stamps, and the first
    that must wait lets all later ones wait.

    Parameters
    ----------
    source : TransformSource
        Who knows the transforms.
    timeout_s : float
        How long a question waits on the steady clock, seconds, unless it says otherwise.
    capacity : int
        Questions beyond this many drop the oldest one: refused with `NotNowError` and counted.
    steady_ns : callable
        The steady clock, nanoseconds. Never wall time or the time of a replay: a paused or faster
        replay must not change who is answered when.

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
        self._questions: list[_Question] = []
        self.dropped = 0
        """Questions refused because the queue was full."""
        self.expired = 0
        """Questions refused because their time was over."""

    def __len__(self) -> int:
        return len(self._questions)

    def submit(
        self, target_frame: str, source_frame: str, stamp_ns: int, *, timeout_s: float | None = None
    ) -> Future[Transform]:
        """Ask for ``target_from_source`` at a stamp; one question per message, not per detection.

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
        question = _Question(target_frame, source_frame, stamp_ns, now, now + wait_ns, future)
        with self._lock:
            answer = self._ask(question)
            if wait_ns > 0 and isinstance(answer, _MAY_STILL_COME):
                answered: _Answered = [(over, self._no_room(over)) for over in self._append(question)]
            else:
                answered = [(question, answer)]
        self._answer(answered)
        return future

    def poll(self) -> int:
        """Answer what can be answered now; return how many. For `TransformSource.on_change`."""
        with self._lock:
            answered = self._answerable()
            self._forget(question for question, _ in answered)
        return self._answer(answered)

    def expire(self) -> int:
        """Answer what can be answered, and refuse what has waited its time; return how many.

        Call it from a timer on the steady clock; half the shortest timeout is often enough.
        """
        now = self._steady_ns()
        return self._end(lambda question: question.deadline_ns <= now)

    def expire_before(self, stamp_ns: int) -> int:
        """Refuse what asks for a time before a stamp and still cannot be answered; return how many.

        For work that must not depend on how fast a replay runs: its end is a stamp, not a clock.
        """
        return self._end(lambda question: question.stamp_ns < stamp_ns)

    def finish(self, reason: str) -> int:
        """Answer what can be answered and refuse all others; return how many.

        For a clock that jumps back, a switch of maps, a node that stops.

        Parameters
        ----------
        reason : str
            Why, added to each message: ``the map was switched``.
        """
        return self._end(lambda _: True, reason)

    def next_deadline_ns(self) -> float | None:
        """Return when the next question is over on the steady clock; None without questions."""
        with self._lock:
            return min((question.deadline_ns for question in self._questions), default=None)

    def _ask(self, question: _Question) -> _Answer:
        try:
            return self._source.lookup(question.target, question.source, question.stamp_ns)
        except HyloMemoryError as exc:
            return exc

    def _append(self, question: _Question) -> list[_Question]:
        """Take a question; return those that had to go for it."""
        questions = [known for known in self._questions if not known.future.cancelled()]
        questions.append(question)
        over, self._questions = questions[: -self._capacity], questions[-self._capacity :]
        self.dropped += len(over)
        return over

    def _answerable(self) -> _Answered:
        answered: _Answered = []
        waiting: set[tuple[str, str, bool]] = set()
        for question in sorted(self._questions, key=lambda question: question.stamp_ns):
            # "Latest" may wait where a stamp need not, so it does not speak for the others.
            pair = (question.target, question.source, question.stamp_ns == LATEST)
            if pair in waiting:
                continue
            answer = self._ask(question)
            if isinstance(answer, _MAY_STILL_COME):
                waiting.add(pair)
            else:
                answered.append((question, answer))
        return answered

    def _end(self, is_over: Callable[[_Question], bool], reason: str = '') -> int:
        """Answer what can be answered; refuse, by its own name, what is over and cannot."""
        now = self._steady_ns()
        with self._lock:
            answered = self._answerable() if self._questions else []
            self._forget(question for question, _ in answered)
            over = [question for question in self._questions if is_over(question)]
            self._forget(over)
            for question in over:
                answer = self._ask(question)
                if isinstance(answer, HyloMemoryError):
                    answer = _after_waiting(answer, (now - question.asked_ns) / 1e9, reason)
                    self.expired += not reason
                answered.append((question, answer))
        return self._answer(answered)

    def _forget(self, questions: Iterable[_Question]) -> None:
        gone = {id(question) for question in questions}
        if gone:
            self._questions = [known for known in self._questions if id(known) not in gone]

    def _no_room(self, question: _Question) -> NotNowError:
        return NotNowError(
            f'no transform from {question.source!r} to {question.target!r}: {self._capacity} questions '
            'already wait for transforms, and the oldest was dropped',
            target_frame=question.target,
            source_frame=question.source,
            stamp_ns=question.stamp_ns,
        )

    @staticmethod
    def _answer(answered: _Answered) -> int:
        for question, answer in answered:
            if not question.future.set_running_or_notify_cancel():
                continue
            if isinstance(answer, Transform):
                question.future.set_result(answer)
            else:
                question.future.set_exception(answer)
        return len(answered)


def _after_waiting(error: HyloMemoryError, waited_s: float, reason: str) -> HyloMemoryError:
    if not isinstance(error, FrameError):
        return error
    waited = f'waited {waited_s:.3f} s' + (f', {reason}' if reason else '')
    return type(error)(f'{error.message} ({waited})', **error.details, waited_s=waited_s)
