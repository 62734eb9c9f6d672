"""Tables of landmarks, keyframes, sightings, the observation ledger and association receipts."""

from __future__ import annotations

import json
from collections.abc import Iterable

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
    UniqueConstraint,
    text,
)

from hylo_memory_ros.storage.schema.base import Purged, among, metadata, set_erasure

landmark = Table(
    'landmark',
    metadata,
    Column('number', Integer, primary_key=True, comment='what the ledger calls it'),
    Column('map_id', Text, nullable=False),
    Column('key', Text, nullable=False, comment='key of its item'),
    Column('label', Text, nullable=False),
    Column('has_instance', Boolean, nullable=False, comment='the input named it: not found by place'),
    Column('observations', BigInteger, nullable=False, comment='messages in which it was seen'),
    Column('n', BigInteger, nullable=False, comment='those in the estimate'),
    Column('first_ns', BigInteger, nullable=False, comment='stamp of its first observation'),
    Column('since_ns', BigInteger, nullable=False, comment='stamp of the first one in the estimate'),
    Column('last_ns', BigInteger, nullable=False),
    Column('x', Float, nullable=False, comment='m'),
    Column('y', Float, nullable=False, comment='m'),
    Column('z', Float, nullable=False, comment='m'),
    Column('estimate', LargeBinary, nullable=False, comment='float64: covariance, extent, score, prior'),
    Column('written_ns', BigInteger, comment='valid_from of its newest version; null: tentative'),
    Column('written', LargeBinary, comment='float64: x y z of that version'),
    Column('forgotten_ns', BigInteger, comment='evidence up to here is void'),
    Column('merged_into', Integer, nullable=False, server_default='0', comment='what it proved to be, or 0'),
    Column('existence', Float, nullable=False, server_default='0', comment='log-odds that it is there'),
    Column('stale', Boolean, nullable=False, server_default='0', comment='not seen where it should be'),
    Column('pinned', Boolean, nullable=False, server_default='0', comment='nothing changes it'),
    Column('viewpoint', Integer, nullable=False, server_default='0', comment='keyframe that told of it'),
    Column('misses', Integer, nullable=False, server_default='0', comment='keyframes in a row without it'),
    Column('reported', LargeBinary, comment='int64: digests of viewpoints that reported it absent'),
    Column('held', Boolean, nullable=False, server_default='0', comment='in the gripper'),
    Column('held_in', Text, comment='frame that it moves with while it is held'),
    Column('labels', Text, nullable=False, server_default='{}', comment='JSON: sum of scores by label'),
    Column('orientation', LargeBinary, comment='float64: two quaternions, their counts, the written one'),
    Column('source', BigInteger, nullable=False, server_default='0', comment='digest of its input'),
    Column('rivals', LargeBinary, comment='int64: numbers of what it may prove to be, and how likely'),
    Column('chances', Integer, nullable=False, server_default='0', comment='messages that might show it'),
    UniqueConstraint('map_id', 'key'),
    Index('landmark_stale', 'number', sqlite_where=text('stale')),
    comment='what perception holds of each landmark, tentative ones included',
)

keyframe = Table(
    'keyframe',
    metadata,
    Column('map_id', Text, primary_key=True),
    Column('number', Integer, primary_key=True),
    Column('stamp_ns', BigInteger, nullable=False, comment='in force from here until the next one'),
    Column('pose', LargeBinary, nullable=False, comment='float64: x y z, quaternion x y z w of the base'),
    comment='where the base of the robot was',
    sqlite_with_rowid=False,
)

sighting = Table(
    'sighting',
    metadata,
    # By keyframe first: what is stored together lies together, which spares pages.
    Column('keyframe', Integer, primary_key=True, comment='its number in the map of the landmark'),
    Column('landmark', Integer, primary_key=True, comment='its number'),
    Column('origin', Integer, primary_key=True, comment='landmark that it was first given to'),
    Column('place', Integer, nullable=False, comment='among all sightings of its origin'),
    Column('n', Integer, nullable=False, comment='detections'),
    Column('first_ns', BigInteger, nullable=False),
    Column('last_ns', BigInteger, nullable=False),
    Column('estimate', LargeBinary, nullable=False, comment='float64: mean, information in the base frame'),
    comment='one landmark seen from one keyframe; at most 64 of each are kept',
    sqlite_with_rowid=False,
)

ledger_input = Table(
    'ledger_input',
    metadata,
    Column('input_id', Integer, primary_key=True),
    Column('name', Text, nullable=False, unique=True),
    Column('dropped', BigInteger, nullable=False, server_default='0'),
    Column('late', BigInteger, nullable=False, server_default='0'),
    comment='inputs that ever delivered an observation',
)

ledger_block = Table(
    'ledger_block',
    metadata,
    Column('block_id', Integer, primary_key=True),
    Column('input_id', ForeignKey('ledger_input.input_id'), nullable=False),
    Column('first_ns', BigInteger, nullable=False),
    Column('last_ns', BigInteger, nullable=False),
    Column('data', LargeBinary, nullable=False, comment='stamps and digests, delta-coded'),
    Index('ledger_block_stamp', 'input_id', 'last_ns'),
    comment='consumed messages',
)

ledger_assignment = Table(
    'ledger_assignment',
    metadata,
    Column('block_id', ForeignKey('ledger_block.block_id'), primary_key=True),
    Column('last_ns', BigInteger, nullable=False),
    Column('size', Integer, nullable=False, comment='bytes of data'),
    Column('data', LargeBinary, nullable=False, comment='landmark of each detection, delta-coded'),
    comment='what the detections of a block were given to; the oldest leave',
)

association_receipt = Table(
    'association_receipt',
    metadata,
    Column('row', Integer, primary_key=True),
    Column('id', Text, nullable=False, unique=True),
    Column('map_id', Text, nullable=False),
    Column('stamp_ns', BigInteger, nullable=False),
    Column('keys', Text, nullable=False, comment='JSON: keys of all landmarks that it names'),
    Column('body', LargeBinary, nullable=False, comment='JSON, deflated'),
    comment='what association decided, and on what grounds',
)


def erase_landmarks(connection: sa.Connection, identities: Iterable[tuple[str, str]]) -> int:
    """Delete all traces of landmarks, given as (map_id, key); return their number."""
    gone = 0
    keys_of_map: dict[str, list[str]] = {}
    for map_id, key in identities:
        keys_of_map.setdefault(map_id, []).append(key)
    for map_id, keys in keys_of_map.items():
        these = (landmark.c.map_id == map_id) & among(landmark.c.key, keys)
        numbers = sa.select(landmark.c.number).where(these)
        connection.execute(sighting.delete().where(sighting.c.landmark.in_(numbers)))
        gone += connection.execute(landmark.delete().where(these)).rowcount
        columns = association_receipt.c
        receipts = sa.select(columns.row, columns['keys']).where(columns.map_id == map_id)
        naming = [
            row for row, told in connection.execute(receipts) if not set(keys).isdisjoint(json.loads(told))
        ]
        connection.execute(association_receipt.delete().where(among(columns.row, naming)))
    return gone


def _erase(connection: sa.Connection, purged: Purged) -> None:
    erase_landmarks(connection, purged.landmarks)


set_erasure(_erase, landmark, sighting, association_receipt)
set_erasure('where the robot was', keyframe)
set_erasure('names of inputs, and counts', ledger_input)
set_erasure('stamps and 32-bit digests of messages', ledger_block)
set_erasure('numbers of landmarks; one that is gone is none', ledger_assignment)
