"""Repository of keyframes and sightings, the state for corrections, merges and splits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, select
from sqlalchemy import bindparam as bound
from sqlalchemy.dialects.sqlite import insert as upsert

from hylo_memory_ros.storage.schema import keyframe, landmark, sighting

__all__ = [
    'SightingRepository',
]


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
