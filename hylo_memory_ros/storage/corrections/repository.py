"""Repository of map corrections and of the landmark state that undoes them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.corrections.apply import (
    CorrectionPlan,
    CorrectionSummary,
    ReversalPlan,
    StoredCorrection,
    correct_assertions,
    revert_assertions,
)
from hylo_memory_ros.storage.schema import correction, keyframe, landmark, sighting
from hylo_memory_ros.storage.statements.writer import resolved, write_items

__all__ = ['CorrectionRepository', 'CorrectionWriter']

Columns = Mapping[str, Sequence[Any]]

_TABLES: tuple[sa.Table, ...] = (landmark, keyframe, sighting)


class CorrectionRepository:
    """Records of map corrections, with the landmark state that undoes them."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def load(self, correction_id: str) -> StoredCorrection:
        """Return a correction that can be reverted.

        Raises
        ------
        NotFoundError
            There is no correction of this name.
        InvalidRequestError
            It is a reversal itself, or was reverted before.
        """
        row = self._connection.execute(_stored, {'name': correction_id}).one_or_none()
        if row is None:
            raise NotFoundError(f'revert_id: {correction_id!r} names no correction', field='revert_id')
        if row.reverts is not None:
            raise InvalidRequestError(
                f'revert_id: {correction_id!r} is a reversal; make the correction again instead',
                field='revert_id',
            )
        if (by := self._connection.execute(_reverted, {'seq': row.sequence}).scalar()) is not None:
            raise InvalidRequestError(
                f'revert_id: {correction_id!r} was taken back before, by {by!r}', field='revert_id'
            )
        return StoredCorrection(*row)

    def is_newest(self, former: StoredCorrection) -> bool:
        """Return whether no later correction of the map is in force."""
        newer = {'map': former.map_id, 'seq': former.sequence}
        return self._connection.execute(_in_force, newer).first() is None

    def details(self, map_id: str, kind: str) -> list[dict[str, Any]]:
        """Return the requests of the corrections of a map that are in force, in their order."""
        rows = self._connection.execute(_details, {'map': map_id, 'kind': kind}).scalars()
        return [json.loads(row) for row in rows]

    def dump_landmarks(self, map_id: str) -> bytes:
        """Return landmarks, keyframes and sightings of a map, packed."""
        state = {
            table.name: [list(row) for row in self._connection.execute(_rows(table, map_id))]
            for table in _TABLES
        }
        return zlib.compress(json.dumps(state, default=_as_hex).encode(), 1)

    @staticmethod
    def digest(state: bytes) -> bytes:
        """Return the digest of a packed state."""
        return sha256(zlib.decompress(state)).digest()

    @staticmethod
    def unpack_landmarks(state: bytes) -> tuple[Columns, Columns, Columns]:
        """Return landmarks, keyframes and sightings of a packed state, each column by column."""
        rows = _unpacked(state)
        landmarks, keyframes, sightings = (
            dict(zip(table.columns.keys(), zip(*rows[table.name], strict=True), strict=True))
            if rows[table.name]
            else dict.fromkeys(table.columns.keys(), ())
            for table in _TABLES
        )
        return landmarks, keyframes, sightings


class CorrectionWriter(CorrectionRepository):
    """Corrections of maps in a numbered transaction."""

    def __init__(self, changeset: Changeset, config: MemoryConfig) -> None:
        super().__init__(changeset.connection)
        self._changeset = changeset
        self._config = config

    def apply(self, plan: CorrectionPlan) -> CorrectionSummary:
        """Move the statements of a map, and store the new statements of a plan."""
        correction_id = self._begin(plan.map_id, plan.frame_id, plan.kind, plan.detail)
        moved, names = correct_assertions(self._changeset, plan, self._config.identity_scope)
        ready = [resolved(item, self._changeset.recorded_at_ns) for item in plan.items]
        write_items(self._changeset, ready, self._config.identity_scope)
        return CorrectionSummary(correction_id, moved, max(plan.merges, names), plan.splits)

    def revert(self, plan: ReversalPlan) -> CorrectionSummary:
        """Restore the coordinates that a correction replaced."""
        former = plan.former
        detail = {'correction_id': former.correction_id}
        correction_id = self._begin(former.map_id, former.frame_id, 'reversal', detail, former.sequence)
        moved, left = revert_assertions(self._changeset, plan)
        remarks = [plan.remark] if plan.remark else []
        if left:
            remarks.append(f'{left} statements were moved again since, and stay where that put them')
        return CorrectionSummary(correction_id, moved, remark='; '.join(remarks))

    def keep_undo(self, map_id: str, undo: bytes, most: int) -> None:
        """Keep the landmark state before this correction, and drop those of older ones.

        Parameters
        ----------
        map_id : str
            The map.
        undo : bytes
            The packed state before; that of now is known by its digest.
        most : int
            Number of states that are kept.
        """
        after = self.digest(self.dump_landmarks(map_id))
        values = {'seq': self._changeset.sequence, 'undo_': undo, 'after_': after}
        self._connection.execute(_keep_undo, values)
        self._connection.execute(_expire_undo, {'most': most})

    def restore_landmarks(self, map_id: str, state: bytes) -> None:
        """Replace landmarks, keyframes and sightings of a map by a packed state."""
        rows = _unpacked(state)
        numbers = sa.select(landmark.c.number).where(landmark.c.map_id == map_id)
        self._connection.execute(sa.delete(sighting).where(sighting.c.landmark.in_(numbers)))
        self._connection.execute(sa.delete(keyframe).where(keyframe.c.map_id == map_id))
        self._connection.execute(sa.delete(landmark).where(landmark.c.map_id == map_id))
        for table in _TABLES:
            names = table.columns.keys()
            values = [dict(zip(names, row, strict=True)) for row in rows[table.name]]
            if values:
                self._connection.execute(sa.insert(table), values)

    def _begin(
        self, map_id: str, frame_id: str, kind: str, detail: Mapping[str, Any], reverts: int | None = None
    ) -> str:
        """Record a correction or a reversal, and return its name."""
        changeset = self._changeset
        text = json.dumps(detail, sort_keys=True)
        named = f'{changeset.sequence} {changeset.recorded_at_ns} {map_id} {kind} {text}'
        correction_id = f'correction/{sha256(named.encode()).hexdigest()[:16]}'
        row = {
            'sequence': changeset.sequence,
            'correction_id': correction_id,
            'map_id': map_id,
            'frame_id': frame_id,
            'kind': kind,
            'detail': text,
            'reverts': reverts,
            'undo': None,
            'after': None,
        }
        self._connection.execute(correction.insert(), row)
        return correction_id


def _rows(table: sa.Table, map_id: str) -> sa.Select[Any]:
    query = sa.select(table).order_by(*table.primary_key.columns)
    if table is sighting:
        numbers = sa.select(landmark.c.number).where(landmark.c.map_id == map_id)
        return query.where(sighting.c.landmark.in_(numbers))
    return query.where(table.c.map_id == map_id)


def _unpacked(state: bytes) -> dict[str, list[list[Any]]]:
    found: dict[str, list[list[Any]]] = json.loads(zlib.decompress(state), object_hook=_from_hex)
    return found


def _as_hex(value: bytes) -> dict[str, str]:
    return {'hex': value.hex()}


def _from_hex(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value['hex']) if value.keys() == {'hex'} else value


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
_stored = sa.select(*(correction.c[name] for name in StoredCorrection._fields)).where(
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
_in_force = (
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
