"""Verdicts on what was answered: who said what of which item, in which episode; the oldest leave.

They take no sequence and are in no hash. What they count stays with the items when they leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert as upsert

from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.feedback.scores import add_counts
from hylo_memory_ros.storage.schema import feedback

__all__ = ['Judgement', 'save_verdicts']


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


def save_verdicts(
    connection: sa.Connection, judgement: Judgement, subjects: Mapping[str, str], most: int
) -> int:
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
    before = _earlier(connection, judgement, subjects)
    deltas: dict[str, Counter[str]] = {}
    for name, subject in subjects.items():
        counted = deltas.setdefault(subject, Counter())
        counted[judgement.outcome] += 1
        if name in before:
            counted[before[name]] -= 1
    add_counts(connection, deltas, judgement.recorded_at_ns)
    connection.execute(_put, [{'item': name, **judgement._asdict()} for name in subjects])
    newest = connection.scalar(sa.select(sa.func.max(feedback.c.number))) or 0
    connection.execute(feedback.delete().where(feedback.c.number <= newest - most))
    return len(before)


def _earlier(connection: sa.Connection, judgement: Judgement, ids: Collection[str]) -> dict[str, str]:
    same = (
        feedback.c.receipt_id == judgement.receipt_id,
        feedback.c.episode == judgement.episode,
        feedback.c.actor == judgement.actor,
    )
    found: dict[str, str] = {}
    for part in chunks(ids):
        rows = sa.select(feedback.c.item, feedback.c.outcome).where(feedback.c.item.in_(part), *same)
        found |= {row.item: row.outcome for row in connection.execute(rows)}
    return found


_insert = upsert(feedback)
_put = _insert.on_conflict_do_update(
    index_elements=[feedback.c.item, feedback.c.receipt_id, feedback.c.episode, feedback.c.actor],
    set_={name: _insert.excluded[name] for name in ('outcome', 'note', 'recorded_at_ns')},
)
