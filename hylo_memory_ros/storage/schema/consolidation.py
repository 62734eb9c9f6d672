"""Records of consolidations, and the lineage of summaries."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from hylo_memory_ros.storage.schema.base import metadata

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
