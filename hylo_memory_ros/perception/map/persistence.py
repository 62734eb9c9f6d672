"""Persistence of landmarks, consumed messages and statements between two commits.

Threads: `record`, `is_consumed`, `landmarks_of` and `apply_removals` are called under the lock of
the pipeline, which is given here; `commit` takes it only to collect and to acknowledge a batch, not
while the database writes.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import ClockError, HyloMemoryError, InvalidRequestError
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.perception.ingestion.observation import Message
from hylo_memory_ros.perception.map.landmark import LandmarkEnding
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap, MapChanges, NumberSequence
from hylo_memory_ros.perception.map.sightings import Keyframes, Sightings
from hylo_memory_ros.perception.port import MemoryPort, StatePort
from hylo_memory_ros.perception.receipts import RECEIPTS_KEPT, Receipt, ReceiptRing
from hylo_memory_ros.perception.settings import LandmarkSettings
from hylo_memory_ros.perception.status import InputCounts
from hylo_memory_ros.storage.landmarks import AssociationReceipt, Block, ConsumedBlock, InputRow, Removed

_log = logging.getLogger(__name__)

# A replay reads its blocks one after the other; a few cover the reordering around the place.
_BLOCKS_KEPT = 16
# Pruning leaves this share of the limit free, so that it is not needed at every commit.
_SLACK = 16
# Other writers get their turn between two of these.
_ITEMS_PER_WRITE = 1000
# Number of stored receipts of decisions; the oldest leave first.
_RECEIPTS_MAX = 10_000

Statement = MemoryItem | LandmarkEnding


@dataclass(frozen=True, slots=True, eq=False)
class ConsumedMessage:
    """One consumed message."""

    stamp_ns: int
    """Its stamp."""
    digest: int
    """Its digest."""
    landmarks: NDArray[np.int64]
    """Number of the landmark of each detection, 0 for none."""


@dataclass(slots=True)
class ConsumedMessages:
    """Consumed messages of one input: those since the last commit, and a window on all earlier ones.

    Parameters
    ----------
    name : str
        The input.
    find : callable
        Returns the stored blocks of an input whose stamps include a stamp.
    """

    name: str
    find: Callable[[str, int], Sequence[ConsumedBlock]]
    fresh: list[ConsumedMessage] = field(default_factory=list)
    """Messages that are not stored yet, in the order of processing."""
    _known: set[tuple[int, int]] = field(default_factory=set)
    _blocks: deque[ConsumedBlock] = field(default_factory=lambda: deque(maxlen=_BLOCKS_KEPT))

    def add(self, entry: ConsumedMessage) -> None:
        """Add a message that was just processed."""
        self.fresh.append(entry)
        self._known.add((entry.stamp_ns, entry.digest))

    def holds(self, stamp_ns: int, digest: int) -> bool:
        """Return whether a message was consumed, however long ago."""
        message = (stamp_ns, digest)
        if message in self._known or any(message in block.messages for block in self._blocks):
            return True
        found = self.find(self.name, stamp_ns)
        self._blocks.extendleft(found)
        return any(message in block.messages for block in found)

    def drop_stored(self, count: int) -> None:
        """Drop the oldest entries, which a commit has stored."""
        for entry in self.fresh[:count]:
            self._known.discard((entry.stamp_ns, entry.digest))
        del self.fresh[:count]

    def clear(self) -> None:
        """Forget all messages after the memory was replaced."""
        self.fresh.clear()
        self._known.clear()
        self._blocks.clear()


class Phase(NamedTuple):
    """Statements that may be stored in two steps: first all items, then all endings."""

    items: list[MemoryItem]
    endings: list[LandmarkEnding]


def _identity_of(statement: Statement) -> tuple[str, str]:
    """Return the map and the key of a statement."""
    if isinstance(statement, LandmarkEnding):
        return statement.map_id, statement.key
    return statement.scope.get('map_id', ''), statement.key or ''


def split_phases(statements: Iterable[Statement]) -> Sequence[Phase]:
    """Split statements into phases.

    Order matters only among statements about one identity, so a phase lasts until a statement
    follows about an identity that has ended in it.

    Examples
    --------
    >>> gone, back = LandmarkEnding('cup', 5), MemoryItem(kind='spatial', key='cup', content='cup')
    >>> [(len(phase.items), len(phase.endings)) for phase in split_phases([back, gone, back, gone])]
    [(1, 1), (1, 1)]
    """
    found = [Phase([], [])]
    ended: set[tuple[str, str]] = set()
    for statement in statements:
        identity = _identity_of(statement)
        if identity in ended:
            found.append(Phase([], []))
            ended.clear()
        if isinstance(statement, LandmarkEnding):
            found[-1].endings.append(statement)
            ended.add(identity)
        else:
            found[-1].items.append(statement)
    return found


class ConcurrentRemovalError(Exception):
    """Something was forgotten, retracted or purged before this transaction got the lock."""


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Everything that changed since the last commit."""

    statements: Sequence[Statement]
    maps: Sequence[tuple[LandmarkMap, MapChanges]]
    entries: Mapping[str, Sequence[ConsumedMessage]]
    counts: Mapping[str, tuple[int, int]]
    receipts: Sequence[Receipt]
    next_number: int
    watermark_ns: int
    seen: int
    own: set[int]

    def __bool__(self) -> bool:
        return bool(self.statements or self.counts or self.entries or self.maps or self.receipts)


