"""Receipts of retrievals and associations, and identities registered for them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text, text

from hylo_memory_ros.storage.schema.base import metadata

__all__ = ['receipt', 'registered']

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
    Column('episode', Text, nullable=False, server_default='', comment='in which it was asked; empty: none'),
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
