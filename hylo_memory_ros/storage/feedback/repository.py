"""Verdicts on answers and the helpfulness scores that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.storage.feedback.scores import (
    Order,
    Retrieval,
    Told,
    helpfulness_report,
    note_retrievals,
    score_ended,
    subject_of,
    subjects_of,
)
from hylo_memory_ros.storage.feedback.verdicts import Judgement, save_verdicts

__all__ = ['FeedbackRepository']


class FeedbackRepository:
    """Verdicts and helpfulness scores."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def subjects(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the subject of the counts of each id; an id that the file does not know is left out."""
        return subjects_of(self._connection, ids)

    def subject(self, item: MemoryItem) -> str:
        """Return the subject of the counts of an item, wherever it is stored."""
        return subject_of(self._connection, item)

    def save(self, judgement: Judgement, subjects: Mapping[str, str], most: int) -> int:
        """Store a verdict on items and count it; return how many earlier ones it replaces."""
        return save_verdicts(self._connection, judgement, subjects, most)

    def count_retrievals(self, retrievals: Sequence[Retrieval]) -> None:
        """Count what was answered, and keep what an open episode has looked up."""
        note_retrievals(self._connection, retrievals)

    def score_episode(
        self, episode_id: str, verdict: Literal['succeeded', 'failed'] | None, ended_ns: int
    ) -> None:
        """Relate what an episode has looked up to how it ended."""
        score_ended(self._connection, episode_id, verdict, ended_ns)

    def report(
        self, limit: int, order: Order = 'score', *, ascending: bool = False
    ) -> tuple[list[Told], int]:
        """Return what is counted, in order, and the number of subjects with any count."""
        return helpfulness_report(self._connection, limit, order, ascending=ascending)
