"""Answers that are being paged.

A full-text rank depends on how common a word is in everything that was ever written, so every
write changes the ranks of old answers; a derived generation of vectors may be replaced; helpfulness
is counted on. The next page of an answer must know of none of that.

Threads: every method takes one lock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from hylo_memory_ros.retrieval.order import Ranking

__all__ = ['Kept']

_MOST = 16


class Kept:
    """The last few truncated answers, by their question and their place on both time axes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, int], Ranking] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, question: str, seq: int, at_ns: int, ranking: Ranking) -> None:
        """Keep an answer for the pages to come."""
        with self._lock:
            self._kept[question, seq, at_ns] = ranking
            self._kept.move_to_end((question, seq, at_ns))
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)

    def get(self, question: str, seq: int | None, at_ns: int) -> Ranking | None:
        """Return a kept answer, or None."""
        with self._lock:
            return None if seq is None else self._kept.get((question, seq, at_ns))
