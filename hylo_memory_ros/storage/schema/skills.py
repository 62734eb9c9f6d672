"""Transitions of skills through their gate."""

from __future__ import annotations

from sqlalchemy import Column, Connection, ForeignKey, Integer, Table, Text

from hylo_memory_ros.storage.schema.base import metadata
from hylo_memory_ros.storage.schema.erasure import ERASURE, Purged, is_among

__all__ = ['skill_transition']

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


def _erase_transitions(connection: Connection, purged: Purged) -> None:
    """Keep when a skill went from which status to which, and nothing of the skill."""
    values = dict.fromkeys(('identity_id', 'id', 'key', 'evidence'))
    of_purged = is_among(skill_transition.c.identity_id, purged.identity_ids)
    connection.execute(skill_transition.update().where(of_purged).values(values))


skill_transition.info[ERASURE] = _erase_transitions
