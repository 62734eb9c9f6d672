"""Receipts of what perception decided, where that changed what is stored; the oldest leave."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    Table,
    Text,
    delete,
    func,
    select,
)
from sqlalchemy.dialects.sqlite import insert as upsert

from hylo_memory_ros.storage.schema import metadata

__all__ = [
    'AssociationReceipt',
    'AssociationReceiptRepository',
    'association_receipt',
    'load_association_receipt',
    'save_association_receipts',
    'scrub_association_receipts',
]

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


class AssociationReceipt(NamedTuple):
    """A receipt that is to be stored."""

    id: str
    """Its id."""
    map_id: str
    """The map that it is about."""
    stamp_ns: int
    """Stamp of what was decided about, nanoseconds."""
    keys: Sequence[str]
    """Keys of all landmarks that it names."""
    body: str
    """JSON text."""


def save_association_receipts(
    connection: Connection, receipts: Sequence[AssociationReceipt], most: int
) -> None:
    """Store receipts, and let go the oldest beyond a number."""
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
    # A message that is processed again after a crash is decided the same way.
    connection.execute(upsert(association_receipt).on_conflict_do_nothing(), rows)
    newest = connection.scalar(select(func.max(association_receipt.c.row))) or 0
    connection.execute(delete(association_receipt).where(association_receipt.c.row <= newest - most))


def load_association_receipt(connection: Connection, receipt_id: str) -> dict[str, Any] | None:
    """Return a receipt as a JSON object, or None."""
    query = select(association_receipt.c.body).where(association_receipt.c.id == receipt_id)
    body = connection.scalar(query)
    if body is None:
        return None
    told: dict[str, Any] = json.loads(zlib.decompress(body))
    return told


def scrub_association_receipts(connection: Connection, map_id: str, keys: Collection[str]) -> None:
    """Delete every receipt that names one of these landmarks of a map; for a purge."""
    table, names = association_receipt.c, frozenset(keys)
    query = select(table.row, table['keys']).where(table.map_id == map_id)
    gone = [row for row, named in connection.execute(query) if not names.isdisjoint(json.loads(named))]
    for start in range(0, len(gone), 5000):
        connection.execute(delete(association_receipt).where(table.row.in_(gone[start : start + 5000])))


class AssociationReceiptRepository:
    """Receipts of data association; the oldest leave."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, receipts: Sequence[AssociationReceipt], most: int) -> None:
        """Store receipts, and let go the oldest beyond a number."""
        save_association_receipts(self._connection, receipts, most)

    def load(self, receipt_id: str) -> dict[str, Any] | None:
        """Return a receipt as a JSON object, or None."""
        return load_association_receipt(self._connection, receipt_id)
