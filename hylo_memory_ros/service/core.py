"""State that the handlers of one memory share.

Threads: whatever changes the memory holds `lock`; under it the store commits, the indexes follow and the
event bus publishes, in that order.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import StoreError
from hylo_memory_ros.model import Change, MemoryItem
from hylo_memory_ros.retrieval import RetrievalEngine
from hylo_memory_ros.service.background_throttle import BackgroundThrottle
from hylo_memory_ros.service.embedding_spaces import EmbeddingSpaces
from hylo_memory_ros.service.event_bus import EventBus
from hylo_memory_ros.service.indexes import Indexes
from hylo_memory_ros.service.known_maps import KnownMaps
from hylo_memory_ros.service.receipt_log import ReceiptLog
from hylo_memory_ros.service.request_cache import RequestCache
from hylo_memory_ros.service.skills import SkillLibrary
from hylo_memory_ros.storage import CommitResult, Store, WorkingMemory

__all__ = ['MemoryCore']


class MemoryCore:
    """Store, indexes, working memory, lock and event bus of one memory.

    Parameters
    ----------
    store : Store
        The durable memory.
    config : MemoryConfig
        Limits and tolerances.
    map_id : str
        The current map; empty: none.
    background : bool
        Load the spatial mirror in a thread.
    read_only : bool
        Change nothing.
    """

    def __init__(
        self, store: Store, config: MemoryConfig, map_id: str, *, background: bool, read_only: bool
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
        self.engine = self.engine_for(None)
        self.receipts = ReceiptLog(store, config, self.changing, read_only=read_only)

    def engine_for(self, map_id: str | None) -> RetrievalEngine:
        """Return an engine that answers queries in one map; None: in the current map."""
        return RetrievalEngine(
            self.store.reader,
            self.indexes.mirror,
            self.working,
            self.config,
            lambda: self.maps.current if map_id is None else map_id,
            self.indexes.vectors,
            lambda space, text: self.spaces.vectors_of(space, [text])[0],
            self.skills.index,
        )

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
            if committed.skills or committed.unsaid:
                self.skills.follow(committed)
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
