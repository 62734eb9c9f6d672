"""Extent of what was moved to the archive file."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Table

from hylo_memory_ros.storage.schema.base import metadata

__all__ = ['cooled']

cooled = Table(
    'cooled',
    metadata,
    Column('identity_id', ForeignKey('identity.identity_id'), primary_key=True),
    Column('before_ns', BigInteger, nullable=False, comment='what speaks from before is in the cold file'),
    comment='identities whose past is in the cold file, and how far',
)
