"""Repository of receipts (recorded evidence) of perception; the oldest are deleted beyond a limit."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    delete,
    func,
    select,
)
from sqlalchemy.dialects.sqlite import insert as upsert

from hylo_memory_ros.storage.landmarks.landmarks import AssociationReceipt
from hylo_memory_ros.storage.schema import association_receipt

__all__ = [
    'AssociationReceiptRepository',
]


class AssociationReceiptRepository:
    """Receipts of data association; the oldest leave."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def save(self, receipts: Sequence[AssociationReceipt], most: int) -> None:
        """Store receipts, and delete the oldest beyond a number."""
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
        # A message that is processed again after a crash yields the same receipt.
        self._connection.execute(upsert(association_receipt).on_conflict_do_nothing(), rows)
        newest = self._connection.scalar(select(func.max(association_receipt.c.row))) or 0
        self._connection.execute(
            delete(association_receipt).where(association_receipt.c.row <= newest - most)
        )

    def load(self, receipt_id: str) -> dict[str, Any] | None:
        """Return a receipt as a JSON object, or None."""
        query = select(association_receipt.c.body).where(association_receipt.c.id == receipt_id)
        body = self._connection.scalar(query)
        if body is None:
            return None
        receipt: dict[str, Any] = json.loads(zlib.decompress(body))
        return receipt
