"""State shared by the service handlers: store, indexes, known maps, idempotency cache, lock, throttle.

Threads: whatever changes the memory holds `lock`; under it the store commits, the indexes follow and the
event bus publishes, in that order.

All threads of a process share one interpreter: a long computation delays an answer even without any lock.
So background work is cut into pieces of about a millisecond, and calls `give_way` between them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import InvalidRequestError, NotFoundError, StoreError
from hylo_memory_ros.model import Change, MemoryItem, MemoryKind, WriteResult, normalize_key
from hylo_memory_ros.retrieval import RetrievalEngine
from hylo_memory_ros.service.embedding_spaces import EmbeddingSpaces
from hylo_memory_ros.service.event_bus import EventBus
from hylo_memory_ros.service.indexes import Indexes
from hylo_memory_ros.service.receipt_log import ReceiptLog
from hylo_memory_ros.service.skills import SkillLibrary
from hylo_memory_ros.storage import CommitResult, SqliteStore, WorkingMemory

_LONGEST_WAIT_S = 0.05
# Background work keeps a fifth of the time, however many queries come.
_WAIT_OF_WORK = 4.0


class BackgroundThrottle:
    """Counts the queries that are being answered, and lets background work wait for them.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries = 0
        self._idle = threading.Event()
        self._idle.set()
        self._resumed_s = time.monotonic()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold background work until the end of the block, which answers a query."""
        with self._lock:
            self._queries += 1
            self._idle.clear()
        try:
            yield
        finally:
            with self._lock:
                self._queries -= 1
                if not self._queries:
                    self._idle.set()

    def give_way(self) -> None:
        """Wait until no query is being answered.

        At most four times as long as the work since the last wait took, and at most 50 ms.
        """
        worked_s = time.monotonic() - self._resumed_s
        self._idle.wait(min(_WAIT_OF_WORK * worked_s, _LONGEST_WAIT_S))
        self._resumed_s = time.monotonic()


class KnownMaps:
    """The known maps of a store.

    Parameters
    ----------
    store : SqliteStore
        Remembers them.
    current : str
        The map that the robot is in; empty: none.
    """

    def __init__(self, store: SqliteStore, current: str) -> None:
        self._store = store
        self.current = _validate_map_id(current)
        self._known = set(store.reader.maps())

    def switch(self, map_id: str, *, create: bool) -> str:
        """Make a map the current one, and return the one before; empty: none.

        Raises
        ------
        NotFoundError
            It is not known, and may not be made.
        InvalidRequestError
            Its name is not valid.
        """
        map_id = _validate_map_id(map_id)
        if not create:
            self.refuse_unknown(map_id, ', and create is false')
        self.remember([map_id])
        previous, self.current = self.current, map_id
        return previous

    def refuse_unknown(self, map_id: str, more: str = '') -> None:
        """Refuse a map that was never current or written to.

        Raises
        ------
        NotFoundError
            It is not known.
        """
        if map_id and map_id not in self._known:
            raise NotFoundError(f'map_id: {map_id!r} is not known{more}', map_id=map_id)

    def remember(self, map_ids: Iterable[str]) -> None:
        """Keep the names of maps that are met for the first time."""
        for map_id in set(map_ids) - self._known - {''}:
            with self._store.begin_unnumbered() as uow:
                uow.maps.add(map_id)
            self._known.add(map_id)

    def assign_current_map(self, item: MemoryItem) -> MemoryItem:
        """Return a spatial item that names no map as one of the current map.

        With or without a pose: else one key would name two things. Another kind holds on every map, unless
        its scope names one.
        """
        if item.kind is not MemoryKind.SPATIAL or not self.current or 'map_id' in item.scope:
            return item
        return item.model_copy(update={'scope': {**item.scope, 'map_id': self.current}})


def _validate_map_id(map_id: str) -> str:
    try:
        return map_id and normalize_key(map_id, 'map_id')
    except ValueError as exc:
        raise InvalidRequestError(str(exc), field='map_id') from exc


class RequestCache:
    """The latest answers, by the request that each was given to.

    Parameters
    ----------
    capacity : int
        Most answers; the oldest leave.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._answers: OrderedDict[str, WriteResult] = OrderedDict()

    def keep(self, request_id: str | None, result: WriteResult) -> None:
        """Keep the answer to a request; one without a name is not repeatable."""
        if request_id is not None:
            self._answers[request_id] = result
            if len(self._answers) > self._capacity:
                self._answers.popitem(last=False)

    def get(self, request_id: str | None, count: int) -> WriteResult | None:
        """Return the first answer to a request of so many items; None: it was not answered yet.

        Raises
        ------
        InvalidRequestError
            It was answered for another number of items.
        """
        known = None if request_id is None else self._answers.get(request_id)
        # Contents are not kept, so the number of items is all that can tell a reused request id.
        if known is not None and len(known.events) != count:
            raise InvalidRequestError(
                f'request_id: {request_id!r} was used before for {len(known.events)} items, got {count}'
            )
        return known

    def forget(self, ids: Collection[str]) -> None:
        """Forget the answers that name one of these, which were purged."""
        gone = set(ids)
        for request_id, result in list(self._answers.items()):
            if not gone.isdisjoint(result.ids):
                del self._answers[request_id]

    def clear(self) -> None:
        """Forget every answer."""
        self._answers.clear()


