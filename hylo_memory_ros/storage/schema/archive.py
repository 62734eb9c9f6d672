"""Extent of what was moved to the archive file."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Table

from hylo_memory_ros.storage.schema.base import metadata

__all__ = ['archived']

archived = Table(
    'archived',
    metadata,
    Column('identity_id', ForeignKey('identity.identity_id'), primary_key=True),
    Column('before_ns', BigInteger, nullable=False, comment='what speaks from before is in the archive file'),
    comment='identities whose past is in the archive file, and how far',
)
