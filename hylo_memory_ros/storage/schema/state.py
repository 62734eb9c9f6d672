"""Named values of the whole memory, and known maps."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, Table, Text

from hylo_memory_ros.storage.schema.base import metadata
from hylo_memory_ros.storage.schema.erasure import set_erasure

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


set_erasure('hashes, counters, and the configuration of the whole', state)
set_erasure('maps are the names of places', known_map)
