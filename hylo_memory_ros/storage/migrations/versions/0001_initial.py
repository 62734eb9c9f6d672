"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0001'
down_revision = None


def upgrade() -> None:  # noqa: PLR0915 - one statement a table
    """Make every table, index and the full-text index."""
    op.create_table(
        'identity',
        sa.Column('identity_id', sa.Integer(), nullable=False),
        sa.Column('digest', sa.LargeBinary(), nullable=False),
        sa.Column('kind', sa.Text(), nullable=False),
        sa.Column('key', sa.Text(), nullable=True, comment='null: a statement that only supersedes itself'),
        sa.PrimaryKeyConstraint('identity_id'),
        sa.UniqueConstraint('digest'),
        comment='what a later write may supersede',
    )
    op.create_index(
        'identity_key', 'identity', ['key'], unique=False, sqlite_where=sa.text('key IS NOT NULL')
    )
    op.create_table(
        'association_receipt',
        sa.Column('row', sa.Integer(), nullable=False),
        sa.Column('id', sa.Text(), nullable=False),
        sa.Column('map_id', sa.Text(), nullable=False),
        sa.Column('stamp_ns', sa.BigInteger(), nullable=False),
        sa.Column('keys', sa.Text(), nullable=False, comment='JSON: keys of all landmarks that it names'),
        sa.Column('body', sa.LargeBinary(), nullable=False, comment='JSON, deflated'),
        sa.PrimaryKeyConstraint('row'),
        sa.UniqueConstraint('id'),
        comment='what association decided, and on what grounds',
    )
    op.create_table(
        'known_map',
        sa.Column('map_id', sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint('map_id'),
        comment='maps that were current or written to',
        sqlite_with_rowid=False,
    )
    op.create_table(
        'landmark',
        sa.Column('number', sa.Integer(), nullable=False, comment='what the ledger calls it'),
        sa.Column('map_id', sa.Text(), nullable=False),
        sa.Column('key', sa.Text(), nullable=False, comment='key of its item'),
        sa.Column('label', sa.Text(), nullable=False),
        sa.Column(
            'has_instance', sa.Boolean(), nullable=False, comment='the input named it: not found by place'
        ),
        sa.Column('observations', sa.BigInteger(), nullable=False, comment='messages in which it was seen'),
        sa.Column('n', sa.BigInteger(), nullable=False, comment='those in the estimate'),
        sa.Column('first_ns', sa.BigInteger(), nullable=False, comment='stamp of its first observation'),
        sa.Column(
            'since_ns', sa.BigInteger(), nullable=False, comment='stamp of the first one in the estimate'
        ),
        sa.Column('last_ns', sa.BigInteger(), nullable=False),
        sa.Column('x', sa.Float(), nullable=False, comment='m'),
        sa.Column('y', sa.Float(), nullable=False, comment='m'),
        sa.Column('z', sa.Float(), nullable=False, comment='m'),
        sa.Column(
            'estimate', sa.LargeBinary(), nullable=False, comment='float64: covariance, extent, score, prior'
        ),
        sa.Column(
            'written_ns',
            sa.BigInteger(),
            nullable=True,
            comment='valid_from of its newest version; null: tentative',
        ),
        sa.Column('written', sa.LargeBinary(), nullable=True, comment='float64: x y z of that version'),
        sa.Column('forgotten_ns', sa.BigInteger(), nullable=True, comment='evidence up to here is void'),
        sa.Column(
            'merged_into',
            sa.Integer(),
            server_default='0',
            nullable=False,
            comment='what it proved to be, or 0',
        ),
        sa.Column(
            'existence', sa.Float(), server_default='0', nullable=False, comment='log-odds that it is there'
        ),
        sa.Column(
            'stale', sa.Boolean(), server_default='0', nullable=False, comment='not seen where it should be'
        ),
        sa.Column('pinned', sa.Boolean(), server_default='0', nullable=False, comment='nothing changes it'),
        sa.Column(
            'viewpoint',
            sa.Integer(),
            server_default='0',
            nullable=False,
            comment='keyframe that told of it',
        ),
        sa.Column(
            'misses',
            sa.Integer(),
            server_default='0',
            nullable=False,
            comment='keyframes in a row without it',
        ),
        sa.Column(
            'reported', sa.LargeBinary(), comment='int64: digests of viewpoints that reported it absent'
        ),
        sa.Column('held', sa.Boolean(), server_default='0', nullable=False, comment='in the gripper'),
        sa.Column('held_in', sa.Text(), nullable=True, comment='frame that it moves with while it is held'),
        sa.Column(
            'labels', sa.Text(), server_default='{}', nullable=False, comment='JSON: sum of scores by label'
        ),
        sa.Column(
            'orientation',
            sa.LargeBinary(),
            nullable=True,
            comment='float64: two quaternions, their counts, the written one',
        ),
        sa.Column(
            'source',
            sa.BigInteger(),
            server_default='0',
            nullable=False,
            comment='digest of its input',
        ),
        sa.Column(
            'rivals',
            sa.LargeBinary(),
            nullable=True,
            comment='int64: numbers of what it may prove to be, and how likely',
        ),
        sa.Column(
            'chances',
            sa.Integer(),
            server_default='0',
            nullable=False,
            comment='messages that might show it',
        ),
        sa.PrimaryKeyConstraint('number'),
        sa.UniqueConstraint('map_id', 'key'),
        comment='what perception holds of each landmark, tentative ones included',
    )
    op.create_index('landmark_stale', 'landmark', ['number'], unique=False, sqlite_where=sa.text('stale'))
    op.create_table(
        'keyframe',
        sa.Column('map_id', sa.Text(), nullable=False),
        sa.Column('number', sa.Integer(), nullable=False),
        sa.Column(
            'stamp_ns', sa.BigInteger(), nullable=False, comment='in force from here until the next one'
        ),
        sa.Column(
            'pose',
            sa.LargeBinary(),
            nullable=False,
            comment='float64: x y z, quaternion x y z w of the base',
        ),
        sa.PrimaryKeyConstraint('map_id', 'number'),
        comment='where the base of the robot was',
        sqlite_with_rowid=False,
    )
    op.create_table(
        'sighting',
        sa.Column('keyframe', sa.Integer(), nullable=False, comment='its number in the map of the landmark'),
        sa.Column('landmark', sa.Integer(), nullable=False, comment='its number'),
        sa.Column('origin', sa.Integer(), nullable=False, comment='landmark that it was first given to'),
        sa.Column('place', sa.Integer(), nullable=False, comment='among all sightings of its origin'),
        sa.Column('n', sa.Integer(), nullable=False, comment='detections'),
        sa.Column('first_ns', sa.BigInteger(), nullable=False),
        sa.Column('last_ns', sa.BigInteger(), nullable=False),
        sa.Column(
            'estimate',
            sa.LargeBinary(),
            nullable=False,
            comment='float64: mean, information in the base frame',
        ),
        sa.PrimaryKeyConstraint('keyframe', 'landmark', 'origin'),
        comment='one landmark seen from one keyframe; at most 64 of each are kept',
        sqlite_with_rowid=False,
    )
    op.create_table(
        'ledger_input',
        sa.Column('input_id', sa.Integer(), nullable=False),
        sa.Column('name', sa.Text(), nullable=False),
        sa.Column('dropped', sa.BigInteger(), server_default='0', nullable=False),
        sa.Column('late', sa.BigInteger(), server_default='0', nullable=False),
        sa.PrimaryKeyConstraint('input_id'),
        sa.UniqueConstraint('name'),
        comment='inputs that ever delivered an observation',
    )
    op.create_table(
        'spatial',
        sa.Column('spatial_id', sa.Integer(), nullable=False),
        sa.Column('map_id', sa.Text(), nullable=False),
        sa.Column('frame_id', sa.Text(), nullable=False),
        sa.Column('x', sa.Float(), nullable=False, comment='m'),
        sa.Column('y', sa.Float(), nullable=False, comment='m'),
        sa.Column('z', sa.Float(), nullable=False, comment='m'),
        sa.Column('qx', sa.Float(), nullable=True, comment='null: no orientation'),
        sa.Column('qy', sa.Float(), nullable=True),
        sa.Column('qz', sa.Float(), nullable=True),
        sa.Column('qw', sa.Float(), nullable=True),
        sa.Column(
            'covariance',
            sa.LargeBinary(),
            nullable=True,
            comment='36 float64, row-major x y z rotX rotY rotZ',
        ),
        sa.Column('stamp_ns', sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint('spatial_id'),
        comment='the spatial table, of which the KD-trees are a mirror',
    )
    op.create_table(
        'state',
        sa.Column('name', sa.Text(), nullable=False),
        sa.Column('value', sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint('name'),
        comment='epoch, identity scope, clock, hash states, counters',
        sqlite_with_rowid=False,
    )
    op.create_table(
        'txn',
        sa.Column('sequence', sa.Integer(), nullable=False, comment='number of the committed transaction'),
        sa.Column(
            'recorded_at_ns', sa.BigInteger(), nullable=False, comment='service clock, never decreasing'
        ),
        sa.Column('op', sa.Text(), nullable=False),
        sa.Column('actor', sa.Text(), server_default='', nullable=False),
        sa.Column(
            'episode',
            sa.Text(),
            server_default='',
            nullable=False,
            comment='id of the open episode; empty: none',
        ),
        sa.PrimaryKeyConstraint('sequence'),
        comment='every committed transaction',
    )
    op.create_index('txn_episode', 'txn', ['episode'], unique=False, sqlite_where=sa.text("episode != ''"))
    op.create_table(
        'episode',
        sa.Column('id', sa.Text(), nullable=False),
        sa.Column('begin_seq', sa.Integer(), nullable=False),
        sa.Column('begun_ns', sa.BigInteger(), nullable=False),
        sa.Column('end_seq', sa.Integer(), nullable=True, comment='null: it is open'),
        sa.Column('ended_ns', sa.BigInteger(), nullable=True),
        sa.Column('outcome', sa.Text(), server_default='', nullable=False),
        sa.Column('scope', sa.Text(), server_default='{}', nullable=False, comment='JSON: where it belongs'),
        sa.Column('note', sa.Text(), server_default='', nullable=False, comment='in words, from its begin'),
        sa.Column('end_note', sa.Text(), server_default='', nullable=False, comment='in words, from its end'),
        sa.Column('actor', sa.Text(), server_default='', nullable=False, comment='who began it'),
        sa.ForeignKeyConstraint(
            ['begin_seq'],
            ['txn.sequence'],
        ),
        sa.ForeignKeyConstraint(
            ['end_seq'],
            ['txn.sequence'],
        ),
        sa.PrimaryKeyConstraint('id'),
        sa.UniqueConstraint('begin_seq'),
        comment='stretches of work with an outcome',
    )
    op.create_index(
        'episode_outcome', 'episode', ['outcome'], unique=False, sqlite_where=sa.text("outcome != ''")
    )
    op.create_table(
        'assertion',
        sa.Column('assertion_id', sa.Integer(), nullable=False),
        sa.Column('identity_id', sa.Integer(), nullable=False),
        sa.Column('sequence', sa.Integer(), nullable=False),
        sa.Column('position', sa.Integer(), nullable=False, comment='place in the call'),
        sa.Column('valid_from_ns', sa.BigInteger(), nullable=False),
        sa.Column('valid_from_assumed', sa.Boolean(), nullable=False),
        sa.Column(
            'withdrawn_seq',
            sa.Integer(),
            nullable=True,
            comment='the retract, or the forget before it began, that took it back',
        ),
        sa.Column('content_digest', sa.LargeBinary(), nullable=False),
        sa.Column('element', sa.LargeBinary(), nullable=False, comment='what the snapshot hash counts'),
        sa.Column('id', sa.Text(), nullable=False),
        sa.Column('map_id', sa.Text(), server_default='', nullable=False),
        sa.Column('label', sa.Text(), server_default='', nullable=False),
        sa.Column('content', sa.Text(), nullable=False),
        sa.Column('confidence', sa.Float(), nullable=False),
        sa.Column('source', sa.Text(), server_default='', nullable=False),
        sa.Column('event_start_ns', sa.BigInteger(), nullable=True),
        sa.Column('event_end_ns', sa.BigInteger(), nullable=True),
        sa.Column('event_clock', sa.Text(), nullable=True),
        sa.Column(
            'detail', sa.Text(), nullable=True, comment='JSON of the fields that are seldom set; null: none'
        ),
        sa.Column('has_embedding', sa.Boolean(), server_default='0', nullable=False),
        sa.Column('spatial_id', sa.Integer(), nullable=True, comment='the pose as first asserted'),
        sa.ForeignKeyConstraint(
            ['identity_id'],
            ['identity.identity_id'],
        ),
        sa.ForeignKeyConstraint(
            ['sequence'],
            ['txn.sequence'],
        ),
        sa.ForeignKeyConstraint(
            ['spatial_id'],
            ['spatial.spatial_id'],
        ),
        sa.PrimaryKeyConstraint('assertion_id'),
        comment='every accepted write, duplicates too: the evidence',
    )
    op.create_index(
        'assertion_event',
        'assertion',
        ['event_start_ns'],
        unique=False,
        sqlite_where=sa.text('event_start_ns IS NOT NULL'),
    )
    op.create_index('assertion_id_text', 'assertion', ['id'], unique=False)
    op.create_index('assertion_sequence', 'assertion', ['sequence'], unique=False)
    op.create_index('assertion_identity', 'assertion', ['identity_id', 'valid_from_ns'], unique=False)
    op.create_index(
        'assertion_label', 'assertion', ['label'], unique=False, sqlite_where=sa.text("label != ''")
    )
    op.create_table(
        'audit',
        sa.Column('sequence', sa.Integer(), nullable=False),
        sa.Column('reason', sa.Text(), nullable=False),
        sa.Column('query', sa.Text(), nullable=True, comment='JSON; null after a purge'),
        sa.Column('ids', sa.Text(), nullable=True, comment='JSON; null after a purge'),
        sa.Column('count', sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ['sequence'],
            ['txn.sequence'],
        ),
        sa.PrimaryKeyConstraint('sequence'),
        comment='who took what away, when and why; never deleted',
    )
    op.create_table(
        'change',
        sa.Column('sequence', sa.Integer(), nullable=False),
        sa.Column('ids', sa.Text(), nullable=False),
        sa.Column('keys', sa.Text(), nullable=False),
        sa.Column('outcomes', sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ['sequence'],
            ['txn.sequence'],
        ),
        sa.PrimaryKeyConstraint('sequence'),
        comment='what the feed tells of a transaction; the oldest leave',
    )
    op.create_table(
        'cooled',
        sa.Column('identity_id', sa.Integer(), nullable=False),
        sa.Column(
            'before_ns',
            sa.BigInteger(),
            nullable=False,
            comment='what speaks from before is in the cold file',
        ),
        sa.Column(
            'repeats_ns',
            sa.BigInteger(),
            server_default='0',
            nullable=False,
            comment='the newest repetition there of what still holds; 0: none',
        ),
        sa.ForeignKeyConstraint(['identity_id'], ['identity.identity_id']),
        sa.PrimaryKeyConstraint('identity_id'),
        comment='identities whose past is in the cold file, and how far',
    )
    op.create_table(
        'forgetting',
        sa.Column('identity_id', sa.Integer(), nullable=False),
        sa.Column('sequence', sa.Integer(), nullable=False),
        sa.Column('forgotten_at_ns', sa.BigInteger(), nullable=False),
        sa.Column(
            'consolidation',
            sa.Integer(),
            nullable=True,
            comment='the consolidation that ended it; null: it was forgotten',
        ),
        sa.Column(
            'withdrawn_seq', sa.Integer(), nullable=True, comment='the reversal that took the ending back'
        ),
        sa.ForeignKeyConstraint(
            ['identity_id'],
            ['identity.identity_id'],
        ),
        sa.ForeignKeyConstraint(
            ['sequence'],
            ['txn.sequence'],
        ),
        sa.PrimaryKeyConstraint('identity_id', 'sequence'),
        comment='where a forget or a consolidation ends a timeline',
        sqlite_with_rowid=False,
    )
    op.create_table(
        'consolidation',
        sa.Column('number', sa.Integer(), nullable=False),
        sa.Column('begun_ns', sa.BigInteger(), nullable=False),
        sa.Column('actor', sa.Text(), server_default='', nullable=False),
        sa.Column('asked', sa.Text(), nullable=False, comment='JSON: scope, budget, kinds'),
        sa.Column(
            'report', sa.Text(), nullable=True, comment='JSON, ids aside; null: it did not come to its end'
        ),
        sa.Column(
            'reverted_ns', sa.BigInteger(), nullable=True, comment='when it was taken back; null: it was not'
        ),
        sa.PrimaryKeyConstraint('number'),
        comment='what was brought within a budget',
    )
    op.create_table(
        'consolidated',
        sa.Column('number', sa.Integer(), nullable=False),
        sa.Column('summary', sa.Integer(), nullable=False, comment='identity of what stands for the others'),
        sa.Column('sequence', sa.Integer(), nullable=False),
        sa.Column('identities', sa.Text(), nullable=False, comment='JSON: those that it stands for'),
        sa.Column('reverted_seq', sa.Integer(), nullable=True, comment='the reversal that took it back'),
        sa.ForeignKeyConstraint(
            ['number'],
            ['consolidation.number'],
        ),
        sa.ForeignKeyConstraint(
            ['sequence'],
            ['txn.sequence'],
        ),
        sa.PrimaryKeyConstraint('number', 'summary'),
        comment='what stands for what since a consolidation',
        sqlite_with_rowid=False,
    )
    op.create_index('consolidated_summary', 'consolidated', ['summary'], unique=False)
    op.create_table(
        'ledger_block',
        sa.Column('block_id', sa.Integer(), nullable=False),
        sa.Column('input_id', sa.Integer(), nullable=False),
        sa.Column('first_ns', sa.BigInteger(), nullable=False),
        sa.Column('last_ns', sa.BigInteger(), nullable=False),
        sa.Column('data', sa.LargeBinary(), nullable=False, comment='stamps and digests, delta-coded'),
        sa.ForeignKeyConstraint(
            ['input_id'],
            ['ledger_input.input_id'],
        ),
        sa.PrimaryKeyConstraint('block_id'),
        comment='consumed messages',
    )
    op.create_index('ledger_block_stamp', 'ledger_block', ['input_id', 'last_ns'], unique=False)
    op.create_table(
        'request',
        sa.Column('request_id', sa.Text(), nullable=False),
        sa.Column('sequence', sa.Integer(), nullable=False),
        sa.Column('answer', sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ['sequence'],
            ['txn.sequence'],
        ),
        sa.PrimaryKeyConstraint('request_id'),
        comment='the first answers to writes that may be repeated',
    )
    op.create_index(op.f('ix_request_sequence'), 'request', ['sequence'], unique=False)
    op.create_table(
        'correction',
        sa.Column('sequence', sa.Integer(), nullable=False),
        sa.Column('correction_id', sa.Text(), nullable=False),
        sa.Column('map_id', sa.Text(), nullable=False),
        sa.Column('frame_id', sa.Text(), nullable=False),
        sa.Column('kind', sa.Text(), nullable=False, comment='rigid, path or reversal'),
        sa.Column('detail', sa.Text(), nullable=False, comment='JSON: the motion, or the corrected path'),
        sa.Column(
            'reverts', sa.Integer(), nullable=True, comment='sequence of the correction that it takes back'
        ),
        sa.Column(
            'undo',
            sa.LargeBinary(),
            nullable=True,
            comment='landmark state before; null: there was none, or it is no longer kept',
        ),
        sa.Column(
            'after', sa.LargeBinary(), nullable=True, comment='digest of the landmark state that it left'
        ),
        sa.ForeignKeyConstraint(
            ['sequence'],
            ['txn.sequence'],
        ),
        sa.PrimaryKeyConstraint('sequence'),
        sa.UniqueConstraint('correction_id'),
        comment='maps that moved under what was remembered',
    )
    op.create_table(
        'corrected',
        sa.Column('assertion_id', sa.Integer(), nullable=False),
        sa.Column('from_seq', sa.Integer(), nullable=False),
        sa.Column('to_seq', sa.Integer(), nullable=True, comment='null: it says so now'),
        sa.Column('correction_seq', sa.Integer(), nullable=False, comment='whose pose it is'),
        sa.Column(
            'content_digest',
            sa.LargeBinary(),
            nullable=True,
            comment='null: it says nothing, another landmark speaks for it',
        ),
        sa.Column('element', sa.LargeBinary(), nullable=True),
        sa.Column('spatial_id', sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ['assertion_id'],
            ['assertion.assertion_id'],
        ),
        sa.ForeignKeyConstraint(
            ['correction_seq'],
            ['correction.sequence'],
        ),
        sa.ForeignKeyConstraint(
            ['spatial_id'],
            ['spatial.spatial_id'],
        ),
        sa.PrimaryKeyConstraint('assertion_id', 'from_seq'),
        comment='what assertions say since a correction, instead of what was first asserted',
        sqlite_with_rowid=False,
    )
    op.create_index('corrected_by', 'corrected', ['correction_seq'], unique=False)
    op.create_table(
        'embedding',
        sa.Column('assertion_id', sa.Integer(), nullable=False),
        sa.Column('space', sa.Text(), nullable=False),
        sa.Column('digest', sa.LargeBinary(), nullable=False, comment='SHA-256 of the vector'),
        sa.Column('vector', sa.LargeBinary(), nullable=False, comment='float32, little endian'),
        sa.ForeignKeyConstraint(
            ['assertion_id'],
            ['assertion.assertion_id'],
        ),
        sa.PrimaryKeyConstraint('assertion_id', 'space'),
        comment='authoritative vectors',
    )
    op.create_table(
        'ledger_assignment',
        sa.Column('block_id', sa.Integer(), nullable=False),
        sa.Column('last_ns', sa.BigInteger(), nullable=False),
        sa.Column('size', sa.Integer(), nullable=False, comment='bytes of data'),
        sa.Column(
            'data', sa.LargeBinary(), nullable=False, comment='landmark of each detection, delta-coded'
        ),
        sa.ForeignKeyConstraint(
            ['block_id'],
            ['ledger_block.block_id'],
        ),
        sa.PrimaryKeyConstraint('block_id'),
        comment='what the detections of a block were given to; the oldest leave',
    )
    op.create_table(
        'tag',
        sa.Column(
            'field', sa.Text(), nullable=False, comment='entity, object, link, scope, or status of a skill'
        ),
        sa.Column('value', sa.Text(), nullable=False),
        sa.Column('assertion_id', sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ['assertion_id'],
            ['assertion.assertion_id'],
        ),
        sa.PrimaryKeyConstraint('field', 'value', 'assertion_id'),
        comment='the list fields of an assertion, to be found by value',
        sqlite_with_rowid=False,
    )
    op.create_index('tag_assertion', 'tag', ['assertion_id'], unique=False)
    op.create_table(
        'version',
        sa.Column('version_row', sa.Integer(), nullable=False),
        sa.Column('identity_id', sa.Integer(), nullable=False),
        sa.Column('assertion_id', sa.Integer(), nullable=False),
        sa.Column('spatial_id', sa.Integer(), nullable=True),
        sa.Column('kind', sa.Text(), nullable=False),
        sa.Column('valid_from_ns', sa.BigInteger(), nullable=False),
        sa.Column('valid_to_ns', sa.BigInteger(), nullable=True, comment='null: open'),
        sa.Column('forgotten', sa.Boolean(), nullable=False, comment='a forget ended it'),
        sa.Column('from_seq', sa.Integer(), nullable=False),
        sa.Column('to_seq', sa.Integer(), nullable=True, comment='null: believed now'),
        sa.ForeignKeyConstraint(
            ['assertion_id'],
            ['assertion.assertion_id'],
        ),
        sa.ForeignKeyConstraint(
            ['from_seq'],
            ['txn.sequence'],
        ),
        sa.ForeignKeyConstraint(
            ['identity_id'],
            ['identity.identity_id'],
        ),
        sa.ForeignKeyConstraint(
            ['spatial_id'],
            ['spatial.spatial_id'],
        ),
        sa.PrimaryKeyConstraint('version_row'),
        comment='the timelines: world time, and when it was believed',
    )
    op.create_index('version_assertion', 'version', ['assertion_id'], unique=False)
    op.create_index(
        'version_believed',
        'version',
        ['identity_id', 'valid_from_ns'],
        unique=False,
        sqlite_where=sa.text('to_seq IS NULL'),
    )
    op.create_index(
        'version_open',
        'version',
        ['identity_id'],
        unique=True,
        sqlite_where=sa.text('to_seq IS NULL AND valid_to_ns IS NULL'),
    )
    op.create_index(
        'version_recent',
        'version',
        ['kind', 'valid_from_ns'],
        unique=False,
        sqlite_where=sa.text('to_seq IS NULL'),
    )
    op.create_table(
        'receipt',
        sa.Column('number', sa.Integer(), nullable=False, comment='in the order of storing'),
        sa.Column('receipt_id', sa.Text(), nullable=False),
        sa.Column('kind', sa.Text(), nullable=False, comment='retrieval, association'),
        sa.Column(
            'made_at_ns',
            sa.BigInteger(),
            nullable=False,
            comment='service clock, or stamp of what was decided on',
        ),
        sa.Column('size', sa.Integer(), nullable=False, comment='bytes of the body in UTF-8'),
        sa.Column('body', sa.Text(), nullable=False, comment='JSON'),
        sa.Column(
            'episode',
            sa.Text(),
            server_default='',
            nullable=False,
            comment='in which it was asked; empty: none',
        ),
        sa.PrimaryKeyConstraint('number'),
        sa.UniqueConstraint('receipt_id'),
        comment='evidence of retrievals and associations; the oldest leave',
    )
    op.create_index(
        'receipt_episode', 'receipt', ['episode'], unique=False, sqlite_where=sa.text("episode != ''")
    )
    op.create_table(
        'registered',
        sa.Column('digest', sa.Text(), nullable=False, comment='of the identity; names its layer'),
        sa.Column('receipt_id', sa.Text(), nullable=False),
        sa.Column('body', sa.Text(), nullable=False, comment='JSON: the identity'),
        sa.PrimaryKeyConstraint('digest', 'receipt_id'),
        comment='identities of caches and compressed bytes that callers made of an answer',
        sqlite_with_rowid=False,
    )
    op.create_index('registered_receipt', 'registered', ['receipt_id'], unique=False)
    op.create_table(
        'held',
        sa.Column('kind', sa.Text(), nullable=False),
        sa.Column('statements', sa.Integer(), nullable=False, comment='rows of assertion'),
        sa.Column('bytes', sa.Integer(), nullable=False, comment='what they take, about'),
        sa.PrimaryKeyConstraint('kind'),
        comment='how much of each kind this file holds, kept by triggers',
        sqlite_with_rowid=False,
    )
    for trigger in _HELD:
        op.execute(trigger)
    _upgrade_helpfulness()

    op.create_table(
        'skill_transition',
        sa.Column('sequence', sa.Integer(), nullable=False),
        sa.Column('position', sa.Integer(), nullable=False, comment='place in the call'),
        sa.Column('identity_id', sa.Integer(), nullable=True, comment='null after a purge'),
        sa.Column('id', sa.Text(), nullable=True, comment='the item with the new status; null after a purge'),
        sa.Column('key', sa.Text(), nullable=True, comment='null after a purge'),
        sa.Column('from_status', sa.Text(), nullable=True, comment='null: there was none'),
        sa.Column('to_status', sa.Text(), nullable=False),
        sa.Column(
            'evidence', sa.Text(), nullable=True, comment='JSON: traces and verdicts; null after a purge'
        ),
        sa.ForeignKeyConstraint(
            ['sequence'],
            ['txn.sequence'],
        ),
        sa.PrimaryKeyConstraint('sequence', 'position'),
        comment='who moved a skill through its gate, when and by what evidence; never deleted',
        sqlite_with_rowid=False,
    )
    op.create_index('ix_skill_transition_identity_id', 'skill_transition', ['identity_id'], unique=False)

    op.execute(
        'CREATE VIRTUAL TABLE item_text USING fts5(content, key, label, entities, '
        'content=\'\', tokenize="unicode61 remove_diacritics 2")'
    )
    op.execute(
        'CREATE VIRTUAL TABLE summary_text USING fts5(content, key, label, entities, '
        'content=\'\', tokenize="unicode61 remove_diacritics 2")'
    )


_HELD = (
    """
CREATE TRIGGER held_assertion_insert AFTER INSERT ON assertion BEGIN
  INSERT INTO held (kind, statements, bytes)
  SELECT identity.kind, 1,
  (400 + length(CAST(NEW.content AS BLOB)) + coalesce(length(CAST(NEW.detail AS BLOB)), 0))
  FROM identity
  WHERE identity.identity_id = NEW.identity_id ON CONFLICT (kind) DO UPDATE
  SET statements = statements + excluded.statements, bytes = bytes + excluded.bytes;
END
""",
    """
CREATE TRIGGER held_assertion_delete AFTER DELETE ON assertion BEGIN
  INSERT INTO held (kind, statements, bytes)
  SELECT identity.kind, -1,
  -(400 + length(CAST(OLD.content AS BLOB)) + coalesce(length(CAST(OLD.detail AS BLOB)), 0))
  FROM identity
  WHERE identity.identity_id = OLD.identity_id ON CONFLICT (kind) DO UPDATE
  SET statements = statements + excluded.statements, bytes = bytes + excluded.bytes;
END
""",
    """
CREATE TRIGGER held_embedding_insert AFTER INSERT ON embedding BEGIN
  INSERT INTO held (kind, statements, bytes)
  SELECT identity.kind, 0,
  (length(NEW.vector))
  FROM assertion JOIN identity ON identity.identity_id = assertion.identity_id
  WHERE assertion.assertion_id = NEW.assertion_id ON CONFLICT (kind) DO UPDATE
  SET statements = statements + excluded.statements, bytes = bytes + excluded.bytes;
END
""",
    """
CREATE TRIGGER held_embedding_delete AFTER DELETE ON embedding BEGIN
  INSERT INTO held (kind, statements, bytes)
  SELECT identity.kind, 0,
  -(length(OLD.vector))
  FROM assertion JOIN identity ON identity.identity_id = assertion.identity_id
  WHERE assertion.assertion_id = OLD.assertion_id ON CONFLICT (kind) DO UPDATE
  SET statements = statements + excluded.statements, bytes = bytes + excluded.bytes;
END
""",
)


def _upgrade_helpfulness() -> None:
    """Make what is counted of what was looked up and judged."""
    op.create_table(
        'feedback',
        sa.Column('number', sa.Integer(), nullable=False, comment='in the order of coming'),
        sa.Column('item', sa.Text(), nullable=False, comment='id'),
        sa.Column(
            'receipt_id',
            sa.Text(),
            nullable=False,
            comment='of the answer it was in; empty: named without one',
        ),
        sa.Column('episode', sa.Text(), nullable=False, comment='empty: none'),
        sa.Column('actor', sa.Text(), nullable=False),
        sa.Column('outcome', sa.Text(), nullable=False),
        sa.Column('note', sa.Text(), nullable=False),
        sa.Column('recorded_at_ns', sa.BigInteger(), nullable=False, comment='service clock'),
        sa.PrimaryKeyConstraint('number'),
        sa.UniqueConstraint('item', 'receipt_id', 'episode', 'actor'),
        comment='verdicts on what was answered; the oldest leave',
    )
    op.create_table(
        'helpfulness',
        sa.Column('subject', sa.Text(), nullable=False, comment='id; of a landmark its map and key'),
        sa.Column('useful', sa.Integer(), nullable=False),
        sa.Column('misleading', sa.Integer(), nullable=False),
        sa.Column('wrong', sa.Integer(), nullable=False),
        sa.Column('not_applicable', sa.Integer(), nullable=False),
        sa.Column('succeeded', sa.Integer(), nullable=False, comment='episodes that ended well'),
        sa.Column('failed', sa.Integer(), nullable=False, comment='episodes that ended badly'),
        sa.Column('retrieved', sa.Integer(), nullable=False, comment='receipts'),
        sa.Column('last_ns', sa.BigInteger(), nullable=True, comment='service clock'),
        sa.Column('score', sa.Float(), nullable=False, comment='follows from the counts'),
        sa.PrimaryKeyConstraint('subject'),
        comment='what is counted of what was looked up and judged',
        sqlite_with_rowid=False,
    )
    op.create_table(
        'episode_retrieval',
        sa.Column('episode', sa.Text(), nullable=False),
        sa.Column('subject', sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint('episode', 'subject'),
        comment='what open episodes have looked up; gone when they have ended and are scored',
        sqlite_with_rowid=False,
    )
    op.create_index('episode_retrieval_subject', 'episode_retrieval', ['subject'], unique=False)
