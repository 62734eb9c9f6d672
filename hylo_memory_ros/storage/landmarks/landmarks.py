"""The state of landmarks between two runs: what association needs, and what is counted.

It is no statement, so it has no versions and is not in the snapshot; the item of a landmark
is what the timeline holds. One row is rewritten as often as its landmark is seen.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    Select,
    Table,
    Text,
    UniqueConstraint,
    delete,
    func,
    select,
    text,
)
from sqlalchemy.dialects.sqlite import insert as upsert

from hylo_memory_ros.model import Stats
from hylo_memory_ros.storage.engine.state import get_state, put_state
from hylo_memory_ros.storage.erasure.registry import Purged, on_purge, tells_nothing
from hylo_memory_ros.storage.landmarks.association_receipts import (
    association_receipt,
    scrub_association_receipts,
)
from hylo_memory_ros.storage.schema import assertion, change, forgetting, identity, metadata, txn, version

__all__ = [
    'LandmarkRepository',
    'Removals',
    'Removed',
    'delete_landmarks',
    'keyframe',
    'landmark',
    'latest_sequence',
    'load_landmarks',
    'next_number',
    'numbers_of',
    'removals_since',
    'removed_landmarks',
    'save_landmarks',
    'save_next_number',
    'scrub',
    'sighting',
    'stats_for',
]

# SQLite takes 32 766 variables in one statement; two of them name an identity.
_CHUNK = 5000
_COUNTER = 'landmark_number'
# What these took away is named by the feed; a purge scrubs even the names.
_NAMED_REMOVALS = frozenset({'forget', 'retract', 'end'})

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


class Removals(NamedTuple):
    """Whether anything was taken away, and which keys that may concern."""

    happened: bool
    """Whether there was any operation that is no write."""
    keys: frozenset[str] | None
    """Keys to look at; None: any."""
    moved: bool = False
    """Whether a map was corrected, so that what is held of its landmarks no longer is what is stored."""


class Removed(NamedTuple):
    """A landmark whose item was taken away."""

    key: str
    """Key of the landmark."""
    at_ns: int | None
    """When it was forgotten, service clock; None: purged, nothing may be left of it."""


def load_landmarks(connection: Connection, map_id: str) -> dict[str, Sequence[Any]]:
    """Return all landmarks of a map, column by column, in the order of their numbers."""
    query = select(landmark).where(landmark.c.map_id == map_id).order_by(landmark.c.number)
    rows = connection.execute(query).all()
    columns = zip(*rows, strict=True) if rows else ((),) * len(landmark.c)
    return {column.name: values for column, values in zip(landmark.c, columns, strict=True)}


def next_number(connection: Connection) -> int:
    """Return a number that no landmark has or had: the ledger still speaks of those that are gone."""
    return int.from_bytes(get_state(connection, _COUNTER, b'\x01'), 'big')


def save_next_number(connection: Connection, number: int) -> None:
    """Store the number that the next landmark will get."""
    put_state(connection, _COUNTER, number.to_bytes(8, 'big'))


def numbers_of(connection: Connection, map_id: str) -> set[int]:
    """Return the numbers of all landmarks of a map."""
    return set(connection.scalars(select(landmark.c.number).where(landmark.c.map_id == map_id)))


def save_landmarks(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert or replace rows by their number."""
    if not rows:
        return
    statement = upsert(landmark)
    values = {column.name: statement.excluded[column.name] for column in landmark.c if not column.primary_key}
    connection.execute(
        statement.on_conflict_do_update(index_elements=[landmark.c.number], set_=values), list(rows)
    )


def delete_landmarks(connection: Connection, numbers: Collection[int]) -> None:
    """Delete rows; observations given to them are given to none from now on."""
    for chunk in _chunks(sorted(numbers)):
        connection.execute(delete(landmark).where(landmark.c.number.in_(chunk)))


def scrub(connection: Connection, identities: Iterable[tuple[str, str]]) -> int:
    """Delete all trace of landmarks; return how many there were.

    Parameters
    ----------
    identities : iterable of (map_id, key)
        For a purge, in its transaction.
    """
    gone = 0
    for map_id, keys in _by_map(identities).items():
        scrub_association_receipts(connection, map_id, keys)
        for chunk in _chunks(keys):
            named = landmark.c.map_id == map_id, landmark.c.key.in_(chunk)
            numbers = select(landmark.c.number).where(*named)
            connection.execute(delete(sighting).where(sighting.c.landmark.in_(numbers)))
            found = delete(landmark).where(*named)
            gone += connection.execute(found).rowcount
    return gone


@on_purge(landmark, sighting, association_receipt)
def _scrub_purged(connection: Connection, purged: Purged) -> None:
    scrub(connection, purged.landmarks)


tells_nothing(keyframe, 'where the robot was')


def stats_for(connection: Connection, identities: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Stats]:
    """Return the statistics of those identities that are landmarks.

    Parameters
    ----------
    identities : iterable of (map_id, key)

    Returns
    -------
    dict
        `Stats` by (map_id, key), as of the last commit of perception.
    """
    columns = (landmark.c.key, landmark.c.observations, landmark.c.first_ns, landmark.c.last_ns)
    found = {}
    for map_id, keys in _by_map(identities).items():
        for chunk in _chunks(keys):
            query = select(*columns).where(landmark.c.map_id == map_id, landmark.c.key.in_(chunk))
            for key, observations, first_ns, last_ns in connection.execute(query):
                found[map_id, key] = Stats(observations, first_ns, last_ns)
    return found


