"""Records of consolidations, and the lineage of summaries."""

from __future__ import annotations

import json

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from hylo_memory_ros.storage.schema.base import metadata
from hylo_memory_ros.storage.schema.erasure import Purged, set_erasure

__all__ = ['consolidated', 'consolidation']

consolidation = Table(
    'consolidation',
    metadata,
    Column('number', Integer, primary_key=True),
    Column('begun_ns', BigInteger, nullable=False),
    Column('actor', Text, nullable=False, server_default=''),
    Column('asked', Text, nullable=False, comment='JSON: scope, budget, kinds'),
    Column('report', Text, comment='JSON, ids aside; null: it did not come to its end'),
    Column('reverted_ns', BigInteger, comment='when it was taken back; null: it was not'),
    comment='what was brought within a budget',
)

consolidated = Table(
    'consolidated',
    metadata,
    Column('number', ForeignKey('consolidation.number'), primary_key=True),
    Column('summary', Integer, primary_key=True, comment='identity of what stands for the others'),
    Column('sequence', ForeignKey('txn.sequence'), nullable=False),
    Column('identities', Text, nullable=False, comment='JSON: those that it stands for'),
    Column('reverted_seq', Integer, comment='the reversal that took it back'),
    Index('consolidated_summary', 'summary'),
    comment='what stands for what since a consolidation',
    sqlite_with_rowid=False,
)


def _erase_scope(connection: sa.Connection, purged: Purged) -> None:
    number, request = consolidation.c.number, consolidation.c.asked
    for row in connection.execute(sa.select(number, request)).all():
        asked = json.loads(row.asked)
        if purged.touches_scope(asked.get('scope')):
            values = {'asked': json.dumps({**asked, 'scope': None}, sort_keys=True)}
            connection.execute(consolidation.update().where(number == row.number).values(values))


def _erase_lineage(connection: sa.Connection, purged: Purged) -> None:
    # A later identity may get the number of one that is gone: that of a summary becomes negative.
    gone = set(purged.identity_ids)
    for row in connection.execute(sa.select(consolidated)).all():
        members = json.loads(row.identities)
        left = [number for number in members if number not in gone]
        if row.summary in gone or len(left) < len(members):
            this = (consolidated.c.number == row.number) & (consolidated.c.summary == row.summary)
            summary = -row.summary if row.summary in gone else row.summary
            values = {'summary': summary, 'identities': json.dumps(left)}
            connection.execute(consolidated.update().where(this).values(values))


set_erasure(_erase_scope, consolidation)
set_erasure(_erase_lineage, consolidated)
