"""Tables of episodes, receipts, verdicts and helpfulness counts."""

from __future__ import annotations

import json

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from hylo_memory_ros.storage.schema.base import Purged, among, metadata, set_erasure

episode = Table(
    'episode',
    metadata,
    Column('id', Text, primary_key=True),
    Column('begin_seq', ForeignKey('txn.sequence'), nullable=False, unique=True),
    Column('begun_ns', BigInteger, nullable=False),
    Column('end_seq', ForeignKey('txn.sequence'), comment='null: it is open'),
    Column('ended_ns', BigInteger),
    Column('outcome', Text, nullable=False, server_default=''),
    Column('scope', Text, nullable=False, server_default='{}', comment='JSON: where it belongs'),
    Column('note', Text, nullable=False, server_default='', comment='in words, from its begin'),
    Column('end_note', Text, nullable=False, server_default='', comment='in words, from its end'),
    Column('actor', Text, nullable=False, server_default='', comment='who began it'),
    Index('episode_outcome', 'outcome', sqlite_where=text("outcome != ''")),
    comment='stretches of work with an outcome',
)


set_erasure('its notes, outcome and name are taken by `EpisodeErasure`, which knows its summary', episode)

receipt = Table(
    'receipt',
    metadata,
    Column('number', Integer, primary_key=True, comment='in the order of storing'),
    Column('receipt_id', Text, nullable=False, unique=True),
    Column('kind', Text, nullable=False, comment='retrieval, association'),
    Column(
        'made_at_ns', BigInteger, nullable=False, comment='service clock, or stamp of what was decided on'
    ),
    Column('size', Integer, nullable=False, comment='bytes of the body in UTF-8'),
    Column('body', Text, nullable=False, comment='JSON'),
    Column('episode', Text, nullable=False, server_default='', comment='open at the retrieval; empty: none'),
    Index('receipt_episode', 'episode', sqlite_where=text("episode != ''")),
    comment='evidence of retrievals and associations; the oldest leave',
)

registered = Table(
    'registered',
    metadata,
    Column('digest', Text, primary_key=True, comment='of the identity; names its layer'),
    Column('receipt_id', Text, primary_key=True),
    Column('body', Text, nullable=False, comment='JSON: the identity'),
    Index('registered_receipt', 'receipt_id'),
    comment='identities of caches and compressed bytes that callers made of an answer',
    sqlite_with_rowid=False,
)


def _erase(connection: sa.Connection, purged: Purged) -> None:
    """Take purged items out of receipts, in the transaction of the purge.

    A retrieval keeps its other hits and counts those that are gone; its query leaves with them when it
    touches them. A receipt of an association that names them leaves whole, as do the caches and compressed
    bytes that were made of such an answer.
    """
    for row in list(connection.execute(sa.select(receipt.c.receipt_id, receipt.c.kind, receipt.c.body))):
        body = json.loads(row.body)
        this = receipt.c.receipt_id == row.receipt_id
        if row.kind == 'retrieval':
            if not purged.scrub_retrieval(body):
                continue
            text = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(',', ':'))
            values = {'body': text, 'size': len(text.encode('utf-8'))}
            connection.execute(receipt.update().where(this).values(values))
        elif purged.named_in(body):
            connection.execute(receipt.delete().where(this))
        else:
            continue
        connection.execute(registered.delete().where(registered.c.receipt_id == row.receipt_id))


set_erasure(_erase, receipt, registered)

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
