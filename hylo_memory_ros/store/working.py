"""Working memory: in this process, bounded, gone with it; it keeps no history.

Threads: every method takes one lock.
"""

from __future__ import annotations

import math
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Sequence, Set

from hylo_memory_ros.identity import statement_of
from hylo_memory_ros.model import MemoryItem, MemoryKind, MemoryQuery, WriteEvent

__all__ = ['WorkingMemory', 'distance_from', 'may_match']

Names = Set[tuple[str, str]]


class WorkingMemory:
    """The least recently used items leave first.

    Parameters
    ----------
    capacity : int
        Most items.
    identity_scope : sequence of str
        Scope names that belong to an identity.
    clock : str
        The clock that event times are compared on.
    """

    def __init__(self, capacity: int, identity_scope: Sequence[str], clock: str) -> None:
        self._capacity = capacity
        self._scope = tuple(identity_scope)
        self._clock = clock
        self._items: OrderedDict[bytes, tuple[MemoryItem, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def write(self, item: MemoryItem, *, dry_run: bool = False) -> WriteEvent:
        """Keep a resolved item in the place of the one with the same identity."""
        statement = statement_of(item, self._scope)
        with self._lock:
            before = self._items.get(statement.identity)
            if before is not None and before[1] == statement.content:
                if not dry_run:
                    self._items.move_to_end(statement.identity)
                return WriteEvent('SKIP_DUP', before[0].id or '', item.key)
            if not dry_run:
                kept = item.model_copy(update={'id': statement.id}, deep=True)
                self._keep(statement.identity, kept, statement.content)
        if before is None:
            return WriteEvent('ADD', statement.id, item.key)
        return WriteEvent('INVALIDATE', statement.id, item.key, closed_id=before[0].id or '')

    def _keep(self, identity: bytes, item: MemoryItem, content: bytes) -> None:
        self._items[identity] = (item, content)
        self._items.move_to_end(identity)
        while len(self._items) > self._capacity:
            self._items.popitem(last=False)

    def find(
        self, query: MemoryQuery, at_ns: int, map_id: str | None, reached: Names = frozenset()
    ) -> list[MemoryItem]:
        """Return the items that match and have begun at a world time; each counts as used.

        Parameters
        ----------
        reached : collection of (name, map)
            What the durable memory reaches by the links of the query; a link to it counts too.
        """
        with self._lock:
            found = self._matching(query, map_id, at_ns, reached)
            for identity, _ in found:
                self._items.move_to_end(identity)
        return [item.model_copy(deep=True) for _, item in found]

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
                    del self._items[identity]
        return [item.id or '' for _, item in found]

    def _matching(
        self, query: MemoryQuery, map_id: str | None, at_ns: int | None, reached: Names = frozenset()
    ) -> list[tuple[bytes, MemoryItem]]:
        return [
            (identity, item)
            for identity, (item, _) in self._items.items()
            if (at_ns is None or (item.valid_from_ns or 0) <= at_ns)
            and may_match(item, query, map_id, self._clock, reached)
        ]

    def clear(self) -> None:
        """Take everything out."""
        with self._lock:
            self._items.clear()


def distance_from(item: MemoryItem, query: MemoryQuery) -> float | None:
    """Return the distance in metres from the query's centre, or None where there is none."""
    if query.near is None or item.pose is None:
        return None
    axes = 2 if query.horizontal else 3
    return math.dist(item.pose.position[:axes], query.near[0].position[:axes])


def may_match(
    item: MemoryItem, query: MemoryQuery, map_id: str | None, clock: str, reached: Names = frozenset()
) -> bool:
    """Return whether an item passes every filter of a query, the time axes aside.

    Parameters
    ----------
    map_id : str or None
        The map that `near` searches; None: every map.
    clock : str
        The clock that event times are compared on.
    reached : collection of (name, map)
        What the links of the query reach elsewhere.
    """
    return (
        (query.kinds is None or MemoryKind(item.kind) in query.kinds)
        and (not query.all_keys or item.key in query.all_keys)
        and (not query.ids or item.id in query.ids)
        and (not query.labels or item.label in query.labels)
        and set(query.entities) <= set(item.entities)
        and set(query.object_ids) <= set(item.object_ids)
        and (query.relation is None or _is_linked(item, query.relation, reached))
        and (query.scope or {}).items() <= item.scope.items()
        and (query.episode is None or item.scope.get('episode_id') == query.episode)
        and query.outcome is None
        and (query.min_confidence is None or item.confidence >= query.min_confidence)
        and (query.text is None or _speaks(item, query.text))
        and (query.time_range_ns is None or _happened(item, query.time_range_ns, clock))
        and (query.near is None or _is_near(item, query, map_id))
    )


def _is_linked(item: MemoryItem, relation: tuple[str, str], reached: Names) -> bool:
    here = item.scope.get('map_id', '')
    return relation in item.links or any(
        name == relation[0] and _names(target, here, reached) for name, target in item.links
    )


def _names(target: str, here: str, reached: Names) -> bool:
    """Return whether a name is among those of a map, of no map, or of any when here is none."""
    if here:
        return (target, here) in reached or (target, '') in reached
    return any(name == target for name, _ in reached)


def _speaks(item: MemoryItem, text: str) -> bool:
    fields = [_words(part) for part in (item.content, item.key or '', item.label, ' '.join(item.entities))]
    phrases = [phrase for word in text.split() if (phrase := _words(word))]
    return bool(phrases) and all(any(phrase in field for field in fields) for phrase in phrases)


def _words(text: str) -> str:
    """Return the words of a text as the full-text index knows them, each between spaces."""
    bare = (char for char in unicodedata.normalize('NFD', text.lower()) if not unicodedata.combining(char))
    words = ''.join(char if char.isalnum() else ' ' for char in bare).split()
    return f' {" ".join(words)} ' if words else ''


def _happened(item: MemoryItem, span: tuple[int | None, int | None], clock: str) -> bool:
    event, (start_ns, end_ns) = item.event_time, span
    if event is None or event.clock != clock:
        return False
    begins = end_ns is None or event.start_ns <= end_ns
    return begins and (start_ns is None or event.end_ns is None or event.end_ns >= start_ns)


def _is_near(item: MemoryItem, query: MemoryQuery, map_id: str | None) -> bool:
    assert query.near is not None
    pose, radius_m = query.near
    distance_m = distance_from(item, query)
    if distance_m is None or item.pose is None or item.pose.frame_id != pose.frame_id:
        return False
    return (map_id is None or item.scope.get('map_id', '') == map_id) and distance_m <= radius_m
