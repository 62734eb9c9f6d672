"""Tables of items: identities, assertions, versions (bitemporal), poses, tags, vectors, corrections."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    text,
)

from hylo_memory_ros.storage.schema.base import Purged, among, metadata, set_erasure

correction = Table(
    'correction',
    metadata,
    Column('sequence', ForeignKey('txn.sequence'), primary_key=True),
    Column('correction_id', Text, nullable=False, unique=True),
    Column('map_id', Text, nullable=False),
    Column('frame_id', Text, nullable=False),
    Column('kind', Text, nullable=False, comment='rigid, path or reversal'),
    Column('detail', Text, nullable=False, comment='JSON: the motion, or the corrected path'),
    Column('reverts', Integer, comment='sequence of the reverted correction'),
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
    Column('to_seq', Integer, comment='null: current'),
    Column('correction_seq', ForeignKey('correction.sequence'), nullable=False, comment='whose pose it is'),
    Column('content_digest', LargeBinary, comment='null: merged into another landmark'),
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

embedding = Table(
    'embedding',
    metadata,
    Column('assertion_id', ForeignKey('assertion.assertion_id'), primary_key=True),
    Column('space', Text, primary_key=True),
    Column('digest', LargeBinary, nullable=False, comment='SHA-256 of the vector'),
    Column('vector', LargeBinary, nullable=False, comment='float32, little endian'),
    comment='authoritative vectors',
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
    Column('repeats', Integer, nullable=False, server_default='0', comment='repetitions without a row'),
    Column('last_seq', Integer, comment='transaction of the last of them'),
    Column('last_ns', BigInteger, comment='world time of the last of them'),
    Column('spatial_id', ForeignKey('spatial.spatial_id'), comment='the pose as first asserted'),
    Column('base_id', Integer, comment='assertion in whose place a merge is shown; null: no merge'),
    Index('assertion_identity', 'identity_id', 'valid_from_ns'),
    Index('assertion_id_text', 'id'),
    Index('assertion_sequence', 'sequence'),
    Index('assertion_label', 'label', sqlite_where=text("label != ''")),
    Index('assertion_event', 'event_start_ns', sqlite_where=text('event_start_ns IS NOT NULL')),
    comment='accepted writes, the evidence; plain repetitions are counted',
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
    Column('ended_by', Text, comment='forget or end; null: open, superseded or consolidated'),
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
    Column('is_end', Boolean, nullable=False, server_default='0', comment='observed or reported, no forget'),
    Column('withdrawn_seq', Integer, comment='the reversal that took the ending back'),
    comment='where a forget or a consolidation ends a timeline',
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

# Contentless: the words are indexed, the text itself stays in `assertion` and `identity`.
FULL_TEXT = 'item_text'
# What consolidations say has its own index, without ranks: those depend on all that is in one, and what was
# believed before a consolidation is still to be answered as it was.
SUMMARY_TEXT = 'summary_text'
FULL_TEXT_TABLES = tuple(
    f'CREATE VIRTUAL TABLE {name} USING fts5(content, key, label, entities, '
    'content=\'\', tokenize="unicode61 remove_diacritics 2")'
    for name in (FULL_TEXT, SUMMARY_TEXT)
)


def text_index_of(op: str) -> str:
    """Return the full-text index of what transactions of an operation assert."""
    return SUMMARY_TEXT if op == 'consolidate' else FULL_TEXT


def _erase(connection: sa.Connection, purged: Purged) -> None:
    for table in (version, tag, embedding, corrected, assertion):
        connection.execute(table.delete().where(among(table.c.assertion_id, purged.assertion_ids)))
    connection.execute(spatial.delete().where(among(spatial.c.spatial_id, purged.spatial_ids)))
    for table in (forgetting, identity):
        connection.execute(table.delete().where(among(table.c.identity_id, purged.identity_ids)))


set_erasure(_erase, version, tag, embedding, corrected, assertion, spatial, forgetting, identity)
