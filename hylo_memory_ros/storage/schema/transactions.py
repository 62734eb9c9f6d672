"""Committed transactions, their feed, their audit and the answers to repeated requests."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text, text

from hylo_memory_ros.storage.schema.base import metadata

__all__ = ['audit', 'change', 'request', 'txn']

txn = Table(
    'txn',
    metadata,
    Column('sequence', Integer, primary_key=True, comment='number of the committed transaction'),
    Column('recorded_at_ns', BigInteger, nullable=False, comment='service clock, never decreasing'),
    Column('op', Text, nullable=False),
    Column('actor', Text, nullable=False, server_default=''),
    Column('episode', Text, nullable=False, server_default='', comment='id of the open episode; empty: none'),
    Index('txn_episode', 'episode', sqlite_where=text("episode != ''")),
    comment='every committed transaction',
)

change = Table(
    'change',
    metadata,
    Column('sequence', ForeignKey('txn.sequence'), primary_key=True),
    Column('ids', Text, nullable=False),
    Column('keys', Text, nullable=False),
    Column('outcomes', Text, nullable=False),
    comment='what the feed tells of a transaction; the oldest leave',
)

audit = Table(
    'audit',
    metadata,
    Column('sequence', ForeignKey('txn.sequence'), primary_key=True),
    Column('reason', Text, nullable=False),
    Column('query', Text, comment='JSON; null after a purge'),
    Column('ids', Text, comment='JSON; null after a purge'),
    Column('count', Integer, nullable=False),
    comment='who took what away, when and why; never deleted',
)

request = Table(
    'request',
    metadata,
    Column('request_id', Text, primary_key=True),
    Column('sequence', ForeignKey('txn.sequence'), nullable=False, index=True),
    Column('answer', Text, nullable=False),
    comment='the first answers to writes that may be repeated',
)
