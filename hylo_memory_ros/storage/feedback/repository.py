"""Verdicts on answers and the helpfulness scores that follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as upsert

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.feedback.scores import (
    Order,
    Retrieval,
    Told,
    add_counts,
    helpfulness_report,
    note_retrievals,
    score_ended,
    subject_of,
    subjects_of,
)
from hylo_memory_ros.storage.schema import feedback

__all__ = ['FeedbackRepository', 'Judgement']


class Judgement(NamedTuple):
    """One verdict on some items."""

    receipt_id: str
    """Receipt of the answer they were in; empty: named without one."""
    outcome: str
    """One of `model.helpfulness.VERDICTS`."""
    episode: str
    """Episode; empty: none."""
    actor: str
    """Who says so."""
    note: str
    """In words."""
    recorded_at_ns: int
    """Service clock."""


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
        """Store a verdict on items and count it; return how many earlier ones it replaces.

        Parameters
        ----------
        judgement : Judgement
            What is said.
        subjects : mapping of str to str
            By the id of each item, what its counts belong to.
        most : int
            Verdicts that stay; the oldest leave.
        """
        before = self._earlier(judgement, subjects)
        deltas: dict[str, Counter[str]] = {}
        for name, subject in subjects.items():
            counted = deltas.setdefault(subject, Counter())
            counted[judgement.outcome] += 1
            if name in before:
                counted[before[name]] -= 1
        add_counts(self._connection, deltas, judgement.recorded_at_ns)
        self._connection.execute(_put, [{'item': name, **judgement._asdict()} for name in subjects])
        newest = self._connection.scalar(sa.select(sa.func.max(feedback.c.number))) or 0
        self._connection.execute(feedback.delete().where(feedback.c.number <= newest - most))
        return len(before)

    def _earlier(self, judgement: Judgement, ids: Collection[str]) -> dict[str, str]:
        same = (
            feedback.c.receipt_id == judgement.receipt_id,
            feedback.c.episode == judgement.episode,
            feedback.c.actor == judgement.actor,
        )
        found: dict[str, str] = {}
        for part in chunks(ids):
            rows = sa.select(feedback.c.item, feedback.c.outcome).where(feedback.c.item.in_(part), *same)
            found |= {row.item: row.outcome for row in self._connection.execute(rows)}
        return found

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


_insert = upsert(feedback)
_put = _insert.on_conflict_do_update(
    index_elements=[feedback.c.item, feedback.c.receipt_id, feedback.c.episode, feedback.c.actor],
    set_={name: _insert.excluded[name] for name in ('outcome', 'note', 'recorded_at_ns')},
)
