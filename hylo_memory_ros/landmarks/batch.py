"""What one group transaction of perception stores, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from hylo_memory_ros.landmarks.book import LandmarkBook
from hylo_memory_ros.landmarks.changes import Changes
from hylo_memory_ros.landmarks.consumed import Entry
from hylo_memory_ros.landmarks.receipt import Receipt
from hylo_memory_ros.landmarks.statements import Statement
from hylo_memory_ros.store.association_receipt import AssociationReceipt, save_association_receipts
from hylo_memory_ros.store.landmark import (
    delete_landmarks,
    removals_since,
    save_landmarks,
    save_next_number,
)
from hylo_memory_ros.store.ledger import Block, add_block, input_number, save_counts
from hylo_memory_ros.store.sighting import delete_sightings, save_keyframes, save_sightings

__all__ = ['Batch', 'OvertakenError', 'store_batch']


class OvertakenError(Exception):
    """Something was forgotten, retracted or purged before this transaction got the lock."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Everything that changed since the last commit."""

    statements: Sequence[Statement]
    """What is to be written or ended, in order."""
    books: Sequence[tuple[LandmarkBook, Changes]]
    """Landmark state, of the books where it changed."""
    entries: Mapping[str, Sequence[Entry]]
    """Consumed messages, of the inputs that have any."""
    counts: Mapping[str, tuple[int, int]]
    """Dropped and late messages of the inputs where they changed."""
    next_number: int
    """Number of the next new landmark."""
    watermark_ns: int
    """Where it ends."""
    seen: int
    """The newest transaction whose removals it takes account of."""
    own: set[int]
    """Transactions that ended what perception itself found ended."""
    receipts: Sequence[Receipt] = ()
    """Decisions that changed what is stored."""
    receipts_max: int = 0
    """Most receipts that are kept."""

    def __bool__(self) -> bool:
        return bool(self.statements or self.counts or self.entries or self.books or self.receipts)


def store_batch(connection: Connection, batch: Batch) -> int:
    """Store the side tables of a batch; return the bytes used for assignments.

    Raises
    ------
    OvertakenError
        If something was taken away that it does not know of: nothing may be stored on top of that.
    """
    if removals_since(connection, batch.seen, batch.own).happened:
        raise OvertakenError
    for name, (dropped, late) in batch.counts.items():
        save_counts(connection, name, dropped, late)
    used = 0
    for name, entries in batch.entries.items():
        input_id = input_number(connection, name)
        stamps = [entry.stamp_ns for entry in entries]
        digests = [entry.digest for entry in entries]
        used += add_block(
            connection, Block(input_id, stamps, digests, [entry.landmarks for entry in entries])
        )
    for book, changes in batch.books:
        delete_landmarks(connection, changes.deleted)
        save_landmarks(connection, changes.saved)
        save_keyframes(connection, book.map_id, changes.keyframes)
        delete_sightings(connection, changes.sightings.deleted)
        save_sightings(connection, changes.sightings.saved)
    receipts = [
        AssociationReceipt(one.id, one.map_id, one.stamp_ns, one.named, one.as_json())
        for one in batch.receipts
    ]
    save_association_receipts(connection, receipts, batch.receipts_max)
    if any(changes.new for _, changes in batch.books):
        save_next_number(connection, batch.next_number)
    return used
