"""The table of what has helped: what is counted, with what each item or landmark says."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.model.helpfulness import VERDICTS, Helpfulness
from hylo_memory_ros.store.helpfulness import counts_of, helpfulness, landmark_of, landmark_subject
from hylo_memory_ros.store.schema import assertion, identity
from hylo_memory_ros.store.transaction import chunks

__all__ = ['Order', 'Told', 'helpfulness_report']

_JUDGED = (*VERDICTS, 'succeeded', 'failed')


class Told(NamedTuple):
    """What is counted of one item or landmark, with what it says now."""

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
) -> tuple[list[Told], int]:
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


def _told(row: Any, said: Any) -> Told:
    counts = counts_of(row)
    if said is None:
        return Told(row.subject, '', '', '', '', counts)
    return Told(row.subject, said.id, said.kind, said.key or '', said.content, counts)


_said = (
    sa.select(assertion.c.id, assertion.c.map_id, assertion.c.content, identity.c.kind, identity.c.key)
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .order_by(assertion.c.assertion_id)
)
_said_by_id = _said.where(assertion.c.id.in_(sa.bindparam('ids', expanding=True)))
_said_by_key = _said.where(identity.c.key.in_(sa.bindparam('keys', expanding=True)))
