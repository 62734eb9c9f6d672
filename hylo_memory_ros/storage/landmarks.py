"""Repositories of landmarks, sightings and association receipts.

The state is not a statement: it has no versions and is not in the snapshot, and the timeline holds the
item of a landmark. One row is rewritten as often as its landmark is seen.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from numpy import int64
from numpy.typing import NDArray
from sqlalchemy import (
    Connection,
    Select,
    delete,
    func,
    select,
)
from sqlalchemy import bindparam as bound
from sqlalchemy.dialects.sqlite import insert as upsert

from hylo_memory_ros.model import Stats
from hylo_memory_ros.storage.engine.state import get_state, put_state
from hylo_memory_ros.storage.schema import (
    assertion,
    association_receipt,
    change,
    forgetting,
    identity,
    keyframe,
    landmark,
    sighting,
    txn,
    version,
)


class Removals(NamedTuple):
    """Removals after a transaction, and the keys that they may concern."""

    happened: bool
    """Whether there was any operation other than a write."""
    keys: frozenset[str] | None
    """Keys to check; None: all."""
    moved: bool = False
    """Whether a map was corrected, so that landmarks in memory are outdated."""


class Removed(NamedTuple):
    """A landmark whose item was removed."""

    key: str
    """Key of the landmark."""
    at_ns: int | None
    """Time of the forget, service clock; None: purged, nothing may be left of it."""


class InputRow(NamedTuple):
    """Stored state of an input."""

    input_id: int
    """Its number in the blocks."""
    newest_ns: int | None
    """Stamp of the newest consumed message; None: there is none."""
    dropped: int
    """Messages that were lost, ever."""
    late: int
    """Messages that came too late, ever."""


class Block(NamedTuple):
    """Consumed messages of one input, to be stored."""

    input_id: int
    """The input."""
    stamps_ns: Sequence[int]
    """Nanoseconds, ascending, length n >= 1."""
    digests: Sequence[int]
    """32-bit digests, length n."""
    landmarks: Sequence[NDArray[int64]]
    """Number of the landmark of each detection of each message, 0 for none."""


class ConsumedBlock(NamedTuple):
    """Consumed messages of one input, as stored."""

    first_ns: int
    """Stamp of the first."""
    last_ns: int
    """Stamp of the last."""
    messages: frozenset[tuple[int, int]]
    """Stamp and digest of each."""


class ObservationRecord(NamedTuple):
    """One detection and its landmark."""

    input: str
    """Name of the input."""
    stamp_ns: int
    """Stamp of the message."""
    detection: int
    """Its index in the message."""
    landmark: str | None
    """Key of the landmark that it was assigned to, or None."""


class AssociationReceipt(NamedTuple):
    """A receipt that is to be stored."""

    id: str
    """Its id."""
    map_id: str
    """Map of the decision."""
    stamp_ns: int
    """Stamp of the decision, nanoseconds."""
    keys: Sequence[str]
    """Keys of all landmarks in it."""
    body: str
    """JSON text."""


# SQLite takes 32 766 variables in one statement; two of them name an identity.
_CHUNK = 5000
_COUNTER = 'landmark_number'
# The change feed names the keys of these removals; a purge scrubs even the names.
_NAMED_REMOVALS = frozenset({'forget', 'retract', 'end'})


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
    # The map is a property of the assertions: an identity only has a digest of its scope.
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
    # Retracted: current knowledge is at most as new as the newest transaction.
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
        """Return all landmarks of a map, column by column, ordered by number."""
        query = select(landmark).where(landmark.c.map_id == map_id).order_by(landmark.c.number)
        rows = self._connection.execute(query).all()
        columns = zip(*rows, strict=True) if rows else ((),) * len(landmark.c)
        return {column.name: values for column, values in zip(landmark.c, columns, strict=True)}

    def tentative(self) -> list[tuple[float, float, str]]:
        """Return x, y (metres, in the global frame) and label of landmarks that are not confirmed yet."""
        columns = select(landmark.c.x, landmark.c.y, landmark.c.label)
        rows = self._connection.execute(columns.where(landmark.c.written_ns.is_(None)))
        return [(row.x, row.y, row.label) for row in rows]

    def save(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or replace rows by their number."""
        if not rows:
            return
        statement = upsert(landmark)
        values = {
            column.name: statement.excluded[column.name] for column in landmark.c if not column.primary_key
        }
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=[landmark.c.number], set_=values), list(rows)
        )

    def delete(self, numbers: Collection[int]) -> None:
        """Delete rows; observations assigned to them become unassigned."""
        for chunk in _chunks(sorted(numbers)):
            self._connection.execute(delete(landmark).where(landmark.c.number.in_(chunk)))

    def next_number(self) -> int:
        """Return a number that no landmark has or had: the ledger may still contain deleted ones."""
        return int.from_bytes(get_state(self._connection, _COUNTER, b'\x01'), 'big')

    def save_next_number(self, number: int) -> None:
        """Store the number of the next new landmark."""
        put_state(self._connection, _COUNTER, number.to_bytes(8, 'big'))

    def numbers(self, map_id: str) -> set[int]:
        """Return the numbers of all landmarks of a map."""
        return set(self._connection.scalars(select(landmark.c.number).where(landmark.c.map_id == map_id)))

    def latest_sequence(self) -> int:
        """Return the number of the newest transaction in this view."""
        return int(self._connection.scalar(select(func.coalesce(func.max(txn.c.sequence), 0))) or 0)

    def removals_since(self, sequence: int, own: Collection[int] = ()) -> Removals:
        """Return the removals after a transaction, except those in own transactions."""
        query = (
            select(txn.c.sequence, txn.c.op, change.c['keys'])
            .outerjoin(change, change.c.sequence == txn.c.sequence)
            .where(txn.c.sequence > sequence, txn.c.op != 'write')
        )
        rows = [(op, keys) for number, op, keys in self._connection.execute(query) if number not in own]
        if any(op not in _NAMED_REMOVALS or keys is None for op, keys in rows):
            return Removals(True, None, any(op == 'correct' for op, _ in rows))
        return Removals(bool(rows), frozenset(key for _, keys in rows for key in json.loads(keys) if key))

    def removed(self, map_id: str, keys: Collection[str] | None = None) -> list[Removed]:
        """Return written landmarks without a current item.

        Parameters
        ----------
        keys : collection of str, optional
            Only these; None: all of the map.
        """
        query = select(landmark.c.key).where(
            landmark.c.map_id == map_id,
            landmark.c.written_ns.is_not(None),
            landmark.c.forgotten_ns.is_(None),
            ~_open_item(map_id).exists(),
        )
        if keys is None:
            found = list(self._connection.scalars(query))
        else:
            found = [
                key
                for chunk in _chunks(sorted(keys))
                for key in self._connection.scalars(query.where(landmark.c.key.in_(chunk)))
            ]
        return [Removed(key, _removed_at(self._connection, map_id, key)) for key in found]

    def stats(self, identities: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Stats]:
        """Return the statistics of identities that are landmarks.

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
                for key, observations, first_ns, last_ns in self._connection.execute(query):
                    found[map_id, key] = Stats(observations, first_ns, last_ns)
        return found

    def count(self) -> tuple[int, int]:
        """Return the number of landmarks that are not forgotten, and of those that were written."""
        counted = select(func.count(), func.count(landmark.c.written_ns)).select_from(landmark)
        held, written = self._connection.execute(counted.where(landmark.c.forgotten_ns.is_(None))).one()
        return held, written


def _by_column(names: Sequence[str], rows: Sequence[Any]) -> dict[str, Sequence[Any]]:
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return dict(zip(names, columns, strict=True))


class SightingRepository:
    """Keyframes and sightings between two runs, by map."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def load_keyframes(self, map_id: str) -> dict[str, Sequence[Any]]:
        """Return the keyframes of a map, column by column, ordered by number."""
        columns = (keyframe.c.number, keyframe.c.stamp_ns, keyframe.c.pose)
        query = select(*columns).where(keyframe.c.map_id == map_id).order_by(keyframe.c.number)
        return _by_column([column.name for column in columns], self._connection.execute(query).all())

    def load(self, map_id: str) -> dict[str, Sequence[Any]]:
        """Return the sightings of all landmarks of a map, column by column."""
        query = (
            select(sighting)
            .join(landmark, landmark.c.number == sighting.c.landmark)
            .where(landmark.c.map_id == map_id)
            .order_by(sighting.c.landmark, sighting.c.keyframe, sighting.c.origin)
        )
        return _by_column([column.name for column in sighting.c], self._connection.execute(query).all())

    def save_keyframes(self, map_id: str, rows: Sequence[tuple[int, int, bytes]]) -> None:
        """Insert or replace keyframes of a map: number, stamp, pose."""
        if not rows:
            return
        statement = upsert(keyframe)
        values = {name: statement.excluded[name] for name in ('stamp_ns', 'pose')}
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=['map_id', 'number'], set_=values),
            [
                {'map_id': map_id, 'number': number, 'stamp_ns': stamp_ns, 'pose': pose}
                for number, stamp_ns, pose in rows
            ],
        )

    def save(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or replace sightings."""
        if not rows:
            return
        statement = upsert(sighting)
        keys = [column.name for column in sighting.c if column.primary_key]
        values = {
            column.name: statement.excluded[column.name] for column in sighting.c if not column.primary_key
        }
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=keys, set_=values), list(rows)
        )

    def delete(self, keys: Collection[tuple[int, int, int]]) -> None:
        """Delete sightings by landmark, keyframe and origin."""
        if not keys:
            return
        columns = [sighting.c.landmark, sighting.c.keyframe, sighting.c.origin]
        statement = delete(sighting).where(*(column == bound(f'_{column.name}') for column in columns))
        named = [{f'_{c.name}': part for c, part in zip(columns, key, strict=True)} for key in keys]
        self._connection.execute(statement, named)


class AssociationReceiptRepository:
    """Receipts of data association; the oldest leave."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, receipts: Sequence[AssociationReceipt], most: int) -> None:
        """Store receipts, and delete the oldest beyond a number."""
        if not receipts:
            return
        rows = [
            {
                'id': receipt.id,
                'map_id': receipt.map_id,
                'stamp_ns': receipt.stamp_ns,
                'keys': json.dumps(sorted(set(receipt.keys)), ensure_ascii=False),
                'body': zlib.compress(receipt.body.encode()),
            }
            for receipt in receipts
        ]
        # A message that is processed again after a crash yields the same receipt.
        self._connection.execute(upsert(association_receipt).on_conflict_do_nothing(), rows)
        newest = self._connection.scalar(select(func.max(association_receipt.c.row))) or 0
        self._connection.execute(
            delete(association_receipt).where(association_receipt.c.row <= newest - most)
        )

    def load(self, receipt_id: str) -> dict[str, Any] | None:
        """Return a receipt as a JSON object, or None."""
        query = select(association_receipt.c.body).where(association_receipt.c.id == receipt_id)
        body = self._connection.scalar(query)
        if body is None:
            return None
        receipt: dict[str, Any] = json.loads(zlib.decompress(body))
        return receipt
