"""The order of observations: who is waited for, and what waits.

Observations are processed by stamp, then input, then digest. What may still come is judged by
stamps alone, so that the speed of a replay, or a pause in it, does not change the order.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hylo_memory_ros.errors import (
    DisconnectedFrameError,
    FrameError,
    TransformTooNewError,
    TransformTooOldError,
    UnknownFrameError,
)
from hylo_memory_ros.perception.ingestion.observation import Message
from hylo_memory_ros.transforms import Transform

__all__ = ['Backlog', 'Waiting', 'Watermark']


class Watermark:
    """The stamp up to which every observation is in.

    It is the smallest, over the inputs, of the newest stamp less a window. An input that lies
    further behind the furthest one than the silence is left out until its next message; while
    one was never heard, nothing is decided until stamps have advanced by the silence. It never
    goes back.

    Parameters
    ----------
    inputs : iterable of str
        Names of the inputs.
    window_ns, silence_ns : int
        Nanoseconds of stamps.
    newest_ns : mapping, optional
        Newest stamps consumed by an earlier run.

    Examples
    --------
    >>> mark = Watermark(['front', 'rear'], window_ns=5, silence_ns=50)
    >>> mark.hear('front', 100); mark.value_ns
    0
    >>> mark.hear('rear', 90); mark.value_ns
    85
    >>> mark.hear('front', 200); mark.value_ns
    195
    """

    def __init__(
        self,
        inputs: Iterable[str],
        window_ns: int,
        silence_ns: int,
        newest_ns: Mapping[str, int] | None = None,
    ) -> None:
        self._window_ns = window_ns
        self._silence_ns = silence_ns
        self._newest: dict[str, int | None] = dict.fromkeys(inputs)
        self._newest.update(newest_ns or {})
        self._first_ns: int | None = None
        self._lifted_ns = 0
        # Whatever was consumed lay at or before the watermark of its time.
        self.value_ns = max((newest_ns or {}).values(), default=0)
        """The watermark, nanoseconds; 0 before anything was heard."""

    @property
    def furthest_ns(self) -> int:
        """Return the newest stamp of all inputs; 0: none."""
        return max((stamp for stamp in self._newest.values() if stamp is not None), default=0)

    def of(self, source: str) -> int:
        """Return the watermark of one input; 0: it was never heard."""
        newest = self._newest.get(source)
        return 0 if newest is None else max(newest - self._window_ns, min(newest, self._lifted_ns), 0)

    def hear(self, source: str, stamp_ns: int) -> None:
        """Take notice of a message."""
        if self._first_ns is None:
            self._first_ns = stamp_ns
        newest = self._newest[source]
        if newest is None or stamp_ns > newest:
            self._newest[source] = stamp_ns
            self._rise()

    def lift(self, until_ns: int) -> None:
        """Wait no longer for anything up to a stamp, at most up to the newest one heard."""
        until_ns = min(until_ns, self.furthest_ns)
        self._lifted_ns = max(self._lifted_ns, until_ns)
        self.value_ns = max(self.value_ns, until_ns)

    def _rise(self) -> None:
        furthest = self.furthest_ns
        heard = [stamp for stamp in self._newest.values() if stamp is not None]
        began = furthest if self._first_ns is None else self._first_ns
        if len(heard) < len(self._newest) and furthest - began <= self._silence_ns:
            return
        least = min(stamp for stamp in heard if stamp >= furthest - self._silence_ns)
        self.value_ns = max(self.value_ns, least - self._window_ns)


@dataclass(slots=True, eq=False)
class Waiting:
    """A message that is not processed yet."""

    message: Message
    """The message."""
    transform: Transform | None = None
    """``global_from_sensor`` at its stamp, once known."""
    base: Transform | None = None
    """``global_from_base`` at its stamp; None: the base is unknown."""
    refusal: FrameError | None = None
    """Why it was not known when it was last asked for."""
    gone: bool = False
    """Whether it left the backlog."""

    def __lt__(self, other: Waiting) -> bool:
        return self.message.order < other.message.order


@dataclass(slots=True)
class Backlog:
    """Messages in their order, those without a transform also by frame."""

    lookup: Callable[[Message], tuple[Message, Transform, Transform | None]]
    """Return a message with all that tf adds to it, where its frame and where the base was, or raise
    `FrameError`."""
    _queue: list[Waiting] = field(default_factory=list)
    _unresolved: dict[str, list[Waiting]] = field(default_factory=dict)
    _orders: dict[tuple[int, str, int], Waiting] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self._orders)

    def __contains__(self, message: Message) -> bool:
        return message.order in self._orders

    def count(self, source: str) -> int:
        """Return how many messages of an input wait."""
        return self._counts[source]

    def count_until(self, stamp_ns: int) -> int:
        """Return how many messages up to a stamp wait."""
        return sum(order[0] <= stamp_ns for order in self._orders)

    def push(self, message: Message) -> None:
        """Let a message wait."""
        waiting = Waiting(message)
        self._orders[message.order] = waiting
        self._counts[message.input] += 1
        heapq.heappush(self._queue, waiting)
        heapq.heappush(self._unresolved.setdefault(message.frame_id, []), waiting)

    def first(self) -> Waiting | None:
        """Return the first one in the order."""
        while self._queue and self._queue[0].gone:
            heapq.heappop(self._queue)
        return self._queue[0] if self._queue else None

    def take(self, waiting: Waiting) -> None:
        """Let a message go."""
        waiting.gone = True
        del self._orders[waiting.message.order]
        self._counts[waiting.message.input] -= 1

    def resolve(self) -> list[Waiting]:
        """Look for transforms; return the messages whose stamp lies before all that is kept.

        One lookup for each message that becomes known, and one for each frame that is waited for.
        """
        lost: list[Waiting] = []
        for frame, heap in list(self._unresolved.items()):
            while heap and (heap[0].gone or self._ask(heap[0], lost)):
                heapq.heappop(heap)
            if not heap:
                del self._unresolved[frame]
        return lost

    def _ask(self, waiting: Waiting, lost: list[Waiting]) -> bool:
        """Return whether the question is answered, for good or ill."""
        try:
            waiting.message, waiting.transform, waiting.base = self.lookup(waiting.message)
        except TransformTooOldError as refusal:
            waiting.refusal = refusal
            lost.append(waiting)
        except (TransformTooNewError, UnknownFrameError, DisconnectedFrameError) as refusal:
            waiting.refusal = refusal
            return False
        return True
