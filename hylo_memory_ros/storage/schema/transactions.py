"""Tables of transactions (feed, audit, answers to repeated requests) and of named values."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text, text

from hylo_memory_ros.storage.schema.base import Purged, among, metadata, set_erasure

txn = Table(
    'txn',
    metadata,
    Column('sequence', Integer, primary_key=True, comment='number of the committed transaction'),
    Column('recorded_at_ns', BigInteger, nullable=False, comment='service clock, never decreasing'),
    Column('op', Text, nullable=False),
    Column('actor', Text, nullable=False, server_default=''),
    Column('episode', Text, nullable=False, server_default='', comment='id of the open episode; empty: none'),
    Index('txn_episode', 'episode', sqlite_where=text("episode != ''")),
    comment='every committed transaction',
)

change = Table(
    'change',
    metadata,
    Column('sequence', ForeignKey('txn.sequence'), primary_key=True),
    Column('ids', Text, nullable=False),
    Column('keys', Text, nullable=False),
    Column('outcomes', Text, nullable=False),
    comment='what the feed tells of a transaction; the oldest leave',
)

audit = Table(
    'audit',
    metadata,
    Column('sequence', ForeignKey('txn.sequence'), primary_key=True),
    Column('reason', Text, nullable=False),
    Column('query', Text, comment='JSON; null after a purge'),
    Column('ids', Text, comment='JSON; null after a purge'),
    Column('count', Integer, nullable=False),
    comment='who took what away, when and why; never deleted',
)

request = Table(
    'request',
    metadata,
    Column('request_id', Text, primary_key=True),
    Column('sequence', ForeignKey('txn.sequence'), nullable=False, index=True),
    Column('answer', Text, nullable=False),
    comment='the first answers to writes that may be repeated',
)


def _scrub_feed(connection: sa.Connection, purged: Purged) -> None:
    for row in list(connection.execute(sa.select(change))):
        ids = json.loads(row.ids)
        if purged.ids.isdisjoint(ids):
            continue
        kept = [
            parts
            for parts in zip(ids, json.loads(row.keys), json.loads(row.outcomes), strict=True)
            if parts[0] not in purged.ids
        ]
        columns = list(zip(*kept, strict=True)) or [(), (), ('PURGED',)]
        values = dict(zip(('ids', 'keys', 'outcomes'), map(json.dumps, columns), strict=True))
        connection.execute(change.update().where(change.c.sequence == row.sequence).values(values))


def _scrub_audit(connection: sa.Connection, purged: Purged) -> None:
    for row in list(connection.execute(sa.select(audit))):
        ids = set(json.loads(row.ids or '[]'))
        named, query = not purged.ids.isdisjoint(ids), json.loads(row.query or 'null')
        values: dict[str, Any] = {}
        if named:
            values['ids'] = None
        if query and (named or purged.touches_query(query, is_answered=bool(ids))):
            values['query'] = None
        if row.reason and (named or purged.touches_text(row.reason)):
            values['reason'] = ''
        if values:
            connection.execute(audit.update().where(audit.c.sequence == row.sequence).values(values))


def _delete_requests(connection: sa.Connection, purged: Purged) -> None:
    for row in list(connection.execute(sa.select(request))):
        if purged.named_in(json.loads(row.answer)):
            connection.execute(request.delete().where(request.c.request_id == row.request_id))


set_erasure('what kind of operation was made, when, and for whom', txn)
set_erasure(_scrub_feed, change)
set_erasure(_scrub_audit, audit)
set_erasure(_delete_requests, request)

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
