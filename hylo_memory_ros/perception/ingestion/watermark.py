"""Watermark of complete stamps, and backlog of messages that wait for their turn or their transform.

Observations are processed by stamp, then input, then digest. Stamps alone decide when no earlier
observation can arrive, so that the speed of a replay, or a pause in it, does not change the order.
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
    >>> mark.observe('front', 100); mark.value_ns
    0
    >>> mark.observe('rear', 90); mark.value_ns
    85
    >>> mark.observe('front', 200); mark.value_ns
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
        # All consumed messages were at or before the watermark.
        self.value_ns = max((newest_ns or {}).values(), default=0)
        """The watermark, nanoseconds; 0 before any message."""

    @property
    def furthest_ns(self) -> int:
        """Return the newest stamp of all inputs; 0: none."""
        return max((stamp for stamp in self._newest.values() if stamp is not None), default=0)

    def of(self, source: str) -> int:
        """Return the watermark of one input; 0: no message yet."""
        newest = self._newest.get(source)
        return 0 if newest is None else max(newest - self._window_ns, min(newest, self._lifted_ns), 0)

    def observe(self, source: str, stamp_ns: int) -> None:
        """Take the stamp of a new message."""
        if self._first_ns is None:
            self._first_ns = stamp_ns
        newest = self._newest[source]
        if newest is None or stamp_ns > newest:
            self._newest[source] = stamp_ns
            self._rise()

    def advance_to(self, until_ns: int) -> None:
        """Advance the watermark to a stamp, at most to the newest one."""
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
class PendingMessage:
    """A message that waits in the backlog."""

    message: Message
    """The message."""
    transform: Transform | None = None
    """``global_from_sensor`` at its stamp, once known."""
    base: Transform | None = None
    """``global_from_base`` at its stamp; None: the base is unknown."""
    refusal: FrameError | None = None
    """Error of the last lookup."""
    gone: bool = False
    """Whether it left the backlog."""

    def __lt__(self, other: PendingMessage) -> bool:
        return self.message.order < other.message.order


@dataclass(slots=True)
class Backlog:
    """Pending messages in their order, and by frame while they lack a transform."""

    lookup: Callable[[Message], tuple[Message, Transform, Transform | None]]
    """Resolves a message, the pose of its sensor and that of the base, or raises `FrameError`."""
    _queue: list[PendingMessage] = field(default_factory=list)
    _unresolved: dict[str, list[PendingMessage]] = field(default_factory=dict)
    _orders: dict[tuple[int, str, int], PendingMessage] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)
    needed_ns: int | None = None
    """Earliest stamp whose transform is not looked up yet, or earlier; None: there is none."""

    def __len__(self) -> int:
        return len(self._orders)

    def __contains__(self, message: Message) -> bool:
        return message.order in self._orders

    def count(self, source: str) -> int:
        """Return the number of pending messages of an input."""
        return self._counts[source]

    def count_until(self, stamp_ns: int) -> int:
        """Return the number of pending messages up to a stamp."""
        return sum(order[0] <= stamp_ns for order in self._orders)

    def push(self, message: Message) -> None:
        """Add a message."""
        pending = PendingMessage(message)
        self._orders[message.order] = pending
        self._counts[message.input] += 1
        self.needed_ns = min(message.stamp_ns, self.needed_ns or message.stamp_ns)
        heapq.heappush(self._queue, pending)
        heapq.heappush(self._unresolved.setdefault(message.frame_id, []), pending)

    def first(self) -> PendingMessage | None:
        """Return the first pending message."""
        while self._queue and self._queue[0].gone:
            heapq.heappop(self._queue)
        return self._queue[0] if self._queue else None

    def remove(self, pending: PendingMessage) -> None:
        """Remove a message."""
        pending.gone = True
        del self._orders[pending.message.order]
        self._counts[pending.message.input] -= 1

    def resolve(self) -> list[PendingMessage]:
        """Look up transforms; return messages that are older than the transform buffer.

        One lookup for each message that becomes known, and one for each frame that is waited for.
        """
        lost: list[PendingMessage] = []
        for frame, heap in list(self._unresolved.items()):
            while heap and (heap[0].gone or self._ask(heap[0], lost)):
                heapq.heappop(heap)
            if not heap:
                del self._unresolved[frame]
        self.needed_ns = min((heap[0].message.stamp_ns for heap in self._unresolved.values()), default=None)
        return lost

    def _ask(self, pending: PendingMessage, lost: list[PendingMessage]) -> bool:
        """Look up a message; return whether the result is final."""
        try:
            pending.message, pending.transform, pending.base = self.lookup(pending.message)
        except TransformTooOldError as refusal:
            pending.refusal = refusal
            lost.append(pending)
        except (TransformTooNewError, UnknownFrameError, DisconnectedFrameError) as refusal:
            pending.refusal = refusal
            return False
        return True
