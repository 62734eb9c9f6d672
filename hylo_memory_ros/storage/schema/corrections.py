"""Map corrections, and what they make assertions say."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Integer, LargeBinary, Table, Text

from hylo_memory_ros.storage.schema.base import metadata
from hylo_memory_ros.storage.schema.erasure import Purged, among, set_erasure

__all__ = ['corrected', 'correction']

correction = Table(
    'correction',
    metadata,
    Column('sequence', ForeignKey('txn.sequence'), primary_key=True),
    Column('correction_id', Text, nullable=False, unique=True),
    Column('map_id', Text, nullable=False),
    Column('frame_id', Text, nullable=False),
    Column('kind', Text, nullable=False, comment='rigid, path or reversal'),
    Column('detail', Text, nullable=False, comment='JSON: the motion, or the corrected path'),
    Column('reverts', Integer, comment='sequence of the correction that it takes back'),
    Column(
        'undo', LargeBinary, comment='landmark state before; null: there was none, or it is no longer kept'
    ),
    Column('after', LargeBinary, comment='digest of the landmark state that it left'),
    comment='maps that moved under what was remembered',
)

corrected = Table(
    'corrected',
    metadata,
    Column('assertion_id', ForeignKey('assertion.assertion_id'), primary_key=True),
    Column('from_seq', Integer, primary_key=True),
    Column('to_seq', Integer, comment='null: it says so now'),
    Column('correction_seq', ForeignKey('correction.sequence'), nullable=False, comment='whose pose it is'),
    Column('content_digest', LargeBinary, comment='null: it says nothing, another landmark speaks for it'),
    Column('element', LargeBinary),
    Column('spatial_id', ForeignKey('spatial.spatial_id')),
    Index('corrected_by', 'correction_seq'),
    comment='what assertions say since a correction, instead of what was first asserted',
    sqlite_with_rowid=False,
)


def _drop_undo(connection: sa.Connection, purged: Purged) -> None:
    # The landmark states before a correction name keys: what is to leave no trace is in them too.
    maps = sorted({map_id for map_id, _ in purged.landmarks})
    connection.execute(correction.update().where(among(correction.c.map_id, maps)).values(undo=None))


set_erasure(_drop_undo, correction)