class MemoryCore:
    """Store, indexes, working memory, lock and event bus of one memory.

    Parameters
    ----------
    store : SqliteStore
        The durable memory.
    config : MemoryConfig
        Limits and tolerances.
    map_id : str
        The current map; empty: none.
    background : bool
        Load the spatial index in a thread.
    read_only : bool
        Change nothing.
    """

    def __init__(
        self, store: SqliteStore, config: MemoryConfig, map_id: str, *, background: bool, read_only: bool
    ) -> None:
        self.store = store
        self.config = config
        self.read_only = read_only
        self.lock = threading.RLock()
        self.closed = False
        self.episode = ''
        """Name of the open episode; empty: none is open."""
        self.events = EventBus()
        self.throttle = BackgroundThrottle()
        self.maps = KnownMaps(store, map_id)
        self.working = WorkingMemory(config)
        self.requests = RequestCache(config.request_retention)
        self.spaces = EmbeddingSpaces(store, config.embedding_spaces, read_only=read_only)
        self.indexes = Indexes(store, background=background, spaces=self.spaces.spaces, read_only=read_only)
        self.skills = SkillLibrary(store, config, read_only=read_only)
        self.engine = RetrievalEngine(
            store.reader,
            self.indexes.spatial,
            self.working,
            config,
            self.indexes.vectors,
            lambda space, text: self.spaces.vectors_of(space, [text])[0],
            self.skills.index,
        )
        self.receipts = ReceiptLog(store, config, self.changing, read_only=read_only)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock of an open memory."""
        with self.lock:
            self.refuse_closed()
            yield

    def follow(self, committed: CommitResult | None) -> None:
        """Bring indexes and listeners up to date with a commit; None: nothing was committed."""
        if committed is not None:
            self.indexes.follow(committed)
            # Most commits have no skill, and the index takes a lock.
            if committed.skills or committed.unsaid:
                self.skills.follow(committed)
            if self.events.listeners:
                self.events.publish(committed.change)

    def publish_evicted(self, items: Sequence[MemoryItem], at_ns: int) -> None:
        """Publish which items working memory evicted."""
        if items:
            ids, keys = tuple(item.id or '' for item in items), tuple(item.key or '' for item in items)
            outcomes = ('EVICT',) * len(items)
            self.events.publish(
                Change(self.store.sequence, at_ns, 'evict', ids, keys, outcomes, episode=self.episode)
            )

    def refuse_closed(self) -> None:
        """Raise `StoreError` once the memory is closed."""
        if self.closed:
            raise StoreError('the memory is closed')

    def close(self) -> None:
        """End every thread, empty the write-ahead log and release the lock of the file; safe to repeat."""
        # Outside the lock: the thread of receipts takes it to write the last ones.
        self.receipts.close()
        with self.lock:
            if self.closed:
                return
            self.closed = True
        self.indexes.close()
        self.working.clear()
        self.requests.clear()
        self.skills.close()
        self.store.close()
