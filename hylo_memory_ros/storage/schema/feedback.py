"""Verdicts on answers, and the counts that follow from them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    select,
)

from hylo_memory_ros.storage.schema.base import metadata
from hylo_memory_ros.storage.schema.erasure import ERASURE, Purged, is_among

__all__ = ['SEPARATOR', 'episode_retrieval', 'feedback', 'helpfulness', 'landmark_subject']

SEPARATOR = '\x1f'
"""Between map and key of a landmark: no map, key or id holds a control character."""

helpfulness = Table(
    'helpfulness',
    metadata,
    Column('subject', Text, primary_key=True, comment='id; of a landmark its map and key'),
    Column('useful', Integer, nullable=False),
    Column('misleading', Integer, nullable=False),
    Column('wrong', Integer, nullable=False),
    Column('not_applicable', Integer, nullable=False),
    Column('succeeded', Integer, nullable=False, comment='episodes that ended well'),
    Column('failed', Integer, nullable=False, comment='episodes that ended badly'),
    Column('retrieved', Integer, nullable=False, comment='receipts'),
    Column('last_ns', BigInteger, comment='service clock'),
    Column('score', Float, nullable=False, comment='follows from the counts'),
    comment='what is counted of what was looked up and judged',
    sqlite_with_rowid=False,
)

episode_retrieval = Table(
    'episode_retrieval',
    metadata,
    Column('episode', Text, primary_key=True),
    Column('subject', Text, primary_key=True),
    Index('episode_retrieval_subject', 'subject'),
    comment='what open episodes have looked up; gone when they have ended and are scored',
    sqlite_with_rowid=False,
)

feedback = Table(
    'feedback',
    metadata,
    Column('number', Integer, primary_key=True, comment='in the order of coming'),
    Column('item', Text, nullable=False, comment='id'),
    Column('receipt_id', Text, nullable=False, comment='of the answer it was in; empty: named without one'),
    Column('episode', Text, nullable=False, comment='empty: none'),
    Column('actor', Text, nullable=False),
    Column('outcome', Text, nullable=False),
    Column('note', Text, nullable=False),
    Column('recorded_at_ns', BigInteger, nullable=False, comment='service clock'),
    UniqueConstraint('item', 'receipt_id', 'episode', 'actor'),
    comment='verdicts on what was answered; the oldest leave',
)


def landmark_subject(map_id: str, key: str) -> str:
    """Return the subject of a landmark in `helpfulness`."""
    return f'{map_id}{SEPARATOR}{key}'


def _erase_counts(connection: Connection, purged: Purged) -> None:
    subjects = {*purged.ids, *(landmark_subject(*named) for named in purged.landmarks)}
    for table in (helpfulness, episode_retrieval):
        connection.execute(table.delete().where(is_among(table.c.subject, subjects)))


def _erase_verdicts(connection: Connection, purged: Purged) -> None:
    """Delete the verdicts on purged items, and every note of such a verdict or that names an item."""
    on_purged = is_among(feedback.c.item, purged.ids)
    notes = set(connection.scalars(select(feedback.c.note).where(on_purged)))
    connection.execute(feedback.delete().where(on_purged))
    others = select(feedback.c.note).where(feedback.c.note != '').distinct()
    for note in list(connection.scalars(others)):
        if note in notes or purged.touches_text(note):
            connection.execute(feedback.update().where(feedback.c.note == note).values(note=''))


helpfulness.info[ERASURE] = episode_retrieval.info[ERASURE] = _erase_counts
feedback.info[ERASURE] = _erase_verdicts
