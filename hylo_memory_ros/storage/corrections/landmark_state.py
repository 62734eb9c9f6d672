"""The state of all landmarks of a map as one piece: to be put back bit for bit, and to be told apart."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Select, Table, delete, insert, select

from hylo_memory_ros.storage.landmarks.landmarks import keyframe, landmark, sighting

__all__ = ['columns_of', 'digest_of', 'dumped', 'loaded', 'put_back']

_TABLES: tuple[Table, ...] = (landmark, keyframe, sighting)

State = dict[str, list[list[Any]]]


def dumped(connection: Connection, map_id: str) -> bytes:
    """Return landmarks, keyframes and sightings of a map, packed."""
    state = {table.name: connection.execute(_rows(table, map_id)).all() for table in _TABLES}
    text = json.dumps({name: [list(row) for row in rows] for name, rows in state.items()}, default=_as_hex)
    return zlib.compress(text.encode(), 1)


def digest_of(state: bytes) -> bytes:
    """Return the digest by which a state is told from others."""
    return sha256(zlib.decompress(state)).digest()


def loaded(state: bytes) -> State:
    """Return the rows of a packed state by the name of their table."""
    found: State = json.loads(zlib.decompress(state), object_hook=_from_hex)
    return found


def columns_of(state: bytes) -> list[dict[str, Sequence[Any]]]:
    """Return landmarks, keyframes and sightings of a packed state, each column by column."""
    rows = loaded(state)
    found: list[dict[str, Sequence[Any]]] = []
    for table in _TABLES:
        columns = zip(*rows[table.name], strict=True) if rows[table.name] else ((),) * len(table.c)
        found.append(dict(zip(table.columns.keys(), columns, strict=True)))
    return found


def put_back(connection: Connection, map_id: str, state: bytes) -> None:
    """Replace landmarks, keyframes and sightings of a map."""
    rows = loaded(state)
    numbers = select(landmark.c.number).where(landmark.c.map_id == map_id)
    connection.execute(delete(sighting).where(sighting.c.landmark.in_(numbers)))
    connection.execute(delete(keyframe).where(keyframe.c.map_id == map_id))
    connection.execute(delete(landmark).where(landmark.c.map_id == map_id))
    for table in _TABLES:
        names = table.columns.keys()
        values = [dict(zip(names, row, strict=True)) for row in rows[table.name]]
        if values:
            connection.execute(insert(table), values)


def _rows(table: Table, map_id: str) -> Select[Any]:
    query = select(table).order_by(*table.primary_key.columns)
    if table is sighting:
        numbers = select(landmark.c.number).where(landmark.c.map_id == map_id)
        return query.where(sighting.c.landmark.in_(numbers))
    return query.where(table.c.map_id == map_id)


def _as_hex(value: bytes) -> dict[str, str]:
    return {'hex': value.hex()}


def _from_hex(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value['hex']) if value.keys() == {'hex'} else value
