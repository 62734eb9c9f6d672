"""Helpfulness counts of items and landmarks: reading, adding, carrying to summaries, and the report.

Counts are not statements: they take no sequence, have no versions and are in no hash. They belong to an
id, so that another statement under the same key starts from zero; those of a landmark, which is the same
thing wherever it is seen, belong to the landmark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Text
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.dialects.sqlite import insert as upsert

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.model.feedback import COUNTS, VERDICTS, Helpfulness
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.landmarks.landmarks import LandmarkRepository
from hylo_memory_ros.storage.query.filters.statistics import subject_expression
from hylo_memory_ros.storage.schema import (
    SUBJECT_SEPARATOR,
    assertion,
    helpfulness,
    identity,
    landmark,
)
from hylo_memory_ros.storage.statements.mapper import ITEM_COLUMNS, ItemRow

__all__ = [
    'Order',
    'SubjectCounts',
    'add_counts',
    'any_helpfulness',
    'carry_counts',
    'counts_of',
    'helpfulness_of',
    'helpfulness_report',
    'landmark_of',
    'landmark_subject',
    'misjudged',
    'subject_of',
    'subjects_of',
]


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
        connection.execute(_put, rows)


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


_insert = upsert(helpfulness)
_put = _insert.on_conflict_do_update(
    index_elements=[helpfulness.c.subject],
    set_={column.name: _insert.excluded[column.name] for column in helpfulness.c if not column.primary_key},
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
