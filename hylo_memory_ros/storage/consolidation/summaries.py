"""Replacement of statements by summaries, and its reversal.

Each call is one transaction, in which either all of a group happens or nothing. What was believed before
stays believed as of then.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.timeline import CONSOLIDATE, Point
from hylo_memory_ros.model import Condensed, MemoryItem, MemoryKind
from hylo_memory_ros.storage.changeset import Changeset, VersionRow
from hylo_memory_ros.storage.consolidation.repository import ConsolidationRepository, SummaryGroup
from hylo_memory_ros.storage.engine.database import chunks, insert_rows
from hylo_memory_ros.storage.feedback import carry_counts
from hylo_memory_ros.storage.receipts import existing_ids
from hylo_memory_ros.storage.schema import assertion, consolidated, consolidation, forgetting, identity, txn
from hylo_memory_ros.storage.statements.merged_statements import withdraw_assertions
from hylo_memory_ros.storage.statements.timeline_repository import Timelines
from hylo_memory_ros.storage.statements.writer import StatementWriter

CHANGED = 'what it was to stand for has changed meanwhile'
TAKEN = 'its id is that of another statement'


class Group(NamedTuple):
    """Statements that are to become one."""

    summary: MemoryItem
    """What is to stand for them, with its id, and without the time from which it speaks."""
    version_rows: tuple[int, ...]
    """The versions that it is to stand for, all open."""
    ids: tuple[str, ...]
    """Their ids, in the same order."""
    episode: str = ''
    """The episode that they belong to; empty: none, or several."""


class SummarizeResult(NamedTuple):
    """Summaries that one transaction made."""

    done: tuple[Condensed, ...]
    """What stands for what from now on."""
    skipped: Mapping[str, str]
    """Summaries that were not made, and why."""
    identity_ids: tuple[int, ...]
    """Identities that were ended."""


class _Open(NamedTuple):
    """A version that holds, and what of its statement the one goes by that takes its place."""

    version_row: int
    identity_id: int
    assertion_id: int
    spatial_id: int | None
    valid_from_ns: int
    id: str
    element: bytes


def summarize_groups(transaction: Changeset, number: int, groups: Sequence[Group]) -> SummarizeResult:
    """End the members of each group and store its summary; all groups of one episode.

    Members have no key: each says one thing, so nothing speaks from behind its end. A group of which a
    member does not hold any more as it was planned is left as it is, and one whose id somebody has given
    to another statement.
    """
    connection = transaction.connection
    members = _open_members(connection, groups, transaction.recorded_at_ns)
    taken = _taken(transaction, [str(group.summary.id) for group in groups])
    skipped = {
        str(group.summary.id): TAKEN if group.summary.id in taken else CHANGED
        for group in groups
        if group.summary.id in taken or not all(row in members for row in group.version_rows)
    }
    ready = [group for group in groups if group.summary.id not in skipped]
    if not ready:
        return SummarizeResult((), skipped, ())
    _carry_episode(transaction, ready[0].episode)
    ended = [members[row] for group in ready for row in group.version_rows]
    _end(transaction, number, ended)
    told = {'valid_from_ns': transaction.recorded_at_ns, 'valid_from_assumed': True}
    summaries = [group.summary.model_copy(update=told) for group in ready]
    StatementWriter(transaction).write(summaries, trusted=True)
    _record(connection, number, transaction.sequence, ready, members)
    carry_counts(connection, {str(group.summary.id): group.ids for group in ready})
    done = tuple(Condensed(str(group.summary.id), group.ids) for group in ready)
    return SummarizeResult(done, skipped, tuple(one.identity_id for one in ended))


def _open_members(connection: sa.Connection, groups: Sequence[Group], at_ns: int) -> dict[int, _Open]:
    raw: Any = connection.connection.dbapi_connection
    wanted = json.dumps([row for group in groups for row in group.version_rows])
    return {row[0]: _Open(*row) for row in raw.execute(_OPEN, (wanted, at_ns))}


def _taken(transaction: Changeset, ids: Sequence[str]) -> set[str]:
    transaction.archive.restore_ids(ids, given=True)
    return existing_ids(transaction.connection, ids)


def _end(transaction: Changeset, number: int, ended: Sequence[_Open]) -> None:
    """End versions at the service time, without loading timelines of which nothing else can change."""
    at_ns, sequence = transaction.recorded_at_ns, transaction.sequence
    kind = MemoryKind.EPISODIC.value
    first = len(transaction.added)
    for one in ended:
        transaction.ended.append(one.version_row)
        transaction.count_version(kind, one.element, (None, None), -1)
        # A summary may be one of another at once: while a clock stands still it never held.
        if one.valid_from_ns < at_ns:
            begun = VersionRow(
                transaction.next_id('version'), one.identity_id, one.assertion_id, one.spatial_id, kind,
                one.valid_from_ns, at_ns, None, sequence,
            )  # fmt: skip
            transaction.added.append(begun)
            transaction.count_version(kind, one.element, (at_ns, None), 1)
        transaction.note(one.id, None, 'CONSOLIDATE')
    raw: Any = transaction.connection.connection.dbapi_connection
    raw.execute(_END, (sequence, json.dumps([one.version_row for one in ended])))
    raw.executemany(_BEGIN, transaction.added[first:])
    raw.executemany(_FORGET, [(one.identity_id, sequence, at_ns, number) for one in ended])


def _carry_episode(transaction: Changeset, episode: str) -> None:
    """Let the transaction belong to the episode of what it speaks of, and not to the one that is open."""
    if episode == transaction.episode:
        return
    transaction.episode = episode
    where = txn.c.sequence == transaction.sequence
    transaction.connection.execute(txn.update().where(where).values(episode=episode))


def _record(
    connection: sa.Connection,
    number: int,
    sequence: int,
    groups: Sequence[Group],
    members: Mapping[int, _Open],
) -> None:
    found = {row.id: row.identity_id for row in connection.execute(_said_in, {'seq': sequence})}
    rows = [
        {
            'number': number,
            'summary': found[str(group.summary.id)],
            'sequence': sequence,
            'identities': json.dumps([members[row].identity_id for row in group.version_rows]),
            'reverted_seq': None,
        }
        for group in groups
    ]
    insert_rows(connection, consolidated, rows)


_OPEN = """
    SELECT v.version_row, v.identity_id, v.assertion_id, v.spatial_id, v.valid_from_ns, a.id,
        coalesce((
            SELECT c.element FROM corrected AS c WHERE c.assertion_id = v.assertion_id AND c.to_seq IS NULL
        ), a.element)
    FROM version AS v JOIN assertion AS a ON a.assertion_id = v.assertion_id
    JOIN identity AS i ON i.identity_id = v.identity_id
    WHERE v.version_row IN (SELECT value FROM json_each(?)) AND i.key IS NULL
    AND v.to_seq IS NULL AND v.valid_to_ns IS NULL AND v.valid_from_ns <= ?
