"""Answers to repeatable writes that working memory had a part in; gone with the process, as that is.

Threads: every method is called under the service's lock of writes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import WriteResult

__all__ = ['RequestCache']


class RequestCache:
    """The latest answers, by the request that each was given to.

    Parameters
    ----------
    capacity : int
        Most answers; the oldest leave.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._answers: OrderedDict[str, WriteResult] = OrderedDict()

    def keep(self, request_id: str | None, result: WriteResult) -> None:
        """Keep the answer to a request; one without a name is not repeatable."""
        if request_id is not None:
            self._answers[request_id] = result
            if len(self._answers) > self._capacity:
                self._answers.popitem(last=False)

    def get(self, request_id: str | None, count: int) -> WriteResult | None:
        """Return the first answer to a request of so many items; None: it was not answered yet.

        Raises
        ------
        InvalidRequestError
            It was answered for another number of items.
        """
        known = None if request_id is None else self._answers.get(request_id)
        if known is not None and len(known.events) != count:
            raise InvalidRequestError(f'request_id: {request_id!r} was answered before, for another call')
        return known

    def forget(self, ids: Collection[str]) -> None:
        """Forget the answers that name one of these, which were purged."""
        gone = set(ids)
        for request_id, result in list(self._answers.items()):
            if not gone.isdisjoint(result.ids):
                del self._answers[request_id]

    def clear(self) -> None:
        """Forget every answer."""
        self._answers.clear()
