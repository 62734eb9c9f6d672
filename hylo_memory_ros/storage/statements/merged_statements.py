"""Merged statements: rows that versions show in place of the assertion they begin with.

A repetition of a content may add confidence, source, covariance, evidence, provenance or vectors. Every
assertion stays as it was made; what a version shows is a merge of all that speak for it, in the order of
world time, kept as a row of its own. The row is withdrawn as soon as others speak for the version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.identity import statement_of
from hylo_memory_ros.domain.timeline import Span
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.engine.database import chunks, insert_rows
from hylo_memory_ros.storage.schema import (
    assertion,
    corrected,
    embedding,
    identity,
    spatial,
    tag,
)
from hylo_memory_ros.storage.statements.embeddings import digest_of_vector
from hylo_memory_ros.storage.statements.mapper import (
    ASSERTION_COLUMNS,
    INSERT_TEXT,
    covariance_of,
    detail_of,
    effective,
    embedding_rows,
    full_text_row,
    item_of,
    says_now,
    spatial_row,
    tags_of,
    vector_of,
)


class MergedRow(NamedTuple):
    """Row of a merge."""

    assertion_id: int
    id: str
    element: bytes
    spatial_id: int | None


def load_statements(
    connection: sa.Connection, assertion_ids: Collection[int], *, as_asserted: bool = False
) -> dict[int, MemoryItem]:
    """Return statements with their vectors, by assertion, as they are corrected now or as asserted."""
    found = {}
    for part in chunks(assertion_ids):
        rows = connection.execute(_asserted if as_asserted else _effective, {'ids': part}).all()
        vectors: dict[int, dict[str, tuple[float, ...]]] = {}
        if any(row.c19 for row in rows):
            for assertion_id, space, data in connection.execute(_vectors, {'ids': part}):
                vectors.setdefault(assertion_id, {})[space] = vector_of(data)
        found.update({row.c0: item_of(row, vectors.get(row.c0)) for row in rows})
    return found


def assertions_of_span(connection: sa.Connection, identity_id: int, span: Span) -> list[tuple[Any, ...]]:
    """Return world time, sequence, position and number of the stored assertions that speak for a span."""
    among = {'identity': identity_id, 'from_ns': span.valid_from_ns, 'content': span.content}
    to_ns = 2**63 - 1 if span.valid_to_ns is None else span.valid_to_ns
    return [tuple(row) for row in connection.execute(_speaking, {**among, 'to_ns': to_ns})]


def store_merges(txn: Changeset, shown: Mapping[int, MemoryItem]) -> dict[int, MergedRow]:
    """Store merges from now on, by the assertion in whose place each is shown."""
    bases = {
        row.assertion_id: row
        for part in chunks(shown)
        for row in txn.connection.execute(_bases, {'ids': part})
    }
    moved = [base for base, row in bases.items() if row.correction_seq is not None]
    asserted = load_statements(txn.connection, moved, as_asserted=True)
    rows: dict[sa.Table, list[dict[str, Any]]] = {
        table: [] for table in (spatial, assertion, tag, embedding, corrected)
    }
    texts, stored = [], {}
    for base, item in shown.items():
        row, number = bases[base], txn.next_id('assertion')
        first = item if base not in asserted else item.model_copy(update={'pose': asserted[base].pose})
        elements = [statement_of(one, txn.config.identity_scope).element for one in (first, item)]
        place = row.now_spatial_id
        if item.pose is not None and item.pose.covariance != covariance_of(row.covariance):
            place = txn.next_id('spatial')
            position = spatial_row(item.pose, row.map_id)
            rows[spatial].append({'spatial_id': place, **position})
            txn.places[place] = tuple(position[name] for name in ('map_id', 'frame_id', 'x', 'y', 'z'))
        rows[assertion].append(
            {column.name: getattr(row, column.name) for column in assertion.columns}
            | {
                'assertion_id': number,
                'base_id': base,
                'sequence': txn.sequence,
                'element': elements[0],
                'confidence': item.confidence,
                'source': item.source,
                'detail': detail_of(item, row.map_id),
                'has_embedding': bool(item.embeddings),
                'spatial_id': row.spatial_id if base in asserted else place,
            }
            | {'repeats': 0, 'last_seq': None, 'last_ns': None}
        )
        if base in asserted:
            rows[corrected].append(
                {
                    'assertion_id': number,
                    'from_seq': txn.sequence,
                    'to_seq': None,
                    'correction_seq': row.correction_seq,
                    'content_digest': row.now_content,
                    'element': elements[1],
                    'spatial_id': place,
                }
            )
        rows[tag] += [
            {'field': name, 'value': value, 'assertion_id': number} for name, value in tags_of(item)
        ]
        for space, vector in embedding_rows(item):
            digest = digest_of_vector(vector)
            rows[embedding].append(
                {'assertion_id': number, 'space': space, 'digest': digest, 'vector': vector}
            )
            txn.vectors.append((number, row.id, space, digest, vector))
        texts.append((number, *full_text_row(item)))
        stored[base] = MergedRow(number, row.id, elements[1], place)
    for table, values in rows.items():
        insert_rows(txn.connection, table, values)
    txn.connection.exec_driver_sql(INSERT_TEXT.format(txn.text_index), texts)
    return stored


def withdraw_assertions(txn: Changeset, assertion_ids: Collection[int]) -> None:
    """Let assertions, or merges of them, count no longer from this transaction on."""
    for part in chunks(assertion_ids):
        txn.connection.execute(_withdraw, {'ids': part, 'seq': txn.sequence})


_ids: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
_COLUMNS = [column.label(f'c{place}') for place, column in enumerate(ASSERTION_COLUMNS)]
_stated = assertion.join(identity, identity.c.identity_id == assertion.c.identity_id)
_asserted = (
    sa.select(*_COLUMNS)
    .select_from(_stated.outerjoin(spatial, spatial.c.spatial_id == assertion.c.spatial_id))
    .where(assertion.c.assertion_id.in_(_ids))
)
_effective = (
    sa.select(*_COLUMNS)
    .select_from(
        _stated.outerjoin(corrected, says_now).outerjoin(
            spatial, spatial.c.spatial_id == effective('spatial_id').element
        )
    )
    .where(assertion.c.assertion_id.in_(_ids))
)
_vectors = sa.select(embedding.c.assertion_id, embedding.c.space, embedding.c.vector).where(
    embedding.c.assertion_id.in_(_ids)
)
_speaking = (
    sa.select(assertion.c.valid_from_ns, assertion.c.sequence, assertion.c.position, assertion.c.assertion_id)
    .outerjoin(corrected, says_now)
    .where(
        assertion.c.identity_id == sa.bindparam('identity'),
        assertion.c.base_id.is_(None),
        assertion.c.withdrawn_seq.is_(None),
        assertion.c.valid_from_ns >= sa.bindparam('from_ns', type_=sa.BigInteger),
        assertion.c.valid_from_ns < sa.bindparam('to_ns', type_=sa.BigInteger),
        effective('content_digest').element == sa.bindparam('content'),
    )
)
_bases = (
    sa.select(
        assertion,
        corrected.c.correction_seq,
        effective('content_digest').element.label('now_content'),
        effective('spatial_id').element.label('now_spatial_id'),
        spatial.c.covariance,
    )
    .outerjoin(corrected, says_now)
    .outerjoin(spatial, spatial.c.spatial_id == effective('spatial_id').element)
    .where(assertion.c.assertion_id.in_(_ids))
)
_withdraw = (
    assertion.update().where(assertion.c.assertion_id.in_(_ids)).values(withdrawn_seq=sa.bindparam('seq'))
)
