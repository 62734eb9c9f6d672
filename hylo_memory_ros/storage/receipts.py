"""Repository of receipts, and of identities that callers register.

They are no statements: they take no sequence and are in no snapshot. The table is bounded; the
oldest leave. A purge takes out of it whatever names what was purged.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryKind
from hylo_memory_ros.storage.query.filters import identifying_values
from hylo_memory_ros.storage.schema import receipt, registered


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


def existing_ids(connection: sa.Connection, ids: Iterable[str]) -> set[str]:
    """Return those ids that the store still knows."""
    raw: Any = connection.connection.dbapi_connection
    return {row[0] for row in raw.execute(_EXISTING, (json.dumps(list(ids)),))}


def scrub_hits(body: dict[str, Any], ids: Collection[str], *, drop_query: bool) -> bool:
    """Take ids out of a receipt of a retrieval, in place; return whether it changed.

    Parameters
    ----------
    body : dict
        The receipt.
    ids : collection of str
        Ids that leave; a query that may identify one of them leaves with its hit.
    drop_query : bool
        Whether the query leaves also without a hit.
    """
    hits = [hit for hit in body['hits'] if is_kept(hit, ids)]
    gone = len(body['hits']) - len(hits)
    drop_query = drop_query or (bool(gone) and bool(identifying_values(body['query'], place=False)))
    if not gone and not drop_query:
        return False
    body['hits'], body['purged'] = hits, body.get('purged', 0) + gone
    if drop_query:
        body['query'], body['query_digest'] = None, None
    if gone:
        body['render'] = None
    return True


def scrub_unknown(body: dict[str, Any], ids: Collection[str]) -> bool:
    """Take ids that the store no longer knows out of a receipt, with any query that may identify an item."""
    return scrub_hits(body, ids, drop_query=bool(identifying_values(body['query'], place=False)))


def is_kept(hit: Mapping[str, Any], ids: Collection[str]) -> bool:
    """Return whether a hit stays in a receipt when ids leave it."""
    # What working memory held then cannot be found any more, by whatever it named.
    return hit['id'] not in ids and hit['kind'] != MemoryKind.WORKING.value


_EXISTING = 'SELECT DISTINCT id FROM assertion WHERE id IN (SELECT value FROM json_each(?))'


class ReceiptRepository:
    """Receipts of retrievals, and identities that callers registered for an answer."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def save(self, rows: Iterable[ReceiptRow]) -> None:
        """Store receipts; one whose id is known stays as it is."""
        values = [{**row._asdict(), 'size': len(row.body.encode('utf-8'))} for row in rows]
        if values:
            self._connection.execute(receipt.insert().prefix_with('OR IGNORE'), values)

    def load(self, receipt_id: str) -> ReceiptRow | None:
        """Return a receipt, or None."""
        columns = (receipt.c.receipt_id, receipt.c.kind, receipt.c.made_at_ns, receipt.c.body)
        row = self._connection.execute(
            sa.select(*columns).where(receipt.c.receipt_id == receipt_id)
        ).one_or_none()
        return None if row is None else ReceiptRow(*row)

    def size(self) -> tuple[int, int]:
        """Return how many receipts there are, and the bytes of their bodies."""
        counted = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(receipt.c.size), 0))
        rows, size = self._connection.execute(counted.select_from(receipt)).one()
        return rows, size

    def expire(self, most: int, most_bytes: int) -> int:
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
        last: int | None = self._connection.scalar(beyond)
        if last is None:
            return 0
        gone = sa.select(receipt.c.receipt_id).where(receipt.c.number <= last)
        self._connection.execute(registered.delete().where(registered.c.receipt_id.in_(gone)))
        return self._connection.execute(receipt.delete().where(receipt.c.number <= last)).rowcount

    def register(self, digest: str, receipt_id: str, body: str) -> None:
        """Store an identity that was made of the answer of a receipt; again is no difference."""
        row = {'digest': digest, 'receipt_id': receipt_id, 'body': body}
        self._connection.execute(registered.insert().prefix_with('OR IGNORE'), row)

    def registered(self, receipt_id: str) -> dict[str, Mapping[str, Any]]:
        """Return the identities that were made of an answer, by digest."""
        found = sa.select(registered.c.digest, registered.c.body).where(registered.c.receipt_id == receipt_id)
        return {row.digest: json.loads(row.body) for row in self._connection.execute(found)}
