"""The record of corrections: what was asked for, what it takes to undo it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.corrections.landmark_state import dumped, put_back
from hylo_memory_ros.storage.schema import correction

__all__ = [
    'CorrectionRepository',
    'Moved',
    'Stored',
    'begin_correction',
    'details_of',
    'is_newest',
    'keep_undo',
    'stored_correction',
]


class Stored(NamedTuple):
    """A correction that was made."""

    sequence: int
    correction_id: str
    map_id: str
    frame_id: str
    kind: str
    reverts: int | None
    undo: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class Moved:
    """What a correction or its reversal changed."""

    correction_id: str
    moved: int = 0
    """Versions with another pose."""
    merged: int = 0
    """Keys that say nothing any more."""
    split: int = 0
    """Keys that were begun."""
    remark: str = ''
    """What there is to say of it."""


def begin_correction(
    txn: Changeset,
    map_id: str,
    frame_id: str,
    kind: str,
    detail: Mapping[str, Any],
    reverts: int | None = None,
) -> str:
    """Record that a correction is made, or one taken back, and return its name.

    Parameters
    ----------
    detail : mapping
        What was asked for.
    reverts : int, optional
        Sequence of the correction that is taken back.
    """
    text = json.dumps(detail, sort_keys=True)
    named = f'{txn.sequence} {txn.recorded_at_ns} {map_id} {kind} {text}'
    correction_id = f'correction/{sha256(named.encode()).hexdigest()[:16]}'
    row = {
        'sequence': txn.sequence,
        'correction_id': correction_id,
        'map_id': map_id,
        'frame_id': frame_id,
        'kind': kind,
        'detail': text,
        'reverts': reverts,
        'undo': None,
        'after': None,
    }
    txn.connection.execute(correction.insert(), row)
    return correction_id


def stored_correction(connection: sa.Connection, correction_id: str) -> Stored:
    """Return a correction that can be taken back.

    Raises
    ------
    NotFoundError
        There is none of this name.
    InvalidRequestError
        It is a reversal itself, or was taken back before.
    """
    row = connection.execute(_stored, {'name': correction_id}).one_or_none()
    if row is None:
        raise NotFoundError(f'revert_id: {correction_id!r} names no correction', field='revert_id')
    if row.reverts is not None:
        raise InvalidRequestError(
            f'revert_id: {correction_id!r} is a reversal; make the correction again instead',
            field='revert_id',
        )
    if (by := connection.execute(_reverted, {'seq': row.sequence}).scalar()) is not None:
        raise InvalidRequestError(
            f'revert_id: {correction_id!r} was taken back before, by {by!r}', field='revert_id'
        )
    return Stored(*row)


def is_newest(connection: sa.Connection, former: Stored) -> bool:
    """Return whether no later correction of the map still stands."""
    return connection.execute(_standing, {'map': former.map_id, 'seq': former.sequence}).first() is None


def details_of(connection: sa.Connection, map_id: str, kind: str) -> list[dict[str, Any]]:
    """Return what was asked for by the corrections of a map that were not taken back, in their order."""
    rows = connection.execute(_details, {'map': map_id, 'kind': kind}).scalars()
    return [json.loads(row) for row in rows]


def keep_undo(connection: sa.Connection, sequence: int, undo: bytes, after: bytes, most: int) -> None:
    """Keep the landmark state before a correction, and let those of older ones go.

    Parameters
    ----------
    undo, after : bytes
        The state before, and a digest of the state that the correction left.
    most : int
        How many are kept.
    """
    connection.execute(_keep_undo, {'seq': sequence, 'undo_': undo, 'after_': after})
    connection.execute(_expire_undo, {'most': most})


_keep_undo = (
    correction.update()
    .where(correction.c.sequence == sa.bindparam('seq'))
    .values(undo=sa.bindparam('undo_'), after=sa.bindparam('after_'))
)
_newest = (
    sa.select(correction.c.sequence)
    .where(correction.c.undo.is_not(None))
    .order_by(correction.c.sequence.desc())
    .limit(sa.bindparam('most', type_=sa.Integer))
)
_expire_undo = correction.update().where(correction.c.sequence.not_in(_newest)).values(undo=None)
_stored = sa.select(*(correction.c[name] for name in Stored._fields)).where(
    correction.c.correction_id == sa.bindparam('name')
)
_later = correction.alias('later')
_details = (
    sa.select(correction.c.detail)
    .outerjoin(_later, _later.c.reverts == correction.c.sequence)
    .where(
        correction.c.map_id == sa.bindparam('map'),
        correction.c.kind == sa.bindparam('kind'),
        _later.c.sequence.is_(None),
    )
    .order_by(correction.c.sequence)
)
_standing = (
    sa.select(correction.c.sequence)
    .outerjoin(_later, _later.c.reverts == correction.c.sequence)
    .where(
        correction.c.map_id == sa.bindparam('map'),
        correction.c.sequence > sa.bindparam('seq'),
        correction.c.reverts.is_(None),
        _later.c.sequence.is_(None),
    )
)
_reverted = sa.select(correction.c.correction_id).where(correction.c.reverts == sa.bindparam('seq'))


class CorrectionRepository:
    """Records of map corrections, with the landmark state that undoes them."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def load(self, correction_id: str) -> Stored:
        """Return a correction that can be taken back; see `stored_correction`."""
        return stored_correction(self._connection, correction_id)

    def is_newest(self, former: Stored) -> bool:
        """Return whether no later correction of the map still stands."""
        return is_newest(self._connection, former)

    def details(self, map_id: str, kind: str) -> list[dict[str, Any]]:
        """Return what was asked for by the standing corrections of a map, in their order."""
        return details_of(self._connection, map_id, kind)

    def keep_undo(self, sequence: int, undo: bytes, after: bytes, most: int) -> None:
        """Keep the landmark state before a correction, and drop those of older ones."""
        keep_undo(self._connection, sequence, undo, after, most)

    def dump_landmarks(self, map_id: str) -> bytes:
        """Return landmarks, keyframes and sightings of a map, packed."""
        return dumped(self._connection, map_id)

    def restore_landmarks(self, map_id: str, state: bytes) -> None:
        """Replace landmarks, keyframes and sightings of a map."""
        put_back(self._connection, map_id, state)
