"""What the operations of a memory share: its parts, its lock, and who follows a commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.consolidation import summariser_named
from hylo_memory_ros.errors import StoreError
from hylo_memory_ros.model import Change, Episode, MemoryItem
from hylo_memory_ros.retrieval import RetrievalEngine
from hylo_memory_ros.service.background_throttle import BackgroundThrottle
from hylo_memory_ros.service.embedding_spaces import SpacesInUse
from hylo_memory_ros.service.event_bus import EventBus
from hylo_memory_ros.service.handlers.receipts import Proving
from hylo_memory_ros.service.helpfulness_scorer import MemoryHelpfulness
from hylo_memory_ros.service.indexes import Mirroring
from hylo_memory_ros.service.known_maps import Maps
from hylo_memory_ros.service.request_cache import Answered
from hylo_memory_ros.service.skills import SkillReport, Skills
from hylo_memory_ros.storage import CommitResult, Store, WorkingMemory

__all__ = ['EndListener', 'Parts']

T = TypeVar('T')

EndListener = Callable[[sa.Connection, Episode], None]
"""Told of the end of an episode inside its transaction."""


class Parts:
    """The parts of a memory; see `MemoryService`."""

    def __init__(
        self, store: Store, config: MemoryConfig, map_id: str, *, background: bool, read_only: bool = False
    ) -> None:
        # An unknown one is refused now, not when it is needed.
        self._summariser = summariser_named(config.consolidation.summariser)
        self.config = config
        self._store = store
        self._maps = Maps(store, map_id)
        self._lock = threading.RLock()
        self._consolidates = threading.Lock()
        self._courtesy = BackgroundThrottle()
        self._listeners = EventBus()
        self._read_only = read_only
        self._episode = ''
        self._end_listeners: tuple[EndListener, ...] = (MemoryHelpfulness(config),)
        self._working = WorkingMemory(config)
        self._answered = Answered(config.request_retention)
        self._spaces = SpacesInUse(store, config.embedding_spaces, read_only=read_only)
        self._mirroring = Mirroring(
            store, background=background, spaces=self._spaces.spaces, read_only=read_only
        )
        self._skills = Skills(store, config, read_only=read_only)
        self._closed = False
        self._retriever = self._retriever_in(None)
        self._proving = Proving(
            store,
            config,
            self._retriever,
            self._retriever_in,
            lambda: self._maps.current,
            self.side_write,
            current_episode=lambda: self._episode,
            spaces=self._spaces.spaces,
            read_only=read_only,
        )

    def _retriever_in(self, map_id: str | None) -> RetrievalEngine:
        """Return what answers questions in a map; None: in the current one."""
        return RetrievalEngine(
            self._store,
            self._mirroring.mirror,
            self._working,
            self.config,
            lambda: self._maps.current if map_id is None else map_id,
            self._mirroring.vectors,
            lambda space, text: self._spaces.vectors_of(space, [text])[0],
            self._skills.index,
        )

    @property
    def path(self) -> Path | None:
        """The file; None: in memory."""
        return self._store.path

    @property
    def skill_directory(self) -> Path | None:
        """The directory of skill files; None: there is none."""
        return self._skills.path

    @property
    def skill_report(self) -> SkillReport:
        """What was found in the directory of skill files when it was last read whole."""
        return self._skills.report

    @property
    def epoch(self) -> str:
        """Name of this history; a restore begins a new one."""
        return self._store.epoch

    @property
    def sequence(self) -> int:
        """Number of the newest transaction that every question sees."""
        mirror = self._mirroring.mirror
        # A moment after its commit only, while the mirror follows, the store is ahead.
        return min(self._store.sequence, mirror.sequence) if mirror.ready else self._store.sequence

    @property
    def map_id(self) -> str:
        """The current map; empty: none."""
        return self._maps.current

    @property
    def current_episode(self) -> str:
        """Name of the open episode; empty: none is."""
        return self._episode

    def now_ns(self) -> int:
        """Return the highest service time seen, nanoseconds."""
        return self._store.now_ns()

    def side_write(self, within: Callable[[sa.Connection], None], *, durable: bool = False) -> None:
        """Change side tables, such as statistics, in a transaction that takes no sequence."""
        with self._lock:
            self._refuse_closed()
            self._store.side_write(within, durable=durable)

    def side_read(self, within: Callable[[sa.Connection], T]) -> T:
        """Read side tables, such as the ledger, from one consistent state."""
        self._refuse_closed()
        return self._store.side_read(within)

    def _follow(self, committed: CommitResult | None) -> None:
        if committed is not None:
            self._mirroring.follow(committed)
            self._skills.follow(committed)
            self._listeners.tell(committed.change)

    def _tell_evicted(self, items: Sequence[MemoryItem], at_ns: int) -> None:
        if items:
            ids, keys = tuple(item.id or '' for item in items), tuple(item.key or '' for item in items)
            outcomes = ('EVICT',) * len(items)
            change = Change(self._store.sequence, at_ns, 'evict', ids, keys, outcomes, episode=self._episode)
            self._listeners.tell(change)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError('the memory is closed')
