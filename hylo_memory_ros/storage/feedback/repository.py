"""Repository of verdicts and helpfulness scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as upsert

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.model.feedback import NEVER_JUDGED
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.feedback.scores import (
    Order,
    SubjectCounts,
    add_counts,
    helpfulness_report,
    subject_of,
    subjects_of,
)
from hylo_memory_ros.storage.schema import episode_retrieval, feedback

__all__ = ['FeedbackRepository', 'Judgement', 'Retrieval']


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
    """Free-text note."""
    recorded_at_ns: int
    """Service clock."""


class Retrieval(NamedTuple):
    """One answer that has a receipt."""

    episode: str
    """Episode in which it was asked; empty: none."""
    at_ns: int
    """Service clock."""
    ids: tuple[str, ...]
    """What was answered."""


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
            The verdict, with its episode and actor.
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
        """Count what was answered, and keep for its score what an open episode has looked up.

        What has moved to the archive is passed over.
        """
        subjects = subjects_of(self._connection, {name for one in retrievals for name in one.ids})
        if not subjects:
            return
        counted: Counter[str] = Counter()
        last_ns: dict[str, int] = {}
        looked_up = set()
        for one in retrievals:
            for subject in {subjects[name] for name in one.ids if name in subjects}:
                counted[subject] += 1
                last_ns[subject] = max(one.at_ns, last_ns.get(subject, one.at_ns))
                if one.episode:
                    looked_up.add((subject, one.episode))
        rows = [
            (subject, count, last_ns[subject], NEVER_JUDGED) for subject, count in sorted(counted.items())
        ]
        self._connection.exec_driver_sql(_RETRIEVED, rows)
        if looked_up:
            self._connection.exec_driver_sql(_LOOKED_UP, sorted(looked_up))

    def score_episode(
        self, episode_id: str, verdict: Literal['succeeded', 'failed'] | None, ended_ns: int
    ) -> None:
        """Relate what an episode has looked up to how it ended.

        The episode is one piece of evidence for each of them, however often it was retrieved.

        Parameters
        ----------
        verdict : {'succeeded', 'failed'}, optional
            Verdict that its outcome implies; None: none.
        ended_ns : int
            End of the episode, service clock.
        """
        of_it = episode_retrieval.c.episode == episode_id
        subjects = list(self._connection.scalars(sa.select(episode_retrieval.c.subject).where(of_it)))
        if verdict is not None:
            add_counts(self._connection, {subject: {verdict: 1} for subject in subjects}, ended_ns)
        self._connection.execute(episode_retrieval.delete().where(of_it))

    def report(
        self, limit: int, order: Order = 'score', *, ascending: bool = False
    ) -> tuple[list[SubjectCounts], int]:
        """Return what is counted, in order, and the number of subjects with any count."""
        return helpfulness_report(self._connection, limit, order, ascending=ascending)


_insert = upsert(feedback)
_put = _insert.on_conflict_do_update(
    index_elements=[feedback.c.item, feedback.c.receipt_id, feedback.c.episode, feedback.c.actor],
    set_={name: _insert.excluded[name] for name in ('outcome', 'note', 'recorded_at_ns')},
)
# Of every answer that has a receipt, so straight to the driver. No score follows from it.
_RETRIEVED = (
    'INSERT INTO helpfulness (subject, useful, misleading, wrong, not_applicable, succeeded, failed, '
    'retrieved, last_ns, score) VALUES (?, 0, 0, 0, 0, 0, 0, ?, ?, ?) '
    'ON CONFLICT (subject) DO UPDATE SET retrieved = retrieved + excluded.retrieved, '
    'last_ns = max(coalesce(last_ns, excluded.last_ns), excluded.last_ns)'
)
_LOOKED_UP = (
    'INSERT OR IGNORE INTO episode_retrieval (subject, episode) '
    'SELECT ?, id FROM episode WHERE id = ? AND ended_ns IS NULL'
)