def latest_sequence(connection: Connection) -> int:
    """Return the newest transaction that this connection sees."""
    return int(connection.scalar(select(func.coalesce(func.max(txn.c.sequence), 0))) or 0)


def removals_since(connection: Connection, sequence: int, own: Collection[int] = ()) -> Removals:
    """Return what was taken away after a transaction, but by those that perception made itself."""
    query = (
        select(txn.c.sequence, txn.c.op, change.c['keys'])
        .outerjoin(change, change.c.sequence == txn.c.sequence)
        .where(txn.c.sequence > sequence, txn.c.op != 'write')
    )
    rows = [(op, keys) for number, op, keys in connection.execute(query) if number not in own]
    if any(op not in _NAMED_REMOVALS or keys is None for op, keys in rows):
        return Removals(True, None, any(op == 'correct' for op, _ in rows))
    return Removals(bool(rows), frozenset(key for _, keys in rows for key in json.loads(keys) if key))


def removed_landmarks(
    connection: Connection, map_id: str, keys: Collection[str] | None = None
) -> list[Removed]:
    """Return written landmarks that have no open item any more.

    Parameters
    ----------
    keys : collection of str, optional
        Look only at these; None: at all of the map.
    """
    query = select(landmark.c.key).where(
        landmark.c.map_id == map_id,
        landmark.c.written_ns.is_not(None),
        landmark.c.forgotten_ns.is_(None),
        ~_open_item(map_id).exists(),
    )
    if keys is None:
        found = list(connection.scalars(query))
    else:
        found = [
            key
            for chunk in _chunks(sorted(keys))
            for key in connection.scalars(query.where(landmark.c.key.in_(chunk)))
        ]
    return [Removed(key, _removed_at(connection, map_id, key)) for key in found]


def _open_item(map_id: str) -> Select[int]:
    return (
        select(version.c.version_row)
        .join(identity, identity.c.identity_id == version.c.identity_id)
        .join(assertion, assertion.c.assertion_id == version.c.assertion_id)
        .where(
            identity.c.key == landmark.c.key,
            identity.c.kind == 'spatial',
            assertion.c.map_id == map_id,
            version.c.to_seq.is_(None),
            version.c.valid_to_ns.is_(None),
        )
        .correlate(landmark)
    )


def _removed_at(connection: Connection, map_id: str, key: str) -> int | None:
    # The map is a property of the assertions: an identity is known by a digest of its scope.
    named = (
        select(assertion.c.identity_id)
        .join(identity, identity.c.identity_id == assertion.c.identity_id)
        .where(identity.c.key == key, identity.c.kind == 'spatial', assertion.c.map_id == map_id)
    )
    identities = set(connection.scalars(named))
    if not identities:
        return None
    stamp = forgetting.c.forgotten_at_ns
    forgotten_ns = connection.scalar(select(func.max(stamp)).where(forgetting.c.identity_id.in_(identities)))
    if forgotten_ns is not None:
        return int(forgotten_ns)
    # Retracted: what is known now is as old as the newest transaction at most.
    return int(connection.scalar(select(func.max(txn.c.recorded_at_ns))) or 0)


def _by_map(identities: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for map_id, key in identities:
        keys.setdefault(map_id, []).append(key)
    return keys


def _chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK]


class LandmarkRepository:
    """Landmark state between two runs, by map."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load(self, map_id: str) -> dict[str, Sequence[Any]]:
        """Return all landmarks of a map, column by column, in the order of their numbers."""
        return load_landmarks(self._connection, map_id)

    def save(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or replace rows by their number."""
        save_landmarks(self._connection, rows)

    def delete(self, numbers: Collection[int]) -> None:
        """Delete rows by their number."""
        delete_landmarks(self._connection, numbers)

    def next_number(self) -> int:
        """Return a number that no landmark has or had."""
        return next_number(self._connection)

    def save_next_number(self, number: int) -> None:
        """Store the number that the next landmark will get."""
        save_next_number(self._connection, number)

    def numbers(self, map_id: str) -> set[int]:
        """Return the numbers of all landmarks of a map."""
        return numbers_of(self._connection, map_id)

    def removals_since(self, sequence: int, own: Collection[int] = ()) -> Removals:
        """Return what was taken away after a transaction, own transactions aside."""
        return removals_since(self._connection, sequence, own)

    def removed(self, map_id: str, keys: Collection[str] | None = None) -> list[Removed]:
        """Return written landmarks that have no open item any more, perhaps out of given keys."""
        return removed_landmarks(self._connection, map_id, keys)

    def stats(self, identities: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Stats]:
        """Return statistics by (map_id, key) of those identities that are landmarks."""
        return stats_for(self._connection, identities)

    def count(self) -> tuple[int, int]:
        """Return how many landmarks are held, and how many of them were written."""
        counted = select(func.count(), func.count(landmark.c.written_ns)).select_from(landmark)
        held, written = self._connection.execute(counted.where(landmark.c.forgotten_ns.is_(None))).one()
        return held, written
