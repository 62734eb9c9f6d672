"""Tables of named values, known maps and skill transitions."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Integer, LargeBinary, Table, Text

from hylo_memory_ros.storage.schema.base import Purged, among, metadata, set_erasure

__all__ = ['known_map', 'skill_transition', 'state']

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

skill_transition = Table(
    'skill_transition',
    metadata,
    Column('sequence', ForeignKey('txn.sequence'), primary_key=True),
    Column('position', Integer, primary_key=True, comment='place in the call'),
    Column('identity_id', Integer, index=True, comment='null after a purge'),
    Column('id', Text, comment='the item with the new status; null after a purge'),
    Column('key', Text, comment='null after a purge'),
    Column('from_status', Text, comment='null: there was none'),
    Column('to_status', Text, nullable=False),
    Column('evidence', Text, comment='JSON: traces and verdicts; null after a purge'),
    comment='who moved a skill through its gate, when and by what evidence; never deleted',
    sqlite_with_rowid=False,
)


def _forget_skill(connection: sa.Connection, purged: Purged) -> None:
    """Keep when a skill went from where to where, and nothing of the skill."""
    gone = dict.fromkeys(('identity_id', 'id', 'key', 'evidence'))
    of_them = among(skill_transition.c.identity_id, purged.identity_ids)
    connection.execute(skill_transition.update().where(of_them).values(gone))


set_erasure(_forget_skill, skill_transition)
