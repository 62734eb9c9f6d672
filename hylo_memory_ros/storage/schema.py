"""The tables. Times are integer nanoseconds, digests are 32 bytes, lists and objects are JSON.

Reading order: an accepted write is an `assertion` of an `identity`, with its place in
`spatial`. What follows from all assertions and forgets of an identity are its `version`
rows: a stretch of world time, and the transactions between which it was believed. Only
``to_seq``, ``withdrawn_seq`` and the counters in `state` ever change in place. A `correction`
puts what was asserted elsewhere: what an assertion says since then is its row in `corrected`.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

__all__ = [
    'FULL_TEXT',
    'SUMMARY_TEXT',
    'assertion',
    'audit',
    'change',
    'corrected',
    'correction',
    'embedding',
    'episode',
    'forgetting',
    'identity',
    'known_map',
    'metadata',
    'request',
    'spatial',
    'state',
    'tag',
    'text_index_of',
    'txn',
    'version',
]

metadata = MetaData()

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

episode = Table(
    'episode',
    metadata,
    Column('id', Text, primary_key=True),
    Column('begin_seq', ForeignKey('txn.sequence'), nullable=False, unique=True),
    Column('begun_ns', BigInteger, nullable=False),
    Column('end_seq', ForeignKey('txn.sequence'), comment='null: it is open'),
    Column('ended_ns', BigInteger),
    Column('outcome', Text, nullable=False, server_default=''),
    Column('scope', Text, nullable=False, server_default='{}', comment='JSON: where it belongs'),
    Column('note', Text, nullable=False, server_default='', comment='in words, from its begin'),
    Column('end_note', Text, nullable=False, server_default='', comment='in words, from its end'),
    Column('actor', Text, nullable=False, server_default='', comment='who began it'),
    Index('episode_outcome', 'outcome', sqlite_where=text("outcome != ''")),
    comment='stretches of work with an outcome',
)

identity = Table(
    'identity',
    metadata,
    Column('identity_id', Integer, primary_key=True),
    Column('digest', LargeBinary, nullable=False, unique=True),
    Column('kind', Text, nullable=False),
    Column('key', Text, comment='null: a statement that only supersedes itself'),
    Index('identity_key', 'key', sqlite_where=text('key IS NOT NULL')),
    comment='what a later write may supersede',
)

spatial = Table(
    'spatial',
    metadata,
    Column('spatial_id', Integer, primary_key=True),
    Column('map_id', Text, nullable=False),
    Column('frame_id', Text, nullable=False),
    Column('x', Float, nullable=False, comment='m'),
    Column('y', Float, nullable=False, comment='m'),
    Column('z', Float, nullable=False, comment='m'),
    Column('qx', Float, comment='null: no orientation'),
    Column('qy', Float),
    Column('qz', Float),
    Column('qw', Float),
    Column('covariance', LargeBinary, comment='36 float64, row-major x y z rotX rotY rotZ'),
    Column('stamp_ns', BigInteger),
    comment='the spatial table, of which the KD-trees are a mirror',
)

assertion = Table(
    'assertion',
    metadata,
    Column('assertion_id', Integer, primary_key=True),
    Column('identity_id', ForeignKey('identity.identity_id'), nullable=False),
    Column('sequence', ForeignKey('txn.sequence'), nullable=False),
    Column('position', Integer, nullable=False, comment='place in the call'),
    Column('valid_from_ns', BigInteger, nullable=False),
    Column('valid_from_assumed', Boolean, nullable=False),
    Column('withdrawn_seq', Integer, comment='the retract, or the forget before it began, that took it back'),
    Column('content_digest', LargeBinary, nullable=False),
    Column('element', LargeBinary, nullable=False, comment='what the snapshot hash counts'),
    Column('id', Text, nullable=False),
    Column('map_id', Text, nullable=False, server_default=''),
    Column('label', Text, nullable=False, server_default=''),
    Column('content', Text, nullable=False),
    Column('confidence', Float, nullable=False),
    Column('source', Text, nullable=False, server_default=''),
    Column('event_start_ns', BigInteger),
    Column('event_end_ns', BigInteger),
    Column('event_clock', Text),
    Column('detail', Text, comment='JSON of the fields that are seldom set; null: none'),
    Column('has_embedding', Boolean, nullable=False, server_default='0'),
    Column('spatial_id', ForeignKey('spatial.spatial_id'), comment='the pose as first asserted'),
    Index('assertion_identity', 'identity_id', 'valid_from_ns'),
    Index('assertion_id_text', 'id'),
    Index('assertion_sequence', 'sequence'),
    Index('assertion_label', 'label', sqlite_where=text("label != ''")),
    Index('assertion_event', 'event_start_ns', sqlite_where=text('event_start_ns IS NOT NULL')),
    comment='every accepted write, duplicates too: the evidence',
)

version = Table(
    'version',
    metadata,
    Column('version_row', Integer, primary_key=True),
    Column('identity_id', ForeignKey('identity.identity_id'), nullable=False),
    Column('assertion_id', ForeignKey('assertion.assertion_id'), nullable=False),
    Column('spatial_id', ForeignKey('spatial.spatial_id')),
    Column('kind', Text, nullable=False),
    Column('valid_from_ns', BigInteger, nullable=False),
    Column('valid_to_ns', BigInteger, comment='null: open'),
    Column('forgotten', Boolean, nullable=False, comment='a forget ended it'),
    Column('from_seq', ForeignKey('txn.sequence'), nullable=False),
    Column('to_seq', Integer, comment='null: believed now'),
    Index('version_believed', 'identity_id', 'valid_from_ns', sqlite_where=text('to_seq IS NULL')),
    Index(
        'version_open',
        'identity_id',
        unique=True,
        sqlite_where=text('to_seq IS NULL AND valid_to_ns IS NULL'),
    ),
    Index('version_assertion', 'assertion_id'),
    Index('version_recent', 'kind', 'valid_from_ns', sqlite_where=text('to_seq IS NULL')),
    comment='the timelines: world time, and when it was believed',
)

forgetting = Table(
    'forgetting',
    metadata,
    Column('identity_id', ForeignKey('identity.identity_id'), primary_key=True),
    Column('sequence', ForeignKey('txn.sequence'), primary_key=True),
    Column('forgotten_at_ns', BigInteger, nullable=False),
    Column('consolidation', Integer, comment='the consolidation that ended it; null: it was forgotten'),
    Column('withdrawn_seq', Integer, comment='the reversal that took the ending back'),
    comment='where a forget or a consolidation ends a timeline',
    sqlite_with_rowid=False,
)

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

tag = Table(
    'tag',
    metadata,
    Column('field', Text, primary_key=True, comment='entity, object, link, scope, or status of a skill'),
    Column('value', Text, primary_key=True),
    Column('assertion_id', ForeignKey('assertion.assertion_id'), primary_key=True),
    Index('tag_assertion', 'assertion_id'),
    comment='the list fields of an assertion, to be found by value',
    sqlite_with_rowid=False,
)

embedding = Table(
    'embedding',
    metadata,
    Column('assertion_id', ForeignKey('assertion.assertion_id'), primary_key=True),
    Column('space', Text, primary_key=True),
    Column('digest', LargeBinary, nullable=False, comment='SHA-256 of the vector'),
    Column('vector', LargeBinary, nullable=False, comment='float32, little endian'),
    comment='authoritative vectors',
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

known_map = Table(
    'known_map',
    metadata,
    Column('map_id', Text, primary_key=True),
    comment='maps that were current or written to',
    sqlite_with_rowid=False,
)

state = Table(
    'state',
    metadata,
    Column('name', Text, primary_key=True),
    Column('value', LargeBinary, nullable=False),
    comment='epoch, identity scope, clock, hash states, counters',
    sqlite_with_rowid=False,
)

# Contentless: the words are indexed, the text itself stays in `assertion` and `identity`.
FULL_TEXT = 'item_text'
# What consolidations say has its own index, without ranks: those depend on all that is in one, and what was
# believed before a consolidation is still to be answered as it was.
SUMMARY_TEXT = 'summary_text'


def text_index_of(op: str) -> str:
    """Return the full-text index of what transactions of an operation assert."""
    return SUMMARY_TEXT if op == 'consolidate' else FULL_TEXT
