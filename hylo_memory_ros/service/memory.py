"""A memory: store, mirror and working memory behind one face.

Threads: every method may be called from any thread. What changes the memory takes one lock,
under which the store commits, the mirror follows and listeners are told, in that order;
what asks runs beside it and never sees a mirror older than a write that returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import EpochChangedError, InvalidRequestError
from hylo_memory_ros.model import (
    Change,
    Changes,
    History,
    MemoryItem,
    MemoryKind,
    VerifyReport,
    WriteEvent,
    WriteResult,
    normal_key,
)
from hylo_memory_ros.retrieval import MAX_SEQUENCE, Cursor
from hylo_memory_ros.service.handlers.episodes import Episodes
from hylo_memory_ros.service.handlers.feedback import Judging
from hylo_memory_ros.service.handlers.maps import Relocating
from hylo_memory_ros.service.handlers.query import Asking
from hylo_memory_ros.service.handlers.remove import Removing
from hylo_memory_ros.service.handlers.retention import Retaining
from hylo_memory_ros.service.known_maps import Maps
from hylo_memory_ros.service.skills import FOUND
from hylo_memory_ros.service.validation import refuse_unsound, sound_name
from hylo_memory_ros.storage import SqliteStore
from hylo_memory_ros.storage.archive.archive import ColdHeld
from hylo_memory_ros.storage.ports import Within
from hylo_memory_ros.storage.statements.writer import check_items, check_stamps, resolved

__all__ = ['MemoryService']


class MemoryService(Asking, Judging, Episodes, Removing, Relocating, Retaining):
    """A memory that is written, asked and forgotten through one face.

    Made by `open`. Every refusal is a subclass of `HyloMemoryError`, and leaves all as it was.

    Examples
    --------
    >>> from hylo_memory_ros.model import MemoryQuery, Pose
    >>> with MemoryService.open() as memory:
    ...     mug = MemoryItem(kind='spatial', key='mug', content='red mug',
    ...                      pose=Pose(frame_id='map', position=(1.0, 2.0, 0.8)))
    ...     event = memory.write([mug]).events[0].event
    ...     hits = memory.query(MemoryQuery(near=(Pose(frame_id='map', position=(1.0, 2.0, 1.0)), 0.5)))
    ...     event, hits[0].item.content, memory.forget(MemoryQuery(key='mug'))
    ('ADD', 'red mug', 1)
    """

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
        """Open a memory, or make a new one.

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
            Load the spatial mirror in a thread; questions with a place raise `LoadingError` until `ready`.
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
        memory: MemoryService | None = None
        try:
            memory = cls(store, config, map_id, background=background, read_only=read_only)
            if not read_only:
                memory.set_map(map_id)
                memory._skills.reconcile(lambda item: memory.write([item], actor=FOUND))
            memory._begin_anew()
        except BaseException:
            if memory is not None:
                memory.close()
            store.close()
            raise
        return memory

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
        self._proving.receipts.close()
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._mirroring.close()
        self._working.clear()
        self._answered.clear()
        self._skills.close()
        self._store.close()

    @property
    def mirror_sequence(self) -> int:
        """Number of the newest transaction that the mirror holds."""
        return self._mirroring.mirror.sequence

    @property
    def ready(self) -> bool:
        """Whether the mirror is loaded."""
        return self._mirroring.mirror.ready

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the mirror is loaded; False after the timeout."""
        return self._mirroring.mirror.wait_ready(timeout_s)

    def set_map(self, map_id: str, *, create: bool = True) -> str:
        """Make a map the current one, and return the one before.

        Raises
        ------
        NotFoundError
            The map is not known, and may not be made.
        InvalidRequestError
            Its name is not sound.
        """
        with self._lock:
            self._refuse_closed()
            return self._maps.switch(map_id, create=create)

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` after each commit, in the writer's thread; the result ends that.

        It is also told what working memory evicts: op ``evict``, ids and keys, at the sequence of then.
        That takes no sequence, so it is not in the feed (`changes`).
        """
        return self._listeners.add(listener)

    def write(
        self,
        items: Sequence[MemoryItem],
        *,
        request_id: str | None = None,
        actor: str = '',
        dry_run: bool = False,
        durable: bool = True,
        within: Within | None = None,
    ) -> WriteResult:
        """Store items in one transaction, all or none, in order.

        Parameters
        ----------
        items : sequence of MemoryItem
            At least one; those with a pose and without ``map_id`` get the current map.
        request_id : str, optional
            A repeated request gets its first answer again.
        actor : str
            For whom.
        dry_run : bool
            Tell what would happen, and store nothing.
        durable : bool
            Whether the commit must survive a power cut, or only a killed process.
        within : callable, optional
            Stores side tables in the same transaction; given its connection and sequence.

        Raises
        ------
        InvalidRequestError, ClockError, IdConflictError, StoreError
            Nothing of the call is stored.
        """
        if not items:
            raise InvalidRequestError('items: there is none to write')
        refuse_unsound(sound_name, request_id=request_id, actor=actor)
        ready = [self._maps.placed(item) for item in self._spaces.embedded(items)]
        now_ns = self._store.now_ns()
        ready = [resolved(item, now_ns) if item.kind is MemoryKind.WORKING else item for item in ready]
        durables = [item for item in ready if item.kind is not MemoryKind.WORKING]
        working = [item for item in ready if item.kind is MemoryKind.WORKING]
        self._working.check(ready)
        check_items(working, self.config)
        check_stamps(working, self.config)
        with self._lock:
            self._refuse_closed()
            if (known := self._answered.get(request_id, len(ready))) is not None:
                return known
            durables = self._skills.judged(durables, actor)
            self._mirroring.vectors.check_items(durables)
            if not dry_run:
                self._maps.remember(item.scope.get('map_id', '') for item in durables)
            events: Sequence[WriteEvent] = ()
            sequence = self._store.sequence
            if durables or within is not None:
                with self._skills.staged(durables, dry_run=dry_run) as publish_files:
                    result, committed = self._store.write(
                        durables,
                        request_id=request_id,
                        actor=actor,
                        dry_run=dry_run,
                        durable=durable,
                        within=within,
                    )
                    if committed is not None:
                        publish_files()
                self._follow(committed)
                events, sequence = result.events, result.sequence
            if len(events) != len(durables):
                raise InvalidRequestError(f'request_id: {request_id!r} was answered before, for another call')
            told, evicted = self._working.write(
                working, self._store.sequence, now_ns, episode=self._episode, dry_run=dry_run
            )
            self._tell_evicted(evicted, now_ns)
            kept, stored = iter(told), iter(events)
            in_order = (next(kept if item.kind is MemoryKind.WORKING else stored) for item in ready)
            result = WriteResult(tuple(in_order), sequence)
            if working and not dry_run:
                self._answered.keep(request_id, result)
            return result

    def history(
        self,
        id: str | None = None,
        *,
        kind: str | None = None,
        key: str | None = None,
        map_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> History:
        """Return the versions of an id, or of an identity, in the order of belief.

        Raises
        ------
        InvalidRequestError
            Neither an id nor a key is given, or both are.
        """
        self._refuse_closed()
        if (id is None) == (key is None):
            raise InvalidRequestError(
                'history: give an id, or a key (with kind and map_id where keys repeat)'
            )
        if limit < 1:
            raise InvalidRequestError(f'history: limit {limit} is below 1')
        item_id, key, map_id = refuse_unsound(normal_key, id=id, key=key, map_id=map_id or None)
        if kind is not None and kind not in set(MemoryKind):
            raise InvalidRequestError(f'kind: {kind!r} is none of {", ".join(MemoryKind)}', field='kind')
        limit = min(limit, MAX_SEQUENCE)
        question = f'history {item_id!r} {kind!r} {key!r} {map_id!r}'
        offset = Cursor.decoded(cursor, self.epoch, question).offset if cursor else 0
        versions = self._store.history(
            item_id=item_id, kind=kind, key=key, map_id=map_id, limit=limit + 1, offset=offset
        )
        following = None
        if len(versions) > limit:
            following = Cursor(self.epoch, question, offset + limit).encoded()
        return History(tuple(versions[:limit]), following)

    def changes(self, after: tuple[str, int] | None = None, limit: int = 1000) -> Changes:
        """Return the feed of transactions after a position (epoch, sequence), without a gap.

        Raises
        ------
        EpochChangedError
            The position belongs to another history; begin again.
        """
        self._refuse_closed()
        epoch, sequence = after if after is not None else (self.epoch, 0)
        if epoch != self.epoch:
            raise EpochChangedError(f'epoch: {epoch!r} is another history than {self.epoch!r}; begin again')
        if sequence < 0 or limit < 1:
            raise InvalidRequestError(f'changes: sequence {sequence} and limit {limit} must be >= 0 and >= 1')
        return self._store.changes(min(sequence, MAX_SEQUENCE), min(limit, MAX_SEQUENCE))

    def snapshot(self, copy_path: str | None = None) -> str:
        """Return the hash of what is open; with a path, also copy the memory there.

        Raises
        ------
        StoreError
            The copy exists, or cannot be written.
        """
        with self._lock:
            self._refuse_closed()
            if copy_path:
                self._store.copy(Path(copy_path))
            return self._store.digest()

    def manifest(self) -> dict[str, Any]:
        """Return the snapshot hash with sequence, epoch, counts, versions and completeness."""
        self._refuse_closed()
        return self._store.manifest()

    def restore(self, path: str) -> None:
        """Verify a copy, put it in the place of this memory, and begin a new epoch.

        The file before is kept beside it, with ``.before-restore-`` and the time in its name.

        Raises
        ------
        InvalidRequestError
            An episode is open.
        StoreError
            The copy is not sound; nothing is changed.
        """
        with self._lock:
            self._refuse_closed()
            if self._episode:
                raise InvalidRequestError(
                    f'restore: the episode {self._episode!r} is open: end it first', field='path'
                )
            self._proving.receipts.flush()
            try:
                committed = self._store.restore(Path(path), self._skills.match_copy)
            except BaseException:
                self._skills.mend()
                raise
            self._proving.receipts.recount()
            self._working.clear()
            self._answered.clear()
            self._maps = Maps(self._store, self._maps.current)
            self._mirroring.reload()
            self._skills.restored()
            self._listeners.tell(committed.change)
            self._begin_anew()

    def verify(self) -> VerifyReport:
        """Recompute every timeline and hash, and hold the mirror and the skill files against the store.

        Writes and questions go on meanwhile.
        """
        self._refuse_closed()
        report = self._store.verify()
        return replace(report, problems=report.problems + self.verify_mirror() + self._skills.problems())

    def verify_mirror(self) -> tuple[str, ...]:
        """Hold the mirror against the store, row by row; a difference is logged and mended.

        Raises
        ------
        LoadingError
            The mirror is being loaded.
        """
        with self._lock:
            self._refuse_closed()
            sequence = self._store.sequence
        return self._mirroring.check(sequence)

    def cold_storage(self) -> ColdHeld | None:
        """Return the cold file, its size and what it holds; None: there never was anything in it."""
        self._refuse_closed()
        return self._store.cold_held()

    def counts(self) -> dict[str, int]:
        """Return the number of open versions by kind, and of items in working memory."""
        self._refuse_closed()
        return {**self._store.counts(), MemoryKind.WORKING.value: len(self._working)}
