"""Deletion of identities with all their statements, from every table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.errors import DamagedFileError
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.erasure.references import PurgedItems
from hylo_memory_ros.storage.schema import (
    assertion,
    corrected,
    embedding,
    identity,
    spatial,
    text_index_of,
    txn,
    version,
)
from hylo_memory_ros.storage.schema.base import erase_from_tables
from hylo_memory_ros.storage.statements.mapper import effective, says_now


def first_said(connection: sa.Connection, identity_ids: Sequence[int]) -> int:
    """Return the sequence of the first statement of identities; 0: there are none."""
    firsts = (connection.scalar(_first, {'ids': part}) for part in chunks(identity_ids))
    return min((first for first in firsts if first is not None), default=0)


def purged_of(connection: sa.Connection, identity_ids: Sequence[int]) -> PurgedItems:
    """Return what a purge of identities would delete."""
    said = [row for part in chunks(identity_ids) for row in connection.execute(_said, {'ids': part})]
    return _purged(connection, identity_ids, said)


def purge_identities(
    transaction: Changeset, identity_ids: Sequence[int], unstored: Sequence[str] = ()
) -> int:
    """Delete identities with all their statements, and every trace of them in records.

    References between tables must not be enforced row by row (`Database.writing`): they are held
    against each other here, once and whole.

    Parameters
    ----------
    identity_ids : sequence of int
    unstored : sequence of str
        Ids of what goes too, and is in no table: records may name it.

    Returns
    -------
    int
        How many assertions are gone.

    Raises
    ------
    DamagedFileError
        Something that stays refers to what would be gone; the transaction must not be committed.
    """
    said = [
        row for part in chunks(identity_ids) for row in transaction.connection.execute(_said, {'ids': part})
    ]
    purged = _purged(transaction.connection, identity_ids, said, unstored)
    transaction.unsaid += purged.assertion_ids
    for part in chunks(purged.assertion_ids):
        for row in transaction.connection.execute(_versions, {'ids': part}):
            transaction.removed.append(row.version_row)
            if row.to_seq is None:
                transaction.count_version(row.kind, row.element, (row.valid_to_ns, row.ended_by), -1)
    _delete_words(transaction.connection, said)
    erase_from_tables(transaction.connection, purged)
    if loose := transaction.connection.exec_driver_sql('PRAGMA foreign_key_check').first():
        raise DamagedFileError(f'purge: a row of {loose[0]} refers to one of {loose[2]} that would be gone')
    return len(said)


def _purged(
    connection: sa.Connection, identity_ids: Sequence[int], said: Sequence[Any], unstored: Sequence[str] = ()
) -> PurgedItems:
    assertion_ids = [row.assertion_id for row in said]
    spatial_ids: list[int] = []
    vectors: list[bytes] = []
    for part in chunks(assertion_ids):
        spatial_ids += connection.execute(_places, {'ids': part}).scalars()
        vectors += connection.execute(_vectors, {'ids': part}).scalars()
    places = (row for part in chunks(spatial_ids) for row in connection.execute(_positions, {'ids': part}))
    ids = frozenset((*(row.id for row in said), *unstored))
    keys = frozenset(row.key for row in said if row.key is not None)
    details = [json.loads(row.detail or '{}') for row in said]
    entities = {name for detail in details for name in detail.get('entities', ())}
    return PurgedItems(
        identity_ids,
        assertion_ids,
        spatial_ids,
        landmarks=frozenset(
            (row.map_id, row.key) for row in said if row.key is not None and row.kind == 'spatial'
        ),
        ids=ids,
        names=ids | keys | entities,
        values=frozenset(chain.from_iterable(map(_values, said, details))),
        vectors=frozenset(vectors),
        places=frozenset(tuple(row) for row in places),
    )


def _values(row: Any, detail: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a statement can be found by, other than its names and the map that it is in."""
    yield row.label
    yield from detail.get('object_ids', ())
    yield from (target for _, target in detail.get('links', ()))
    yield from (value for name, value in detail.get('scope', {}).items() if name != 'map_id')


def _delete_words(connection: sa.Connection, said: Sequence[Any]) -> None:
    words: dict[str, list[tuple[Any, ...]]] = {}
    for row in said:
        entities = ' '.join(json.loads(row.detail or '{}').get('entities', ()))
        text = (row.assertion_id, row.content, row.key or '', row.label, entities)
        words.setdefault(text_index_of(row.op), []).append(text)
    for index, rows in words.items():
        connection.exec_driver_sql(_DELETE_WORDS.format(index=index), rows)
        # Deleted words stay in older segments until they are merged away.
        connection.exec_driver_sql(f"INSERT INTO {index} ({index}) VALUES ('optimize')")  # noqa: S608


_DELETE_WORDS = (
    "INSERT INTO {index} ({index}, rowid, content, key, label, entities) VALUES ('delete', ?, ?, ?, ?, ?)"
)
_ids: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
_first = sa.select(sa.func.min(assertion.c.sequence)).where(assertion.c.identity_id.in_(_ids))
_said = (
    sa.select(
        assertion.c.assertion_id,
        assertion.c.id,
        assertion.c.map_id,
        assertion.c.content,
        assertion.c.label,
        assertion.c.detail,
        identity.c.kind,
        identity.c.key,
        txn.c.op,
    )
    .join(txn, txn.c.sequence == assertion.c.sequence)
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .where(assertion.c.identity_id.in_(_ids))
)
_versions = (
    sa.select(
        version.c.version_row,
        version.c.kind,
        version.c.valid_to_ns,
        version.c.ended_by,
        version.c.to_seq,
        effective('element'),
    )
    .join(assertion, assertion.c.assertion_id == version.c.assertion_id)
    .outerjoin(corrected, says_now)
    .where(version.c.assertion_id.in_(_ids))
)
_places = sa.union(
    *(
        sa.select(table.c.spatial_id).where(table.c.assertion_id.in_(_ids), table.c.spatial_id.is_not(None))
        for table in (assertion, corrected)
    )
)
_positions = sa.select(spatial.c.x, spatial.c.y, spatial.c.z).where(spatial.c.spatial_id.in_(_ids))
_vectors = sa.select(embedding.c.digest).where(embedding.c.assertion_id.in_(_ids))
