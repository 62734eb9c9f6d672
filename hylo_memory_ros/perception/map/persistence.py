"""What perception holds between two commits, and the way to the memory and back.

Threads: `record`, `holds`, `book` and `notice_removals` are called under the lock of the pipeline,
which is given here; `commit` takes it only to take out and to acknowledge, not while the
database writes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from hylo_memory_ros.errors import ClockError, HyloMemoryError, InvalidRequestError
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.perception.ingestion.deduplication import Consumed, Entry
from hylo_memory_ros.perception.map.changes import Changes, Numbering
from hylo_memory_ros.perception.map.keyframes import Keyframes
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.map.sightings import Sightings
from hylo_memory_ros.perception.port import MemoryPort
from hylo_memory_ros.perception.receipts import RECEIPTS_KEPT, Receipt, ReceiptRing
from hylo_memory_ros.perception.settings import MOVED_WITHIN_S, LandmarkSettings
from hylo_memory_ros.perception.status import InputCounts
from hylo_memory_ros.storage.landmarks.association_receipts import (
    AssociationReceipt,
    save_association_receipts,
)
from hylo_memory_ros.storage.landmarks.landmarks import (
    Removed,
    delete_landmarks,
    latest_sequence,
    load_landmarks,
    next_number,
    numbers_of,
    removals_since,
    removed_landmarks,
    save_landmarks,
    save_next_number,
)
from hylo_memory_ros.storage.landmarks.ledger import (
    Block,
    ConsumedBlock,
    InputRow,
    add_block,
    assignment_span,
    blocks_at,
    input_number,
    load_inputs,
    prune_assignments,
    save_counts,
)
from hylo_memory_ros.storage.landmarks.sightings import (
    delete_sightings,
    load_keyframes,
    load_sightings,
    save_keyframes,
    save_sightings,
)
from hylo_memory_ros.storage.statements.removal import Ending

__all__ = [
    'Batch',
    'LandmarkPersistence',
    'OvertakenError',
    'Phase',
    'Statement',
    'concerns',
    'load_book',
    'phases',
    'store_batch',
    'store_book',
]

Statement = MemoryItem | Ending


class Phase(NamedTuple):
    """Statements that may be made in two strokes: all that is written, then all that ended."""

    items: list[MemoryItem]
    endings: list[Ending]


def concerns(statement: Statement) -> tuple[str, str]:
    """Return map and key of what a statement is about."""
    if isinstance(statement, Ending):
        return statement.map_id, statement.key
    return statement.scope.get('map_id', ''), statement.key or ''


def phases(statements: Iterable[Statement]) -> Sequence[Phase]:
    """Cut statements into phases.

    Only what is said of one thing at one time depends on the order, so a phase goes on until
    something is said of a thing that has ended in it.

    Examples
    --------
    >>> gone, back = Ending('cup', 5), MemoryItem(kind='spatial', key='cup', content='cup')
    >>> [(len(phase.items), len(phase.endings)) for phase in phases([back, gone, back, gone])]
    [(1, 1), (1, 1)]
    """
    found = [Phase([], [])]
    ended: set[tuple[str, str]] = set()
    for statement in statements:
        about = concerns(statement)
        if about in ended:
            found.append(Phase([], []))
            ended.clear()
        if isinstance(statement, Ending):
            found[-1].endings.append(statement)
            ended.add(about)
        else:
            found[-1].items.append(statement)
    return found


class OvertakenError(Exception):
    """Something was forgotten, retracted or purged before this transaction got the lock."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Everything that changed since the last commit."""

    statements: Sequence[Statement]
    """What is to be written or ended, in order."""
    books: Sequence[tuple[LandmarkMap, Changes]]
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


_log = logging.getLogger(__name__)

# Receipts of decisions that are kept; the oldest leave first.
_RECEIPTS_MAX = 10_000
# Pruning leaves this share of the limit free, so that it is not needed at every commit.
_SLACK = 16
# Other writers get their turn between two of these.
_ITEMS_PER_WRITE = 1000


