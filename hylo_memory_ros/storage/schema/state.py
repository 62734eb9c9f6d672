"""Named values of the whole memory, and known maps."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, Table, Text

from hylo_memory_ros.storage.schema.base import metadata
from hylo_memory_ros.storage.schema.erasure import ERASURE

__all__ = ['known_map', 'state']

state = Table(
    'state',
    metadata,
    Column('name', Text, primary_key=True),
    Column('value', LargeBinary, nullable=False),
    comment='epoch, identity scope, clock, hash states, counters',
    sqlite_with_rowid=False,
)

known_map = Table(
    'known_map',
    metadata,
    Column('map_id', Text, primary_key=True),
    comment='maps that were current or written to',
    sqlite_with_rowid=False,
)

known_map.info[ERASURE] = 'names of maps'
state.info[ERASURE] = 'hashes, counters and configuration'
