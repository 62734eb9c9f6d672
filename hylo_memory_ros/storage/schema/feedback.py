"""Tables of verdicts and helpfulness counts."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Float, Index, Integer, Table, Text, UniqueConstraint

from hylo_memory_ros.storage.schema.base import Purged, among, metadata, set_erasure

__all__ = ['SUBJECT_SEPARATOR', 'episode_retrieval', 'feedback', 'helpfulness']

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


SUBJECT_SEPARATOR = '\x1f'
"""Between map and key in the subject of a landmark: no map, key or id holds a control character."""


def _erase_counts(connection: sa.Connection, purged: Purged) -> None:
    subjects = [*purged.ids, *(SUBJECT_SEPARATOR.join(named) for named in purged.landmarks)]
    for table in (helpfulness, episode_retrieval):
        connection.execute(table.delete().where(among(table.c.subject, subjects)))


def _erase_verdicts(connection: sa.Connection, purged: Purged) -> None:
    """Delete the verdicts on purged items, and every note that was made of them or touches them."""
    of_them = among(feedback.c.item, purged.ids)
    notes = set(connection.scalars(sa.select(feedback.c.note).where(of_them)))
    connection.execute(feedback.delete().where(of_them))
    others = sa.select(feedback.c.note).where(feedback.c.note != '').distinct()
    for note in list(connection.scalars(others)):
        if note in notes or purged.touches_text(note):
            connection.execute(feedback.update().where(feedback.c.note == note).values(note=''))


set_erasure(_erase_counts, helpfulness, episode_retrieval)
set_erasure(_erase_verdicts, feedback)