class LandmarkPersistence:
    """Landmarks, consumed messages and unwritten items of one memory.

    Parameters
    ----------
    memory : MemoryPort
        Where they are kept.
    settings : LandmarkSettings
        Gates and limits.
    counts : mapping
        Counters by input.
    lock : RLock
        Guards all of it.
    """

    def __init__(
        self,
        memory: MemoryPort,
        settings: LandmarkSettings,
        counts: Mapping[str, InputCounts],
        lock: threading.RLock,
    ) -> None:
        self._memory = memory
        self._settings = settings
        self._counts = counts
        self._lock = lock
        self._commit_lock = threading.Lock()
        self._gate_m = max((source.gate_m for source in settings.inputs), default=1.0)
        self._consumed = {name: Consumed(name, self._find_blocks) for name in counts}
        self._books: dict[str, LandmarkMap] = {}
        self._statements: list[Statement] = []
        self._own: set[int] = set()
        self._receipts: list[Receipt] = []
        self.recent = ReceiptRing(RECEIPTS_KEPT)
        """The newest receipts, stored or not."""
        self.restore()

    @property
    def uncommitted(self) -> int:
        """Return how many consumed messages no commit has stored."""
        return sum(len(consumed.fresh) for consumed in self._consumed.values())

    def uncommitted_of_each(self) -> dict[str, int]:
        """Return the same for each input that has any."""
        return {name: len(consumed.fresh) for name, consumed in self._consumed.items() if consumed.fresh}

    @property
    def is_current(self) -> bool:
        """Return whether the memory still is the one that was restored from, and its maps where they were."""
        return self._epoch == self._memory.epoch and not self._moved_by_others

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Hold off commits and messages; yields whether everything is stored."""
        with self._commit_lock, self._lock:
            yield not (self.uncommitted or self._statements)

    def restore(self) -> None:
        """Take over what the memory holds, and forget all else."""
        self._statements.clear()
        self._forget_receipts()
        self._own.clear()
        self._books.clear()
        for consumed in self._consumed.values():
            consumed.clear()
        self._epoch = self._memory.epoch
        self._moved_by_others = False
        self._committed_ns: int | None = None
        self._inputs: dict[str, InputRow] = {}
        self._memory.side_write(self._restore)
        for name, row in self._inputs.items():
            if name in self._counts:
                self._counts[name].dropped, self._counts[name].late = row.dropped, row.late

    def _restore(self, connection: Connection) -> None:
        self._seen = latest_sequence(connection)
        self._numbering = Numbering(next_number(connection))
        self._inputs = load_inputs(connection)
        self._assigned_bytes, self._assigned_since_ns = assignment_span(connection)

    def newest_ns(self) -> dict[str, int]:
        """Return the newest stamp that was consumed, of each input that was restored."""
        return {
            name: row.newest_ns
            for name, row in self._inputs.items()
            if name in self._counts and row.newest_ns is not None
        }

    def book(self, map_id: str) -> LandmarkMap:
        """Return the landmarks of a map."""
        if map_id not in self._books:
            self._memory.side_write(lambda connection: self._load(connection, map_id))
        return self._books[map_id]

    def _load(self, connection: Connection, map_id: str) -> None:
        stored = load_landmarks(connection, map_id)
        book = LandmarkMap(
            map_id,
            self._gate_m,
            self._numbering,
            stored,
            keyframes=Keyframes(self._settings, load_keyframes(connection, map_id)),
            sightings=Sightings(load_sightings(connection, map_id)),
        )
        self._books[map_id] = book
        self._take_away(book, removed_landmarks(connection, map_id))

    def holds(self, name: str, stamp_ns: int, digest: int) -> bool:
        """Return whether a message of an input was consumed, however long ago."""
        return self._consumed[name].holds(stamp_ns, digest)

    def _find_blocks(self, name: str, stamp_ns: int) -> Sequence[ConsumedBlock]:
        row = self._inputs.get(name)
        found: list[ConsumedBlock] = []

        def read(connection: Connection) -> None:
            known = row or load_inputs(connection).get(name)
            if known is not None:
                self._inputs[name] = known
                found.extend(blocks_at(connection, known.input_id, stamp_ns))

        self._memory.side_write(read)
        return found

    def record(self, name: str, entry: Entry, statements: Sequence[Statement]) -> None:
        """Take a message that was processed, and the statements that follow from it."""
        self._consumed[name].add(entry)
        self.tell(statements)

    def tell(self, statements: Sequence[Statement], receipts: Sequence[Receipt] = ()) -> None:
        """Take statements that follow from no message, in their order, and why they are made."""
        self._statements += statements
        self._receipts += [receipt for receipt in receipts if receipt.stored]
        self.recent.add(receipts)

    def _forget_receipts(self) -> None:
        self._receipts.clear()
        self.recent.clear()

    def commit(self, watermark_ns: int, *, force: bool) -> int:
        """Store what is due in one transaction; return how many items were written."""
        with self._commit_lock:
            while True:
                self.notice_removals()
                if not self.is_current:
                    return 0
                with self._lock:
                    batch = self._take(watermark_ns, force)
                if not batch:
                    return 0
                try:
                    self._store(batch)
                except BaseException as exc:
                    self._put_back(batch)
                    if isinstance(exc, OvertakenError):
                        continue
                    raise
                self._acknowledge(batch)
                return sum(isinstance(one, MemoryItem) for one in batch.statements)

    def _take(self, watermark_ns: int, force: bool) -> Batch | None:
        if not (force or self._is_due(watermark_ns)):
            return None
        for book in self._books.values():
            book.trim_forgotten(watermark_ns - round(MOVED_WITHIN_S * 1e9))
        counts = {name: (count.dropped, count.late) for name, count in self._counts.items() if count.changed}
        return Batch(
            statements=tuple(self._statements),
            books=[(book, made) for book in self._books.values() if (made := book.take_changes())],
            entries={name: tuple(one.fresh) for name, one in self._consumed.items() if one.fresh},
            counts=counts,
            next_number=self._numbering.following,
            watermark_ns=watermark_ns,
            seen=self._seen,
            own=self._own,
            receipts=tuple(self._receipts),
            receipts_max=_RECEIPTS_MAX,
        )

    def _is_due(self, watermark_ns: int) -> bool:
        if (
            self._statements
            or self._committed_ns is None
            or any(one.changed for one in self._counts.values())
        ):
            return True
        # Each commit rewrites whole pages, so statistics wait; what they wait for is stamps.
        interval_ns = round(self._settings.statistics_interval_s * 1e9)
        waited = watermark_ns - self._committed_ns >= interval_ns
        return waited or 2 * self.uncommitted > self._settings.uncommitted_max

    def _store(self, batch: Batch) -> None:
        def within(connection: Connection, _sequence: int = 0) -> None:
            self._gained = store_batch(connection, batch)
            self._freed, self._oldest_ns = self._prune(connection, batch, self._gained)

        try:
            # Statements may be ahead of the state they follow from: made again, they change nothing.
            for items, endings in (made := phases(batch.statements))[:-1]:
                self._write(items)
                self._end(endings)
            items, endings = made[-1]
            if not items or endings:
                self._write(items)
                self._end(endings)
                self._memory.side_write(within)
                return
            self._write(items, within)
        except (InvalidRequestError, ClockError) as exc:
            if not self._sort_out([one for one in batch.statements if isinstance(one, MemoryItem)], exc):
                raise
            raise OvertakenError from exc

    def _write(
        self, items: Sequence[MemoryItem], within: Callable[[Connection, int], None] | None = None
    ) -> None:
        starts = range(0, len(items), _ITEMS_PER_WRITE)
        for start in starts:
            last = within if start == starts[-1] else None
            self._memory.write(items[start : start + _ITEMS_PER_WRITE], durable=False, within=last)

    def _end(self, endings: Sequence[Ending]) -> None:
        for why in sorted({ending[2:] for ending in endings}):
            alike = [ending for ending in endings if ending[2:] == why]
            map_id, reason, merged_into = why
            ended = self._memory.end(
                [ending.key for ending in alike],
                [ending.at_ns for ending in alike],
                map_id=map_id,
                reason=reason,
                merged_into=merged_into,
                durable=False,
            )
            if ended:
                self._own.add(ended.sequence)

    def _prune(self, connection: Connection, batch: Batch, gained: int) -> tuple[int, int | None]:
        settings = self._settings
        total, oldest_ns = self._assigned_bytes + gained, self._assigned_since_ns
        before_ns = batch.watermark_ns - round(settings.ledger_max_age_s * 1e9)
        slack_ns = round(settings.ledger_max_age_s * 1e9) // _SLACK
        if total <= settings.ledger_max_bytes and (oldest_ns is None or oldest_ns >= before_ns - slack_ns):
            return 0, oldest_ns
        limit = settings.ledger_max_bytes - settings.ledger_max_bytes // _SLACK
        freed = prune_assignments(connection, before_ns, max(0, total - limit))
        return freed, assignment_span(connection)[1]

    def _sort_out(self, items: Sequence[MemoryItem], refusal: HyloMemoryError) -> bool:
        """Drop the items that the memory will never take, so that the others can be stored."""
        refused = [item for item in items if not self._would_take(item)]
        if refused:
            _log.error('the memory refuses %d landmarks: %s', len(refused), refusal)
        with self._lock:
            for item in refused:
                # What was edited by hand is of no input.
                if counts := self._counts.get(item.source.partition('/')[2]):
                    counts.refuse('item_refused')
            self._statements = [one for one in self._statements if not any(one is item for item in refused)]
        return bool(refused)

    def _would_take(self, item: MemoryItem) -> bool:
        try:
            self._memory.write([item], dry_run=True)
        except (InvalidRequestError, ClockError):
            return False
        return True

    def _put_back(self, batch: Batch) -> None:
        with self._lock:
            for book, changes in batch.books:
                book.put_back(changes)

    def _acknowledge(self, batch: Batch) -> None:
        with self._lock:
            stored_ids = set(map(id, batch.statements))
            self._statements = [one for one in self._statements if id(one) not in stored_ids]
            del self._receipts[: len(batch.receipts)]
            for name, entries in batch.entries.items():
                self._consumed[name].stored(len(entries))
            for name, stored in batch.counts.items():
                count = self._counts[name]
                count.changed = (count.dropped, count.late) != stored
            self._committed_ns = batch.watermark_ns
            self._assigned_bytes += self._gained - self._freed
            self._assigned_since_ns = self._oldest_ns if self._oldest_ns is not None else batch.watermark_ns

    def notice_removals(self) -> None:
        """Take account of what was forgotten, retracted or purged since the last look."""
        if self._memory.sequence == self._seen:
            return
        removed: dict[str, tuple[list[Removed], set[int] | None]] = {}
        maps = tuple(self._books)
        seen: list[int] = []

        def read(connection: Connection) -> None:
            happened, keys, moved = removals_since(connection, self._seen, self._own)
            self._moved_by_others |= moved
            for map_id in maps if happened else ():
                left = numbers_of(connection, map_id) if keys is None else None
                removed[map_id] = removed_landmarks(connection, map_id, keys), left
            seen.append(latest_sequence(connection))

        self._memory.side_write(read)
        with self._lock:
            for map_id, (gone, left) in removed.items():
                self._take_away(self._books[map_id], gone)
                if left is not None:
                    # What was purged must not be read from receipts either.
                    self._unsay(map_id, self._books[map_id].keep_only(left))
                    self._forget_receipts()
            self._seen = max(self._seen, *seen)
            self._own = {sequence for sequence in self._own if sequence > self._seen}

    def _unsay(self, map_id: str, purged: Collection[str]) -> None:
        """Let no statement that waits bring back what was purged, or name it."""
        left = [
            one for one in self._statements if concerns(one)[0] != map_id or concerns(one)[1] not in purged
        ]
        self._statements = [
            one._replace(merged_into='')
            if isinstance(one, Ending) and one.map_id == map_id and one.merged_into in purged
            else one
            for one in left
        ]

    def _take_away(self, book: LandmarkMap, removed: Sequence[Removed]) -> None:
        for key, at_ns in removed:
            row = book.row_of(key)
            if row is None:
                continue
            if at_ns is None:
                book.remove(row)
            else:
                book.forget(row, at_ns)
        gone = {(book.map_id, key) for key, _ in removed}
        self._statements = [one for one in self._statements if concerns(one) not in gone]


def load_book(connection: Connection, map_id: str, settings: LandmarkSettings) -> LandmarkMap:
    """Return the landmarks of a map as they are stored."""
    return LandmarkMap(
        map_id,
        max((source.gate_m for source in settings.inputs), default=1.0),
        Numbering(next_number(connection)),
        load_landmarks(connection, map_id),
        keyframes=Keyframes(settings, load_keyframes(connection, map_id)),
        sightings=Sightings(load_sightings(connection, map_id)),
    )


def store_book(connection: Connection, book: LandmarkMap) -> None:
    """Store what changed of a book."""
    changes = book.take_changes()
    delete_landmarks(connection, changes.deleted)
    save_landmarks(connection, changes.saved)
    save_keyframes(connection, book.map_id, changes.keyframes)
    delete_sightings(connection, changes.sightings.deleted)
    save_sightings(connection, changes.sightings.saved)
    numbers = [int(row['number']) + 1 for row in changes.saved]
    if changes.new:
        save_next_number(connection, max(next_number(connection), *numbers))
