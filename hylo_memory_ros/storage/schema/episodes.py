"""Stretches of work with an outcome."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Table, Text, text

from hylo_memory_ros.storage.schema.base import metadata
from hylo_memory_ros.storage.schema.erasure import set_erasure

__all__ = ['episode']

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
