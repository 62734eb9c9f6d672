"""Receipts: recorded evidence of retrievals and associations, and identities that callers register.

They are no statements: they take no sequence and are in no snapshot. The table is bounded; the
oldest leave. A purge takes out of it whatever names what was purged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.storage.schema import receipt, registered

__all__ = [
    'ReceiptRepository',
    'ReceiptRow',
    'existing_ids',
    'expire_receipts',
    'load_receipt',
    'load_registered',
    'save_receipts',
    'save_registered',
    'size_of_receipts',
]


class ReceiptRow(NamedTuple):
    """One receipt as it is stored."""

    receipt_id: str
    """Its id."""
    kind: str
    """``retrieval`` or ``association``."""
    made_at_ns: int
    """When, nanoseconds."""
    body: str
    """One JSON object."""
    episode: str = ''
    """The episode in which it was asked; empty: none."""


def save_receipts(connection: sa.Connection, rows: Iterable[ReceiptRow]) -> None:
    """Store receipts; one whose id is known stays as it is."""
    values = [{**row._asdict(), 'size': len(row.body.encode('utf-8'))} for row in rows]
    if values:
        connection.execute(receipt.insert().prefix_with('OR IGNORE'), values)


def load_receipt(connection: sa.Connection, receipt_id: str) -> ReceiptRow | None:
    """Return a receipt, or None."""
    columns = (receipt.c.receipt_id, receipt.c.kind, receipt.c.made_at_ns, receipt.c.body)
    row = connection.execute(sa.select(*columns).where(receipt.c.receipt_id == receipt_id)).one_or_none()
    return None if row is None else ReceiptRow(*row)


def size_of_receipts(connection: sa.Connection) -> tuple[int, int]:
    """Return how many receipts there are, and the bytes of their bodies."""
    counted = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(receipt.c.size), 0))
    rows, size = connection.execute(counted.select_from(receipt)).one()
    return rows, size


def expire_receipts(connection: sa.Connection, most: int, most_bytes: int) -> int:
    """Let the oldest go until both limits hold; return how many went.

    Parameters
    ----------
    most : int
        Receipts that stay.
    most_bytes : int
        Bytes that their bodies may have together.
    """
    newest_first = sa.over(sa.func.sum(receipt.c.size), order_by=receipt.c.number.desc())
    rank = sa.over(sa.func.row_number(), order_by=receipt.c.number.desc())
    counted = sa.select(receipt.c.number, newest_first.label('bytes'), rank.label('place')).subquery()
    beyond = sa.select(sa.func.max(counted.c.number)).where(
        sa.or_(counted.c.bytes > most_bytes, counted.c.place > most)
    )
    last: int | None = connection.scalar(beyond)
    if last is None:
        return 0
    gone = sa.select(receipt.c.receipt_id).where(receipt.c.number <= last)
    connection.execute(registered.delete().where(registered.c.receipt_id.in_(gone)))
    return connection.execute(receipt.delete().where(receipt.c.number <= last)).rowcount


def save_registered(connection: sa.Connection, digest: str, receipt_id: str, body: str) -> None:
    """Store an identity that was made of the answer of a receipt; again is no difference."""
    row = {'digest': digest, 'receipt_id': receipt_id, 'body': body}
    connection.execute(registered.insert().prefix_with('OR IGNORE'), row)


def load_registered(connection: sa.Connection, receipt_id: str) -> dict[str, Mapping[str, Any]]:
    """Return the identities that were made of an answer, by digest."""
    found = sa.select(registered.c.digest, registered.c.body).where(registered.c.receipt_id == receipt_id)
    return {row.digest: json.loads(row.body) for row in connection.execute(found)}


def existing_ids(connection: sa.Connection, ids: Iterable[str]) -> set[str]:
    """Return those ids that the store still knows."""
    raw: Any = connection.connection.dbapi_connection
    return {row[0] for row in raw.execute(_EXISTING, (json.dumps(list(ids)),))}


_EXISTING = 'SELECT DISTINCT id FROM assertion WHERE id IN (SELECT value FROM json_each(?))'


class ReceiptRepository:
    """Receipts of retrievals, and identities that callers registered for an answer."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def save(self, rows: Iterable[ReceiptRow]) -> None:
        """Store receipts; one whose id is known stays as it is."""
        save_receipts(self._connection, rows)

    def load(self, receipt_id: str) -> ReceiptRow | None:
        """Return a receipt, or None."""
        return load_receipt(self._connection, receipt_id)

    def size(self) -> tuple[int, int]:
        """Return how many receipts there are, and the bytes of their bodies."""
        return size_of_receipts(self._connection)

    def expire(self, most: int, most_bytes: int) -> int:
        """Delete the oldest until both limits hold; return how many went."""
        return expire_receipts(self._connection, most, most_bytes)

    def register(self, digest: str, receipt_id: str, body: str) -> None:
        """Store an identity that was made of the answer of a receipt; safe to repeat."""
        save_registered(self._connection, digest, receipt_id, body)

    def registered(self, receipt_id: str) -> dict[str, Mapping[str, Any]]:
        """Return the identities that were made of an answer, by digest."""
        return load_registered(self._connection, receipt_id)
