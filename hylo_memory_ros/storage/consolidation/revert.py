"""Reversal of summaries: the replaced statements hold again, the summaries are withdrawn.

Each call is one transaction, in which either all of a group happens or nothing. What was believed before
stays believed as of then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.timeline import Point
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.consolidation.repository import SummaryGroup
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.schema import assertion, consolidated, forgetting, identity, txn
from hylo_memory_ros.storage.statements.timeline_repository import Timelines

__all__ = ['Back', 'revert_groups']


class Back(NamedTuple):
    """Result of one transaction of a reversal."""

    restored: tuple[str, ...]
    """Statements that hold again."""
    withdrawn: tuple[str, ...]
    """Summaries that were taken out."""
    kept: Mapping[str, str]
    """Summaries that stay as they are, and why."""
    beneath: tuple[int, ...] = ()
    """Identities that those stand for."""


def revert_groups(
    transaction: Changeset, groups: Sequence[SummaryGroup], beneath: Collection[int] = ()
) -> Back:
    """Let the members of summaries hold again, and withdraw the summaries.

    Statements, retractions and purges since then count as they would have without the summaries. A
    forgotten summary stays forgotten.

    Parameters
    ----------
    beneath : collection of int
        Identities of summaries for which another stands that was forgotten.
    """
    there, timelines = _loaded(transaction, groups)
    forgotten = [
        group for group in groups if group.summary in beneath or _is_forgotten(group, there, timelines)
    ]
    ready = [group for group in groups if group not in forgotten]
    withdrawn: list[int] = []
    for group in ready:
        for number in there & {group.summary, *group.identities}:
            held = timelines[number]
            undone = [point for point in held.points if _undoes(point, group, number)]
            held.points = [point for point in held.points if point not in undone]
            withdrawn += [point.assertion_id for point in undone if point.assertion_id]
    _store_withdrawal(transaction, ready, withdrawn)
    timelines.save()
    removed = [timelines.evidence[number].id for number in withdrawn]
    restored = [timelines.evidence[row.assertion_id].id for row in transaction.added]
    for item_id in removed:
        transaction.note(item_id, None, 'RETRACT')
    for row, item_id in zip(transaction.added, restored, strict=True):
        transaction.note(item_id, timelines[row.identity_id].key, 'REVERT')
    kept = {_name(group, timelines): 'it was forgotten, with what it stands for' for group in forgotten}
    below = tuple(number for group in forgotten for number in group.identities)
    return Back(tuple(restored), tuple(removed), kept, below)


def _loaded(transaction: Changeset, groups: Sequence[SummaryGroup]) -> tuple[set[int], Timelines]:
    """Return which identities of groups are still there, and their timelines from the groups on."""
    times = _times(transaction.connection, groups)
    earliest = {
        number: times[group.sequence] for group in groups for number in (group.summary, *group.identities)
    }
    there = _there(transaction.connection, earliest)
    timelines = Timelines(transaction)
    timelines.load({number: earliest[number] for number in sorted(there)})
    return there, timelines


def _is_forgotten(group: SummaryGroup, there: Collection[int], timelines: Timelines) -> bool:
    return group.summary in there and any(
        point.content is None and not point.consolidated and point.sequence > group.sequence
        for point in timelines[group.summary].points
    )


def _name(group: SummaryGroup, timelines: Timelines) -> str:
    points = timelines[group.summary].points
    return next(timelines.evidence[point.assertion_id].id for point in points if point.assertion_id)


def _undoes(point: Point, group: SummaryGroup, identity_id: int) -> bool:
    """Return whether a point is part of a group: the ending of a member, or the summary itself."""
    if point.sequence != group.sequence:
        return False
    return bool(point.assertion_id) if identity_id == group.summary else point.consolidated


def _store_withdrawal(
    transaction: Changeset, groups: Sequence[SummaryGroup], assertion_ids: Sequence[int]
) -> None:
    for group in groups:
        this = (consolidated.c.summary == group.summary) & (consolidated.c.sequence == group.sequence)
        reverted = consolidated.update().where(this).values(reverted_seq=transaction.sequence)
        transaction.connection.execute(reverted)
        for part in chunks(group.identities):
            ended = forgetting.c.identity_id.in_(part) & (forgetting.c.sequence == group.sequence)
            values = {'withdrawn_seq': transaction.sequence}
            transaction.connection.execute(forgetting.update().where(ended).values(values))
    for part in chunks(assertion_ids):
        those = assertion.c.assertion_id.in_(part)
        transaction.connection.execute(
            assertion.update().where(those).values(withdrawn_seq=transaction.sequence)
        )


def _times(connection: sa.Connection, groups: Sequence[SummaryGroup]) -> dict[int, int]:
    sequences = {group.sequence for group in groups}
    found = sa.select(txn.c.sequence, txn.c.recorded_at_ns).where(txn.c.sequence.in_(sequences))
    return {row.sequence: row.recorded_at_ns for row in connection.execute(found)}


def _there(connection: sa.Connection, identity_ids: Iterable[int]) -> set[int]:
    """Return which identities were not deleted for good."""
    found: set[int] = set()
    for part in chunks(identity_ids):
        found.update(
            connection.scalars(sa.select(identity.c.identity_id).where(identity.c.identity_id.in_(part)))
        )
    return found
