"""Vectors of statements."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, LargeBinary, Table, Text

from hylo_memory_ros.storage.schema.base import metadata

__all__ = ['embedding']

embedding = Table(
    'embedding',
    metadata,
    Column('assertion_id', ForeignKey('assertion.assertion_id'), primary_key=True),
    Column('space', Text, primary_key=True),
    Column('digest', LargeBinary, nullable=False, comment='SHA-256 of the vector'),
    Column('vector', LargeBinary, nullable=False, comment='float32, little endian'),
    comment='authoritative vectors',
)
