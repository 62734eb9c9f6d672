"""Where a truncated answer ended: enough to go on with exactly the same question."""

from __future__ import annotations

import base64
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256

from hylo_memory_ros.errors import EpochChangedError, InvalidRequestError
from hylo_memory_ros.retrieval.ranking import Ranking

__all__ = ['MAX_SEQUENCE', 'Cursor', 'Kept', 'digest_of_question']

MAX_SEQUENCE = 2**62
"""Beyond every sequence, time and place among matches, and still a number for SQLite."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in an answer, pinned to both time axes."""

    epoch: str
    """History that the sequence belongs to."""
    question: str
    """Digest of what was asked."""
    offset: int
    """How many were answered already."""
    seq: int = 0
    """Sequence that the answer is of."""
    at_ns: int = 0
    """World time that the answer is of."""

    def encoded(self) -> str:
        """Return the cursor as an opaque text."""
        parts = [self.epoch, self.question, self.offset, self.seq, self.at_ns]
        return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()

    @classmethod
    def decoded(cls, text: str, epoch: str, question: str) -> Cursor:
        """Read a cursor that was given for the same question.

        Raises
        ------
        EpochChangedError
            It belongs to another history, such as the one before a restore.
        InvalidRequestError
            It is no cursor, or one of another question.
        """
        try:
            told, asked, *places = json.loads(base64.urlsafe_b64decode(text.encode()))
            sound = isinstance(told, str) and isinstance(asked, str) and all(map(_is_place, places))
            cursor = cls(told, asked, *places)
        except (ValueError, TypeError, RecursionError) as exc:
            raise InvalidRequestError(f'cursor: {text[:40]!r} is no cursor of this memory') from exc
        if not sound:
            raise InvalidRequestError(f'cursor: {text[:40]!r} is no cursor of this memory')
        if cursor.epoch != epoch:
            raise EpochChangedError(f'cursor: it belongs to epoch {cursor.epoch}, the memory is in {epoch}')
        if cursor.question != question:
            raise InvalidRequestError('cursor: it belongs to another question; ask the same one to go on')
        return cursor


def _is_place(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_SEQUENCE


def digest_of_question(text: str) -> str:
    """Return a short digest of a question in any stable form."""
    return sha256(text.encode()).hexdigest()[:16]


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
