"""Cursors of truncated answers, and the cache of their rankings."""

from __future__ import annotations

import base64
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256

from hylo_memory_ros.errors import EpochChangedError, InvalidRequestError
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.retrieval.ranking import Ranking

MAX_SEQUENCE = 2**62
"""Beyond every sequence, time and place among matches, and still a number for SQLite."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in an answer, pinned to both time axes."""

    epoch: str
    """History that the sequence belongs to."""
    query: str
    """`query_digest` of its query."""
    offset: int
    """Hits of the pages before."""
    seq: int = 0
    """Sequence that the answer is of."""
    at_ns: int = 0
    """World time that the answer is of."""

    def encoded(self) -> str:
        """Return the cursor as an opaque text."""
        parts = [self.epoch, self.query, self.offset, self.seq, self.at_ns]
        return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()

    @classmethod
    def decoded(cls, text: str, epoch: str, query: str) -> Cursor:
        """Read the cursor of an earlier page of the same query.

        Raises
        ------
        EpochChangedError
            It belongs to another history, such as the one before a restore.
        InvalidRequestError
            The text is no cursor, or one of another query.
        """
        try:
            epoch_of, query_of, *numbers = json.loads(base64.urlsafe_b64decode(text.encode()))
            valid = isinstance(epoch_of, str) and isinstance(query_of, str) and all(map(_is_place, numbers))
            cursor = cls(epoch_of, query_of, *numbers)
        except (ValueError, TypeError, RecursionError) as exc:
            raise InvalidRequestError(f'cursor: {text[:40]!r} is no cursor of this memory') from exc
        if not valid:
            raise InvalidRequestError(f'cursor: {text[:40]!r} is no cursor of this memory')
        if cursor.epoch != epoch:
            raise EpochChangedError(f'cursor: it belongs to epoch {cursor.epoch}, the memory is in {epoch}')
        if cursor.query != query:
            raise InvalidRequestError('cursor: it belongs to another query; repeat that one to go on')
        return cursor


def _is_place(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_SEQUENCE


def query_digest(query: MemoryQuery) -> str:
    """Return a short digest of what decides about the order of an answer."""
    text = query.model_dump_json(exclude={'cursor', 'k', 'explain'})
    return sha256(text.encode()).hexdigest()[:16]


_CAPACITY = 16


class RankingCache:
    """Rankings of the last truncated answers, by their query and their place on both time axes."""

    def __init__(self) -> None:
        self._rankings: OrderedDict[tuple[str, int, int], Ranking] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, query: str, seq: int, at_ns: int, ranking: Ranking) -> None:
        """Keep a ranking for the pages to come."""
        with self._lock:
            self._rankings[query, seq, at_ns] = ranking
            self._rankings.move_to_end((query, seq, at_ns))
            while len(self._rankings) > _CAPACITY:
                self._rankings.popitem(last=False)

    def get(self, query: str, seq: int | None, at_ns: int) -> Ranking | None:
        """Return a ranking, or None."""
        with self._lock:
            return None if seq is None else self._rankings.get((query, seq, at_ns))