"""
_END = 'UPDATE version SET to_seq = ? WHERE version_row IN (SELECT value FROM json_each(?))'
_BEGIN = """
    INSERT INTO version (version_row, identity_id, assertion_id, spatial_id, kind, valid_from_ns, valid_to_ns,
        ended_by, from_seq, to_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_FORGET = """
    INSERT INTO forgetting (identity_id, sequence, forgotten_at_ns, consolidation) VALUES (?, ?, ?, ?)
"""
_said_in = sa.select(assertion.c.id, assertion.c.identity_id).where(
    assertion.c.sequence == sa.bindparam('seq')
)


class RevertResult(NamedTuple):
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
) -> RevertResult:
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
    return RevertResult(tuple(restored), tuple(removed), kept, below)


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
        point.content is None and point.ending != CONSOLIDATE and point.sequence > group.sequence
        for point in timelines[group.summary].points
    )


def _name(group: SummaryGroup, timelines: Timelines) -> str:
    points = timelines[group.summary].points
    return next(timelines.evidence[point.assertion_id].id for point in points if point.assertion_id)


def _undoes(point: Point, group: SummaryGroup, identity_id: int) -> bool:
    """Return whether a point is part of a group: the ending of a member, or the summary itself."""
    if point.sequence != group.sequence:
        return False
    return bool(point.assertion_id) if identity_id == group.summary else point.ending == CONSOLIDATE


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
    withdraw_assertions(transaction, assertion_ids)


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


class ConsolidationWriter(ConsolidationRepository):
    """Consolidations made and reverted in a numbered transaction."""

    def __init__(self, changeset: Changeset) -> None:
        super().__init__(changeset.connection)
        self._changeset = changeset

    def begin(self, request: Mapping[str, Any]) -> int:
        """Record that a consolidation begins; return its number."""
        changeset = self._changeset
        row = {
            'begun_ns': changeset.recorded_at_ns,
            'actor': changeset.actor,
            'asked': json.dumps(request, sort_keys=True),
        }
        added = consolidation.insert().values(row).returning(consolidation.c.number)
        return int(self._connection.execute(added).scalar_one())

    def summarize(self, number: int, groups: Sequence[Group]) -> SummarizeResult:
        """Replace each group by its summary; all groups are of one episode."""
        return summarize_groups(self._changeset, number, groups)

    def revert(self, groups: Sequence[SummaryGroup], beneath: Collection[int] = ()) -> RevertResult:
        """Let the members of groups hold again, and withdraw their summaries."""
        return revert_groups(self._changeset, groups, beneath)
