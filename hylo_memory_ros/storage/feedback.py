"""Repository of verdicts, and the helpfulness counts of items and landmarks.

Counts are not statements: they take no sequence, have no versions and are in no hash. They belong to an
id, so that another statement under the same key starts from zero; those of a landmark, which is the same
thing wherever it is seen, belong to the landmark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Text
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.dialects.sqlite import insert as upsert

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.model.feedback import COUNTS, NEVER_JUDGED, VERDICTS, Helpfulness
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.landmarks import LandmarkRepository
from hylo_memory_ros.storage.query.filters.statistics import subject_expression
from hylo_memory_ros.storage.schema import (
    SUBJECT_SEPARATOR,
    assertion,
    episode_retrieval,
    feedback,
    helpfulness,
    identity,
    landmark,
)
from hylo_memory_ros.storage.statements.mapper import ITEM_COLUMNS, ItemRow

_OF_HELPFULNESS = tuple(field.name for field in fields(Helpfulness))
_KEY, _ID, _MAP = 7, 8, 9
_OBSERVATIONS = next(i for i, column in enumerate(ITEM_COLUMNS) if column is landmark.c.observations)


def landmark_of(subject: str) -> tuple[str, str] | None:
    """Return the map and the key of the landmark that counts belong to; None: of an item."""
    map_id, found, key = subject.partition(SUBJECT_SEPARATOR)
    return (map_id, key) if found else None


def landmark_subject(map_id: str, key: str) -> str:
    """Return what the counts of a landmark belong to."""
    return f'{map_id}{SUBJECT_SEPARATOR}{key}'


def subjects_of(connection: sa.Connection, ids: Iterable[str]) -> dict[str, str]:
    """Return what the counts of ids belong to; an id that the file does not know is left out."""
    raw: Any = connection.connection.dbapi_connection
    return dict(raw.execute(_SUBJECTS, (json.dumps(list(ids)),)))


def subject_of(connection: sa.Connection, item: MemoryItem) -> str:
    """Return what the counts of an item belong to, wherever it is stored."""
    place = item.scope.get('map_id', ''), item.key or ''
    return landmark_subject(*place) if LandmarkRepository(connection).stats([place]) else item.id or ''


_ids = sa.func.json_each(sa.bindparam('ids', type_=Text)).table_valued('value')
_SUBJECTS = str(
    sa.select(assertion.c.id, sa.func.max(subject_expression))
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .outerjoin(landmark, (landmark.c.map_id == assertion.c.map_id) & (landmark.c.key == identity.c.key))
    .where(assertion.c.id.in_(sa.select(_ids.c.value)))
    .group_by(assertion.c.id)
    .compile(dialect=sqlite_dialect())
)


def any_helpfulness(connection: sa.Connection) -> bool:
    """Return whether anything is counted of anything."""
    raw: Any = connection.connection.dbapi_connection
    return raw.execute('SELECT 1 FROM helpfulness LIMIT 1').fetchone() is not None


def helpfulness_of(connection: sa.Connection, rows: Sequence[ItemRow]) -> dict[int, Helpfulness]:
    """Return what is counted of item rows, by version row; of what nothing is, none."""
    subjects = [
        row[_ID] if row[_OBSERVATIONS] is None else landmark_subject(row[_MAP], row[_KEY]) for row in rows
    ]
    raw: Any = connection.connection.dbapi_connection
    # Straight to the driver, as all that every hit of every query needs.
    found = {row[0]: row[1:] for row in raw.execute(_LOOK_UP, (json.dumps(subjects),))}
    return {
        row[0]: Helpfulness(*found[subject])
        for row, subject in zip(rows, subjects, strict=True)
        if subject in found
    }


_LOOK_UP = (
    f'SELECT subject, {", ".join(_OF_HELPFULNESS)} FROM helpfulness '  # noqa: S608 - names of our own fields
    'WHERE subject IN (SELECT value FROM json_each(?))'
)


def counts_of(row: sa.Row[Any]) -> Helpfulness:
    """Return the counts of a row of `helpfulness`."""
    return Helpfulness(*(getattr(row, name) for name in _OF_HELPFULNESS))


def add_counts(
    connection: sa.Connection, deltas: Mapping[str, Mapping[str, int]], at_ns: int | None = None
) -> None:
    """Add to the counts of subjects, and update their scores.

    Parameters
    ----------
    deltas : mapping of str to mapping of str to int
        By subject, what to add to which count.
    at_ns : int, optional
        When that happened, service clock.
    """
    for part in chunks(sorted(deltas)):
        known = sa.select(helpfulness).where(helpfulness.c.subject.in_(part))
        before = {row.subject: counts_of(row) for row in connection.execute(known)}
        rows = [_row(subject, before.get(subject, Helpfulness()), deltas[subject], at_ns) for subject in part]
        connection.execute(_put_scores, rows)


def carry_counts(connection: sa.Connection, standing: Mapping[str, Sequence[str]]) -> None:
    """Start the counts of summaries with the sums of those of their members, which stay as they are.

    Parameters
    ----------
    standing : mapping of str to sequence of str
        Ids of replaced items by the id of their summary; none has a key.
    """
    raw: Any = connection.connection.dbapi_connection
    for item_id, ids in standing.items():
        *counts, last_ns = raw.execute(_SUMS, (json.dumps(list(ids)),)).fetchone()
        if last_ns is not None or any(counts):
            add_counts(connection, {item_id: dict(zip(COUNTS, counts, strict=True))}, last_ns)


_SUMS = (
    f'SELECT {", ".join(f"coalesce(sum({name}), 0)" for name in COUNTS)}, max(last_ns) '  # noqa: S608 - ours
    'FROM helpfulness WHERE subject IN (SELECT value FROM json_each(?))'
)


def _row(subject: str, before: Helpfulness, delta: Mapping[str, int], at_ns: int | None) -> dict[str, Any]:
    counts = {name: max(getattr(before, name) + delta.get(name, 0), 0) for name in COUNTS}
    last_ns = max((ns for ns in (before.last_ns, at_ns) if ns is not None), default=None)
    after = Helpfulness(**counts, last_ns=last_ns)
    return {'subject': subject, **counts, 'last_ns': last_ns, 'score': after.score}


_insert_scores = upsert(helpfulness)
_put_scores = _insert_scores.on_conflict_do_update(
    index_elements=[helpfulness.c.subject],
    set_={
        column.name: _insert_scores.excluded[column.name]
        for column in helpfulness.c
        if not column.primary_key
    },
)


def misjudged(connection: sa.Connection) -> list[str]:
    """Return what is wrong with the statistics: a score that does not follow from its counts."""
    problems = []
    for row in connection.execute(sa.select(helpfulness)):
        counts = counts_of(row)
        if row.score != counts.score or min(getattr(counts, name) for name in COUNTS) < 0:
            subject = row.subject.replace(SUBJECT_SEPARATOR, '/')
            problems.append(f'{subject}: its score of helpfulness is not that of its counts')
    return problems


_JUDGED = (*VERDICTS, 'succeeded', 'failed')


class SubjectCounts(NamedTuple):
    """Counts of one item or landmark, with its content now."""

    subject: str
    id: str
    """Newest id; empty: the item is not in this file."""
    kind: str
    key: str
    content: str
    counts: Helpfulness


Order = Literal['score', 'retrieved', 'last', 'useful', 'misleading', 'wrong']


def helpfulness_report(
    connection: sa.Connection, limit: int, order: Order = 'score', *, ascending: bool = False
) -> tuple[list[SubjectCounts], int]:
    """Return what is counted, in order, and of how many things anything is."""
    column = helpfulness.c['last_ns' if order == 'last' else order]
    judged: sa.ColumnElement[int] = sum((helpfulness.c[name] for name in _JUDGED), sa.literal(0))
    ordered = sa.select(helpfulness).order_by(
        column.asc() if ascending else column.desc(), judged.desc(), helpfulness.c.subject
    )
    rows = list(connection.execute(ordered.limit(limit)))
    said: dict[str, Any] = {}
    for part in chunks(row.subject for row in rows):
        landmarks = [named for subject in part if (named := landmark_of(subject)) is not None]
        for told in connection.execute(_said_by_id, {'ids': part}):
            said[told.id] = told
        for told in connection.execute(_said_by_key, {'keys': [key for _, key in landmarks]}):
            said[landmark_subject(told.map_id, told.key)] = told
    total = connection.scalar(sa.select(sa.func.count()).select_from(helpfulness)) or 0
    return [_told(row, said.get(row.subject)) for row in rows], total


def _told(row: Any, said: Any) -> SubjectCounts:
    counts = counts_of(row)
    if said is None:
        return SubjectCounts(row.subject, '', '', '', '', counts)
    return SubjectCounts(row.subject, said.id, said.kind, said.key or '', said.content, counts)


_said = (
    sa.select(assertion.c.id, assertion.c.map_id, assertion.c.content, identity.c.kind, identity.c.key)
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .order_by(assertion.c.assertion_id)
)
_said_by_id = _said.where(assertion.c.id.in_(sa.bindparam('ids', expanding=True)))
_said_by_key = _said.where(identity.c.key.in_(sa.bindparam('keys', expanding=True)))


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
