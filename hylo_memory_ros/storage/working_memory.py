"""Working memory: bounded, in this process alone, without history.

Threads: every method takes one lock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence, Set
from typing import NamedTuple

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.identity import merged, statement_of
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryItem, MemoryKind, MemoryQuery, WriteEvent
from hylo_memory_ros.model.result import Outcome
from hylo_memory_ros.storage.consolidation.candidates import KindSize
from hylo_memory_ros.storage.query.filters import ItemContext, matches

Names = Set[tuple[str, str]]


class _Kept(NamedTuple):
    item: MemoryItem
    content: bytes
    """Digest of its content."""
    size: int
    sequence: int
    """The newest transaction of the durable memory when it came."""
    recorded_at_ns: int
    episode: str
    """Episode of its last write; empty: none."""


class WorkingMatches(NamedTuple):
    """Matches of working memory, and counts of matches at another time."""

    items: Sequence[MemoryItem] = ()
    not_yet_valid: int = 0
    """Matches that begin after the world time of the query."""
    not_yet_known: int = 0
    """Matches that came after the belief of the query."""


NO_MATCHES = WorkingMatches()


class WorkingMemory:
    """The least recently used items leave first.

    Parameters
    ----------
    config : MemoryConfig
        Its limits, the scope of identities, and the clock that event times are compared on.
    """

    def __init__(self, config: MemoryConfig) -> None:
        self._capacity, self._limit_bytes = config.working_capacity, config.working_limit_bytes
        self._item_bytes = config.working_item_bytes
        self._scope, self._clock = config.identity_scope, config.clock
        self._confidence_step = config.confidence_step
        self._items: OrderedDict[bytes, _Kept] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def __contains__(self, item_id: str) -> bool:
        """Return whether an item of this id is here."""
        with self._lock:
            return any(kept.item.id == item_id for kept in self._items.values())

    @property
    def held(self) -> KindSize:
        """Number of items, and their bytes."""
        with self._lock:
            return KindSize(len(self._items), self._bytes)

    def check(self, items: Sequence[MemoryItem]) -> None:
        """Refuse a call with an item that is larger than one may be, naming every one.

        Raises
        ------
        InvalidRequestError
            With the place of each in the call, its size and the limit.
        """
        sizes = [
            (index, size)
            for index, item in enumerate(items)
            if item.kind is MemoryKind.WORKING and (size := size_of(item)) > self._item_bytes
        ]
        if sizes:
            raise InvalidRequestError(
                '; '.join(
                    f'items[{index}]: {size} bytes as JSON, working memory takes at most '
                    f'working_item_bytes {self._item_bytes} of one item'
                    for index, size in sizes
                ),
                limit=self._item_bytes,
            )

    def write(
        self,
        items: Sequence[MemoryItem],
        sequence: int,
        recorded_at_ns: int,
        *,
        episode: str = '',
        dry_run: bool = False,
    ) -> tuple[list[WriteEvent], list[MemoryItem]]:
        """Keep resolved items, each in the place of the one with the same identity.

        Parameters
        ----------
        items : sequence of MemoryItem
            Each passed `check`.
        sequence : int
            The newest transaction of the durable memory.
        recorded_at_ns : int
            Service clock.
        episode : str
            The episode that is open; empty: none.
        dry_run : bool
            Tell what would happen, and keep nothing.

        Returns
        -------
        list of WriteEvent
            What happened to each.
        list of MemoryItem
            What was evicted for them, oldest first.
        """
        with self._lock:
            came = (sequence, recorded_at_ns, episode)
            events = [self._put(item, *came, dry_run=dry_run) for item in items]
            return events, self._evict()

    def _put(
        self, item: MemoryItem, sequence: int, recorded_at_ns: int, episode: str, *, dry_run: bool
    ) -> WriteEvent:
        statement = statement_of(item, self._scope)
        before = self._items.get(statement.identity)
        if before is not None and before.content == statement.content:
            now = merged(before.item, item, self._confidence_step)
            if not dry_run:
                size = before.size if now is before.item else size_of(now)
                self._items[statement.identity] = before._replace(item=now, size=size, episode=episode)
                self._items.move_to_end(statement.identity)
                self._bytes += size - before.size
            event: Outcome = 'SKIP_DUP' if now is before.item else 'MERGE'
            return WriteEvent(event, before.item.id or '', item.key)
        if not dry_run:
            kept = item.model_copy(update={'id': statement.id}, deep=True)
            self._take(statement.identity)
            self._items[statement.identity] = _Kept(
                kept, statement.content, size_of(kept), sequence, recorded_at_ns, episode
            )
            self._bytes += self._items[statement.identity].size
        if before is None:
            return WriteEvent('ADD', statement.id, item.key)
        return WriteEvent('INVALIDATE', statement.id, item.key, closed_id=before.item.id or '')

    def _take(self, identity: bytes) -> None:
        kept = self._items.pop(identity, None)
        if kept is not None:
            self._bytes -= kept.size

    def _evict(self) -> list[MemoryItem]:
        gone = []
        while len(self._items) > self._capacity or self._bytes > self._limit_bytes:
            _, kept = self._items.popitem(last=False)
            self._bytes -= kept.size
            gone.append(kept.item)
        return gone

    def find(
        self,
        query: MemoryQuery,
        at_ns: int,
        map_id: str | None,
        reached: Names = frozenset(),
        *,
        seq: int | None = None,
    ) -> WorkingMatches:
        """Return the items that match and have begun at a world time; each counts as used.

        Only what is here now can answer; of an earlier belief, what has been here since then.

        Parameters
        ----------
        reached : collection of (name, map)
            What the durable memory reaches by the links of the query; a link to it counts too.
        seq : int, optional
            What was here after this transaction; None: now.
        """
        with self._lock:
            matching = self._matching(query, map_id, None, reached)
            known = [one for one in matching if _was_known(self._items[one[0]], seq, query.known_at_ns)]
            found = [one for one in known if (one[1].valid_from_ns or 0) <= at_ns]
            for identity, _ in found:
                self._items.move_to_end(identity)
        items = [item.model_copy(deep=True) for _, item in found]
        return WorkingMatches(items, len(known) - len(found), len(matching) - len(known))

    def forget(
        self, query: MemoryQuery, map_id: str | None, at_ns: int | None = None, *, dry_run: bool = False
    ) -> list[str]:
        """Take the matching items out and return their ids.

        Parameters
        ----------
        at_ns : int, optional
            Only those that have begun at this world time.
        """
        with self._lock:
            found = self._matching(query, map_id, at_ns)
            if not dry_run:
                for identity, _ in found:
                    self._take(identity)
        return [item.id or '' for _, item in found]

    def _matching(
        self, query: MemoryQuery, map_id: str | None, at_ns: int | None, reached: Names = frozenset()
    ) -> list[tuple[bytes, MemoryItem]]:
        return [
            (identity, kept.item)
            for identity, kept in self._items.items()
            if (at_ns is None or (kept.item.valid_from_ns or 0) <= at_ns)
            and matches(kept.item, query, ItemContext(map_id, self._clock, reached, kept.episode))
        ]

    def clear(self) -> None:
        """Take everything out."""
        with self._lock:
            self._items.clear()
            self._bytes = 0


def size_of(item: MemoryItem) -> int:
    """Return the bytes of an item as JSON in UTF-8, without its id; what is not set takes none."""
    return len(item.model_dump_json(exclude_defaults=True, exclude={'id'}).encode('utf-8'))


def _was_known(kept: _Kept, seq: int | None, known_at_ns: int | None) -> bool:
    # Writes to it take no sequence, so that of a time says less than the time itself.
    if known_at_ns is not None:
        return kept.recorded_at_ns <= known_at_ns
    return seq is None or kept.sequence <= seq