class LandmarkPersistence:
    """Landmarks, consumed messages and unwritten statements of one memory.

    Parameters
    ----------
    memory : MemoryPort
        The memory that stores them.
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
        self._consumed = {name: ConsumedMessages(name, self._find_blocks) for name in counts}
        self._maps: dict[str, LandmarkMap] = {}
        self._statements: list[Statement] = []
        # Transactions in which perception itself ended items.
        self._own: set[int] = set()
        self._receipts: list[Receipt] = []
        self.recent = ReceiptRing(RECEIPTS_KEPT)
        """The newest receipts, stored or not."""
        self.restore()

    @property
    def uncommitted(self) -> int:
        """Return the number of consumed messages that are not stored."""
        return sum(len(consumed.fresh) for consumed in self._consumed.values())

    def uncommitted_by_input(self) -> dict[str, int]:
        """Return the number of consumed messages that are not stored, of each input that has any."""
        return {name: len(consumed.fresh) for name, consumed in self._consumed.items() if consumed.fresh}

    @property
    def is_current(self) -> bool:
        """Return whether neither the memory was replaced nor a map corrected by somebody else."""
        return self._epoch == self._memory.epoch and not self._moved_by_others

    @contextmanager
    def exclusive(self) -> Iterator[bool]:
        """Hold off commits and messages; yield whether everything is stored."""
        with self._commit_lock, self._lock:
            yield not (self.uncommitted or self._statements)

    def restore(self) -> None:
        """Load the state of the memory and discard all other state."""
        self._statements.clear()
        self._forget_receipts()
        self._own.clear()
        self._maps.clear()
        for consumed in self._consumed.values():
            consumed.clear()
        self._epoch = self._memory.epoch
        self._moved_by_others = False
        self._committed_ns: int | None = None
        with self._memory.read() as view:
            self._seen = view.landmarks.latest_sequence()
            self._numbering = NumberSequence(view.landmarks.next_number())
            self._inputs: dict[str, InputRow] = view.ledger.load_inputs()
            self._assigned_bytes, self._assigned_since_ns = view.ledger.assignment_span()
        for name, row in self._inputs.items():
            if name in self._counts:
                self._counts[name].dropped, self._counts[name].late = row.dropped, row.late

    def newest_ns(self) -> dict[str, int]:
        """Return the newest consumed stamp of each restored input."""
        return {
            name: row.newest_ns
            for name, row in self._inputs.items()
            if name in self._counts and row.newest_ns is not None
        }

    def landmarks_of(self, map_id: str) -> LandmarkMap:
        """Return the landmarks of a map."""
        if map_id not in self._maps:
            with self._memory.read() as view:
                landmarks = load_map(view, map_id, self._settings, self._numbering)
                removed = view.landmarks.removed(map_id)
            self._maps[map_id] = landmarks
            self._remove(landmarks, removed)
        return self._maps[map_id]

    def is_consumed(self, message: Message) -> bool:
        """Return whether a message was consumed, however long ago."""
        return self._consumed[message.input].holds(message.stamp_ns, message.digest)

    def _find_blocks(self, name: str, stamp_ns: int) -> Sequence[ConsumedBlock]:
        with self._memory.read() as view:
            row = self._inputs.get(name) or view.ledger.load_inputs().get(name)
            if row is None:
                return ()
            self._inputs[name] = row
            return view.ledger.blocks_at(row.input_id, stamp_ns)

    def record(self, name: str, entry: ConsumedMessage, statements: Sequence[Statement]) -> None:
        """Add a processed message and the statements that follow from it."""
        self._consumed[name].add(entry)
        self.add(statements)

    def add(self, statements: Sequence[Statement], receipts: Sequence[Receipt] = ()) -> None:
        """Add statements in their order, and the receipts of the decisions behind them."""
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
                self.apply_removals()
                if not self.is_current:
                    return 0
                with self._lock:
                    batch = self._collect(watermark_ns, force)
                if not batch:
                    return 0
                try:
                    self._store(batch)
                except BaseException as exc:
                    with self._lock:
                        for landmarks, changes in batch.maps:
                            landmarks.put_back(changes)
                    if isinstance(exc, ConcurrentRemovalError):
                        continue
                    raise
                self._acknowledge(batch)
                return sum(isinstance(one, MemoryItem) for one in batch.statements)

    def _collect(self, watermark_ns: int, force: bool) -> _Batch | None:
        if not (force or self._is_due(watermark_ns)):
            return None
        maps = self._maps.values()
        for landmarks in maps:
            landmarks.trim_forgotten(watermark_ns - round(self._settings.moved_within_s * 1e9))
        return _Batch(
            statements=tuple(self._statements),
            maps=[(landmarks, changes) for landmarks in maps if (changes := landmarks.take_changes())],
            entries={name: tuple(one.fresh) for name, one in self._consumed.items() if one.fresh},
            counts={name: (one.dropped, one.late) for name, one in self._counts.items() if one.changed},
            receipts=tuple(self._receipts),
            next_number=self._numbering.following,
            watermark_ns=watermark_ns,
            seen=self._seen,
            own=self._own,
        )

    def _is_due(self, watermark_ns: int) -> bool:
        if (
            self._statements
            or self._committed_ns is None
            or any(one.changed for one in self._counts.values())
        ):
            return True
        # Each commit rewrites whole pages, so mere statistics wait for an interval of stamps.
        interval_ns = round(self._settings.statistics_interval_s * 1e9)
        waited = watermark_ns - self._committed_ns >= interval_ns
        return waited or 2 * self.uncommitted > self._settings.uncommitted_max

    def _store(self, batch: _Batch) -> None:
        try:
            # Statements may be ahead of the state they follow from: stored again, they change nothing.
            *earlier, (items, endings) = split_phases(batch.statements)
            for phase in earlier:
                self._write(phase.items)
                self._end(phase.endings)
            if items and not endings:
                self._write(items, lambda uow: self._save(uow, batch))
                return
            self._write(items)
            self._end(endings)
            with self._memory.begin_unnumbered() as uow:
                self._save(uow, batch)
        except (InvalidRequestError, ClockError) as exc:
            if not self._drop_refused([one for one in batch.statements if isinstance(one, MemoryItem)], exc):
                raise
            raise ConcurrentRemovalError from exc

    def _write(self, items: Sequence[MemoryItem], within: Callable[[StatePort], None] | None = None) -> None:
        starts = range(0, len(items), _ITEMS_PER_WRITE)
        for start in starts:
            last = within if start == starts[-1] else None
            self._memory.write(items[start : start + _ITEMS_PER_WRITE], durable=False, within=last)

    def _end(self, endings: Sequence[LandmarkEnding]) -> None:
        for map_id, reason, merged_into in sorted({ending[2:] for ending in endings}):
            alike = [ending for ending in endings if ending[2:] == (map_id, reason, merged_into)]
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

    def _save(self, uow: StatePort, batch: _Batch) -> None:
        """Save the state of a batch.

        Raises
        ------
        ConcurrentRemovalError
            If something was removed that the batch does not take account of.
        """
        if uow.landmarks.removals_since(batch.seen, batch.own).happened:
            raise ConcurrentRemovalError
        for name, (dropped, late) in batch.counts.items():
            uow.ledger.save_counts(name, dropped, late)
        self._gained = 0
        for name, entries in batch.entries.items():
            block = Block(
                uow.ledger.input_number(name),
                [entry.stamp_ns for entry in entries],
                [entry.digest for entry in entries],
                [entry.landmarks for entry in entries],
            )
            self._gained += uow.ledger.add(block)
        for landmarks, changes in batch.maps:
            _save_changes(uow, landmarks.map_id, changes)
        receipts = [
            AssociationReceipt(one.id, one.map_id, one.stamp_ns, one.named, one.as_json())
            for one in batch.receipts
        ]
        uow.association_receipts.save(receipts, _RECEIPTS_MAX)
        if any(changes.new for _, changes in batch.maps):
            uow.landmarks.save_next_number(batch.next_number)
        self._prune(uow, batch.watermark_ns)

    def _prune(self, uow: StatePort, watermark_ns: int) -> None:
        settings, self._oldest_ns, self._freed = self._settings, self._assigned_since_ns, 0
        total = self._assigned_bytes + self._gained
        before_ns = watermark_ns - round(settings.ledger_max_age_s * 1e9)
        slack_ns = round(settings.ledger_max_age_s * 1e9) // _SLACK
        if total <= settings.ledger_max_bytes and (
            self._oldest_ns is None or self._oldest_ns >= before_ns - slack_ns
        ):
            return
        limit = settings.ledger_max_bytes - settings.ledger_max_bytes // _SLACK
        self._freed = uow.ledger.prune(before_ns, max(0, total - limit))
        self._oldest_ns = uow.ledger.assignment_span()[1]

    def _drop_refused(self, items: Sequence[MemoryItem], refusal: HyloMemoryError) -> bool:
        """Drop the items that the memory refuses for good, so that the others can be stored."""
        refused = [item for item in items if not self._is_accepted(item)]
        if refused:
            _log.error('the memory refuses %d landmarks: %s', len(refused), refusal)
        with self._lock:
            for item in refused:
                # An edit by hand belongs to no input.
                if counts := self._counts.get(item.source.partition('/')[2]):
                    counts.reject('item_refused')
            self._statements = [one for one in self._statements if not any(one is item for item in refused)]
        return bool(refused)

    def _is_accepted(self, item: MemoryItem) -> bool:
        try:
            self._memory.write([item], dry_run=True)
        except (InvalidRequestError, ClockError):
            return False
        return True

    def _acknowledge(self, batch: _Batch) -> None:
        with self._lock:
            stored_ids = set(map(id, batch.statements))
            self._statements = [one for one in self._statements if id(one) not in stored_ids]
            del self._receipts[: len(batch.receipts)]
            for name, entries in batch.entries.items():
                self._consumed[name].drop_stored(len(entries))
            for name, stored in batch.counts.items():
                count = self._counts[name]
                count.changed = (count.dropped, count.late) != stored
            self._committed_ns = batch.watermark_ns
            self._assigned_bytes += self._gained - self._freed
            self._assigned_since_ns = self._oldest_ns if self._oldest_ns is not None else batch.watermark_ns

    def apply_removals(self) -> None:
        """Apply what was forgotten, retracted or purged since the last call."""
        if self._memory.sequence == self._seen:
            return
        removed: dict[str, tuple[list[Removed], set[int] | None]] = {}
        maps = tuple(self._maps)
        with self._memory.read() as view:
            happened, keys, moved = view.landmarks.removals_since(self._seen, self._own)
            self._moved_by_others |= moved
            for map_id in maps if happened else ():
                left = view.landmarks.numbers(map_id) if keys is None else None
                removed[map_id] = view.landmarks.removed(map_id, keys), left
            seen = view.landmarks.latest_sequence()
        with self._lock:
            for map_id, (gone, left) in removed.items():
                self._remove(self._maps[map_id], gone)
                if left is not None:
                    # Receipts must not reveal what was purged either.
                    self._discard_statements(map_id, self._maps[map_id].keep_only(left))
                    self._forget_receipts()
            self._seen = max(self._seen, seen)
            self._own = {sequence for sequence in self._own if sequence > self._seen}

    def _discard_statements(self, map_id: str, purged: Collection[str]) -> None:
        """Discard statements that would restore or name what was purged."""
        self._statements = [
            one._replace(merged_into='')
            if isinstance(one, LandmarkEnding) and one.map_id == map_id and one.merged_into in purged
            else one
            for one in self._statements
            if _identity_of(one)[0] != map_id or _identity_of(one)[1] not in purged
        ]

    def _remove(self, landmarks: LandmarkMap, removed: Sequence[Removed]) -> None:
        for key, at_ns in removed:
            row = landmarks.row_of(key)
            if row is None:
                continue
            if at_ns is None:
                landmarks.remove(row)
            else:
                landmarks.forget(row, at_ns)
        gone = {(landmarks.map_id, key) for key, _ in removed}
        self._statements = [one for one in self._statements if _identity_of(one) not in gone]


def load_map(
    view: StatePort, map_id: str, settings: LandmarkSettings, numbering: NumberSequence | None = None
) -> LandmarkMap:
    """Return the landmarks of a map as they are stored."""
    return LandmarkMap(
        map_id,
        max((source.gate_m for source in settings.inputs), default=1.0),
        numbering or NumberSequence(view.landmarks.next_number()),
        view.landmarks.load(map_id),
        keyframes=Keyframes(settings, view.sightings.load_keyframes(map_id)),
        sightings=Sightings(view.sightings.load(map_id)),
    )


def save_map(uow: StatePort, landmarks: LandmarkMap) -> None:
    """Save the changes of a map."""
    changes = landmarks.take_changes()
    _save_changes(uow, landmarks.map_id, changes)
    if changes.new:
        numbers = [int(row['number']) + 1 for row in changes.saved]
        uow.landmarks.save_next_number(max(uow.landmarks.next_number(), *numbers))


def _save_changes(uow: StatePort, map_id: str, changes: MapChanges) -> None:
    uow.landmarks.delete(changes.deleted)
    uow.landmarks.save(changes.saved)
    uow.sightings.save_keyframes(map_id, changes.keyframes)
    uow.sightings.delete(changes.sightings.deleted)
    uow.sightings.save(changes.sightings.saved)
