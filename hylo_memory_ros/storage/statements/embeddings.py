"""Repository of embedding vectors (float32, little endian) with their SHA-256."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.storage.engine.state import get_state, put_state

VectorTuple = tuple[int, str, str, bytes, bytes]
"""Assertion, item id, space, SHA-256 and float32 bytes."""

VersionTuple = tuple[int, int, int, int, int, int]
"""Version row, assertion, valid from, valid to, from seq, to seq; 2**63 - 1 for no end."""

_STATE = 'embedding_spaces'


def digest_of_vector(data: bytes) -> bytes:
    """Return the SHA-256 of a vector's float32 bytes, little endian."""
    return sha256(data).digest()


def vectors_of_assertions(
    connection: sa.Connection, space: str, assertions: Sequence[int]
) -> dict[int, bytes]:
    """Return vectors of one space by assertion; one that is gone is left out."""
    raw: Any = connection.connection.dbapi_connection
    return dict(raw.execute(_OF_ASSERTIONS, (json.dumps(assertions), space)).fetchall())


def vector_records(connection: sa.Connection, space: str) -> list[tuple[int, str, bytes]]:
    """Return assertion, item id and SHA-256 of every vector of a space, in order of the assertion."""
    raw: Any = connection.connection.dbapi_connection
    found: list[tuple[int, str, bytes]] = raw.execute(_RECORDS, (space,)).fetchall()
    return found


def vector_batches(connection: sa.Connection, size: int) -> Iterator[list[VectorTuple]]:
    """Yield every vector, in order of its assertion."""
    yield from _batches(connection, _VECTORS, size)


def vector_version_batches(connection: sa.Connection, size: int) -> Iterator[list[VersionTuple]]:
    """Yield every version whose assertion has a vector, believed or not, in order of its row."""
    yield from _batches(connection, _VERSIONS, size)


def _batches(connection: sa.Connection, statement: str, size: int) -> Iterator[list[Any]]:
    raw: Any = connection.connection.dbapi_connection
    cursor = raw.execute(statement)
    while rows := cursor.fetchmany(size):
        yield rows


_OF_ASSERTIONS = """
    SELECT assertion_id, vector FROM embedding
    WHERE assertion_id IN (SELECT value FROM json_each(?)) AND space = ?
"""
_RECORDS = """
    SELECT e.assertion_id, a.id, e.digest
    FROM embedding AS e JOIN assertion AS a ON a.assertion_id = e.assertion_id
    WHERE e.space = ? ORDER BY e.assertion_id
"""
_VECTORS = """
    SELECT e.assertion_id, a.id, e.space, e.digest, e.vector
    FROM embedding AS e JOIN assertion AS a ON a.assertion_id = e.assertion_id
    ORDER BY e.assertion_id
"""
_VERSIONS = """
    SELECT v.version_row, v.assertion_id, v.valid_from_ns,
           coalesce(v.valid_to_ns, 9223372036854775807), v.from_seq, coalesce(v.to_seq, 9223372036854775807)
    FROM version AS v JOIN assertion AS a ON a.assertion_id = v.assertion_id
    WHERE a.has_embedding ORDER BY v.version_row
"""
_dimensions = sa.text('SELECT space, max(length(vector)) FROM embedding GROUP BY space')


class EmbeddingRepository:
    """Declared embedding spaces, and vectors."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def declared_spaces(self) -> dict[str, dict[str, Any]]:
        """Return what the file keeps of each space that was ever declared."""
        kept: dict[str, dict[str, Any]] = json.loads(get_state(self._connection, _STATE, b'{}'))
        return kept

    def keep_spaces(self, spaces: dict[str, dict[str, Any]]) -> None:
        """Keep what makes the vectors of each space comparable."""
        put_state(self._connection, _STATE, json.dumps(spaces, sort_keys=True, ensure_ascii=False).encode())

    def dimensions(self) -> dict[str, int]:
        """Return the dimension of the vectors of each space that has any."""
        return {row[0]: row[1] // 4 for row in self._connection.execute(_dimensions)}
