"""The memory of a robot behind one facade.

Threads: every method may be called from any thread. What changes the memory takes one lock, under which the
store commits, the indexes follow and listeners are called, in that order; queries run beside it and never
see an index older than a write that returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import Change
from hylo_memory_ros.service.core import MemoryCore
from hylo_memory_ros.service.handlers.consolidate import ConsolidationHandler
from hylo_memory_ros.service.handlers.episodes import EpisodeHandler
from hylo_memory_ros.service.handlers.feedback import FeedbackHandler
from hylo_memory_ros.service.handlers.maintenance import MaintenanceHandler, RetentionHandler
from hylo_memory_ros.service.handlers.maps import MapHandler
from hylo_memory_ros.service.handlers.query import QueryHandler
from hylo_memory_ros.service.handlers.receipts import ReceiptHandler
from hylo_memory_ros.service.handlers.remove import RemovalHandler
from hylo_memory_ros.service.handlers.write import WriteHandler
from hylo_memory_ros.service.skills import FOUND, SkillReport
from hylo_memory_ros.service.validation import arguments_of
from hylo_memory_ros.storage import SqliteStore
from hylo_memory_ros.storage.unit_of_work import ReadView, UnnumberedUnitOfWork

H = TypeVar('H')
R = TypeVar('R')
P = ParamSpec('P')


def _delegate(
    part: str, method: Callable[Concatenate[H, P], R]
) -> Callable[Concatenate[MemoryService, P], R]:
    """Return a method of the facade that calls a handler, with its signature and docstring."""
    expected = arguments_of(method)
    by_name = {one.name: one for one in expected}

    @wraps(method)
    def call(memory: MemoryService, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # Python itself refuses an argument too many, and a name that is not known.
        given = [*zip(expected, args, strict=False)]
        given += [(by_name[name], kwargs[name]) for name in kwargs if name in by_name]
        for argument, value in given:
            # The class first: a query and a flag, the arguments of most calls, need no closer look.
            if type(value) not in argument.types or argument.elements:
                argument.check(value)
        return method(getattr(memory, part), *args, **kwargs)

    return call


class MemoryService:
    """A memory that is written, queried and forgotten through one facade.

    Made by `open`. Every refusal is a subclass of `HyloMemoryError`, and leaves all as it was.

    Examples
    --------
    >>> from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
    >>> with MemoryService.open() as memory:
    ...     mug = MemoryItem(kind='spatial', key='mug', content='red mug',
    ...                      pose=Pose(frame_id='map', position=(1.0, 2.0, 0.8)))
    ...     event = memory.write([mug]).events[0].event
    ...     hits = memory.query(MemoryQuery(near=(Pose(frame_id='map', position=(1.0, 2.0, 1.0)), 0.5)))
    ...     event, hits[0].item.content, memory.forget(MemoryQuery(key='mug'))
    ('ADD', 'red mug', 1)
    """

    def __init__(self, core: MemoryCore) -> None:
        self._core = core
        self._writes = WriteHandler(core)
        self._queries = QueryHandler(core)
        self._receipts = ReceiptHandler(core)
        self._removals = RemovalHandler(core)
        self._episodes = EpisodeHandler(core)
        self._feedback = FeedbackHandler(core)
        self._maps = MapHandler(core)
        self._consolidation = ConsolidationHandler(core)
        self._retention = RetentionHandler(core, self._consolidation)
        self._maintenance = MaintenanceHandler(core, self._episodes)

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        clock: Callable[[], int] | None = None,
        config: MemoryConfig | None = None,
        map_id: str = '',
        background: bool = False,
        read_only: bool = False,
    ) -> MemoryService:
        """Open a memory, or create a new one.

        Parameters
        ----------
        url : str, optional
            ``sqlite:////absolute/path.db``; none: in memory.
        clock : callable, optional
            The service clock, integer nanoseconds; the wall clock unless given.
        config : MemoryConfig, optional
            Limits and tolerances.
        map_id : str
            The current map; empty: none.
        background : bool
            Load the spatial index in a thread; queries with a place raise `LoadingError` until `ready`.
        read_only : bool
            Read a file that another process may be writing.

        Raises
        ------
        StoreError
            The file is in use, damaged, of a newer version, or cannot be written.
        ClockError
            The last record of the file lies far ahead of the clock.
        """
        config = config or MemoryConfig()
        store = SqliteStore(url, config, clock or time.time_ns, read_only=read_only)
        core: MemoryCore | None = None
        try:
            core = MemoryCore(store, config, map_id, background=background, read_only=read_only)
            memory = cls(core)
            if not read_only:
                memory.set_map(map_id)
                core.skills.reconcile(lambda item: memory.write([item], actor=FOUND))
            memory._episodes.resume()
        except BaseException:
            if core is not None:
                core.close()
            store.close()
            raise
        return memory

    write = _delegate('_writes', WriteHandler.write)

    query = _delegate('_queries', QueryHandler.query)
    render = _delegate('_queries', QueryHandler.render)
    history = _delegate('_queries', QueryHandler.history)
    changes = _delegate('_queries', QueryHandler.changes)
    counts = _delegate('_queries', QueryHandler.counts)
    vector_of = _delegate('_queries', QueryHandler.vector_of)
    skill_transitions = _delegate('_queries', QueryHandler.skill_transitions)
    subscribe_retrievals = _delegate('_queries', QueryHandler.subscribe_retrievals)

    receipt = _delegate('_receipts', ReceiptHandler.receipt)
    replay_receipt = _delegate('_receipts', ReceiptHandler.replay_receipt)
    chain = _delegate('_receipts', ReceiptHandler.chain)
    register = _delegate('_receipts', ReceiptHandler.register)
    may_reuse = staticmethod(ReceiptHandler.may_reuse)

    forget = _delegate('_removals', RemovalHandler.forget)
    end = _delegate('_removals', RemovalHandler.end)
    retract = _delegate('_removals', RemovalHandler.retract)
    purge = _delegate('_removals', RemovalHandler.purge)
    audit = _delegate('_removals', RemovalHandler.audit)

    begin_episode = _delegate('_episodes', EpisodeHandler.begin_episode)
    end_episode = _delegate('_episodes', EpisodeHandler.end_episode)
    episodes = _delegate('_episodes', EpisodeHandler.episodes)
    on_episode_end = _delegate('_episodes', EpisodeHandler.on_episode_end)

    feedback = _delegate('_feedback', FeedbackHandler.feedback)

    set_map = _delegate('_maps', MapHandler.set_map)
    correct_map = _delegate('_maps', MapHandler.correct_map)
    revert_correction = _delegate('_maps', MapHandler.revert_correction)

    consolidate = _delegate('_consolidation', ConsolidationHandler.consolidate)
    revert_consolidation = _delegate('_consolidation', ConsolidationHandler.revert_consolidation)
    consolidations = _delegate('_consolidation', ConsolidationHandler.consolidations)

    fill = _delegate('_retention', RetentionHandler.fill)
    over_limit = _delegate('_retention', RetentionHandler.over_limit)
    retain = _delegate('_retention', RetentionHandler.retain)

    snapshot = _delegate('_maintenance', MaintenanceHandler.snapshot)
    manifest = _delegate('_maintenance', MaintenanceHandler.manifest)
    restore = _delegate('_maintenance', MaintenanceHandler.restore)
    verify = _delegate('_maintenance', MaintenanceHandler.verify)
    verify_mirror = _delegate('_maintenance', MaintenanceHandler.verify_mirror)
    archive_info = _delegate('_maintenance', MaintenanceHandler.archive_info)

    def __enter__(self) -> MemoryService:
        """Return the memory itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the memory: threads ended, write-ahead log emptied, lock released. Safe to repeat."""
        self._core.close()

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call a listener after each commit, in the thread of the writer; return its unsubscription.

        It is also called with evictions from working memory: op ``evict``, ids and keys, at the sequence of
        that moment. They take no sequence, so they are not in the feed (`changes`).
        """
        return self._core.events.subscribe(listener)

    @property
    def config(self) -> MemoryConfig:
        """Limits and tolerances."""
        return self._core.config

    @property
    def path(self) -> Path | None:
        """The file; None: in memory."""
        return self._core.store.path

    @property
    def skill_directory(self) -> Path | None:
        """The directory of skill files; None: there is none."""
        return self._core.skills.path

    @property
    def skill_report(self) -> SkillReport:
        """Findings of the last complete reading of the directory of skill files."""
        return self._core.skills.report

    @property
    def epoch(self) -> str:
        """Name of this history; a restore begins a new one."""
        return self._core.store.epoch

    @property
    def sequence(self) -> int:
        """Number of the newest transaction that every query sees."""
        index, committed = self._core.indexes.spatial, self._core.store.sequence
        # For a moment after its commit, while the index follows, the store is ahead.
        return min(committed, index.sequence) if index.ready else committed

    @property
    def mirror_sequence(self) -> int:
        """Number of the newest transaction that the index holds."""
        return self._core.indexes.spatial.sequence

    @property
    def ready(self) -> bool:
        """True once the index is loaded."""
        return self._core.indexes.spatial.ready

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the index is loaded; False after the timeout."""
        return self._core.indexes.spatial.wait_ready(timeout_s)

    @property
    def map_id(self) -> str:
        """The current map; empty: none."""
        return self._core.maps.current

    @property
    def current_episode(self) -> str:
        """Name of the open episode; empty: none is open."""
        return self._core.episode

    def now_ns(self) -> int:
        """Return the highest service time seen, nanoseconds."""
        return self._core.store.now_ns()

    @contextmanager
    def read(self) -> Iterator[ReadView]:
        """Open a view of one consistent state, for records and statistics beside items."""
        self._core.refuse_closed()
        with self._core.store.read() as view:
            yield view

    @contextmanager
    def begin_unnumbered(self, *, durable: bool = False) -> Iterator[UnnumberedUnitOfWork]:
        """Change statistics or records beside items in a transaction that takes no sequence."""
        with self._core.changing(), self._core.store.begin_unnumbered(durable=durable) as uow:
            yield uow
