"""A memory: store, mirror and working memory behind one face.

Threads: every method may be called from any thread. What changes the memory takes one lock,
under which the store commits, the mirror follows and listeners are told, in that order;
what asks runs beside it and never sees a mirror older than a write that returned.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import EpochChangedError, InvalidRequestError, StoreError
from hylo_memory_ros.identity import (
    CachedPrefix,
    CompressionArtifactIdentity,
    LayerDigest,
    Reuse,
    TokenKvIdentity,
    may_reuse,
)
from hylo_memory_ros.landmarks.settings import LandmarkSettings
from hylo_memory_ros.model import (
    MAX_STAMP_NS,
    Change,
    Changes,
    CorrectionResult,
    History,
    MemoryItem,
    MemoryKind,
    MemoryQuery,
    QueryResult,
    Removal,
    VerifyReport,
    WriteEvent,
    WriteResult,
    normal_key,
    sound_text,
)
from hylo_memory_ros.retrieval import MAX_SEQUENCE, Cursor, Question, Retriever
from hylo_memory_ros.retrieval.chain import Chain
from hylo_memory_ros.retrieval.receipt import Replay
from hylo_memory_ros.retrieval.rendering import Rendering
from hylo_memory_ros.retrieval.tokens import TokenCounter
from hylo_memory_ros.service.correcting import Moving, Plan, corrected, reverted
from hylo_memory_ros.service.listeners import Listeners
from hylo_memory_ros.service.maps import Maps
from hylo_memory_ros.service.mirroring import Mirroring
from hylo_memory_ros.service.proving import Proving
from hylo_memory_ros.service.spaces import SpacesInUse
from hylo_memory_ros.store import Committed, SqliteStore, Store, WorkingMemory
from hylo_memory_ros.store.asking import World
from hylo_memory_ros.store.ending import Ending
from hylo_memory_ros.store.port import Within
from hylo_memory_ros.store.writing import check_items, check_stamps, resolved

__all__ = ['MemoryService']

logger = logging.getLogger(__name__)
T = TypeVar('T')

# What a removal refuses: it changes what is believed now, and takes everything that matches.
_BELIEVED_NOW = ('known_at', 'known_seq', 'cursor', 'min_score')
_ACTS_NOW = ('as_of', *_BELIEVED_NOW)


class MemoryService:
    """A memory that is written, asked and forgotten through one face.

    Made by `open`. Every refusal is a subclass of `HyloMemoryError`, and leaves all as it was.

    Examples
    --------
    >>> from hylo_memory_ros.model import Pose
    >>> with MemoryService.open() as memory:
    ...     mug = MemoryItem(kind='spatial', key='mug', content='red mug',
    ...                      pose=Pose(frame_id='map', position=(1.0, 2.0, 0.8)))
    ...     event = memory.write([mug]).events[0].event
    ...     hits = memory.query(MemoryQuery(near=(Pose(frame_id='map', position=(1.0, 2.0, 1.0)), 0.5)))
    ...     event, hits[0].item.content, memory.forget(MemoryQuery(key='mug'))
    ('ADD', 'red mug', 1)
    """

    def __init__(
        self, store: Store, config: MemoryConfig, map_id: str, *, background: bool, read_only: bool = False
    ) -> None:
        self.config = config
        self._store = store
        self._maps = Maps(store, map_id)
        self._lock = threading.RLock()
        self._listeners = Listeners()
        self._working = WorkingMemory(config.working_capacity, config.identity_scope, config.clock)
        self._spaces = SpacesInUse(store, config.embedding_spaces, read_only=read_only)
        self._mirroring = Mirroring(
            store, background=background, spaces=self._spaces.spaces, read_only=read_only
        )
        self._closed = False
        self._retriever = self._retriever_in(None)
        self._proving = Proving(
            store,
            config,
            self._retriever,
            self._retriever_in,
            lambda: self._maps.current,
            self.side_write,
            read_only=read_only,
        )

    def _retriever_in(self, map_id: str | None) -> Retriever:
        """Return what answers questions in a map; None: in the current one."""
        return Retriever(
            self._store,
            self._mirroring.mirror,
            self._working,
            self.config,
            lambda: self._maps.current if map_id is None else map_id,
            self._mirroring.vectors,
        )

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
        try:
            memory = cls(store, config, map_id, background=background, read_only=read_only)
            if not read_only:
                memory.set_map(map_id)
        except BaseException:
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
        self._store.close()

    @property
    def path(self) -> Path | None:
        """The file; None: in memory."""
        return self._store.path

    @property
    def epoch(self) -> str:
        """Name of this history; a restore begins a new one."""
        return self._store.epoch

    @property
    def sequence(self) -> int:
        """Number of the newest transaction."""
        return self._store.sequence

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

    def now_ns(self) -> int:
        """Return the highest service time seen, nanoseconds."""
        return self._store.now_ns()

    @property
    def map_id(self) -> str:
        """The current map; empty: none."""
        return self._maps.current

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
        """Call `listener` after each commit, in the writer's thread; the result ends that."""
        return self._listeners.add(listener)

    def _follow(self, committed: Committed | None) -> None:
        if committed is not None:
            self._mirroring.follow(committed)
            self._listeners.tell(committed.change)

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
        _refuse_unsound(sound_text, request_id=request_id, actor=actor)
        ready = [self._maps.placed(item) for item in self._spaces.embedded(items)]
        durables = [item for item in ready if item.kind is not MemoryKind.WORKING]
        now_ns = self._store.now_ns()
        working = [resolved(item, now_ns) for item in ready if item.kind is MemoryKind.WORKING]
        check_items(working, self.config)
        check_stamps(working, self.config)
        with self._lock:
            self._refuse_closed()
            self._mirroring.vectors.check_items(durables)
            if not dry_run:
                self._maps.remember(item.scope.get('map_id', '') for item in durables)
            events: Sequence[WriteEvent] = ()
            sequence = self._store.sequence
            if durables or within is not None:
                result, committed = self._store.write(
                    durables,
                    request_id=request_id,
                    actor=actor,
                    dry_run=dry_run,
                    durable=durable,
                    within=within,
                )
                self._follow(committed)
                events, sequence = result.events, result.sequence
            if len(events) != len(durables):
                raise InvalidRequestError(f'request_id: {request_id!r} was answered before, for another call')
            kept = iter([self._working.write(item, dry_run=dry_run) for item in working])
            stored = iter(events)
            in_order = (next(kept if item.kind is MemoryKind.WORKING else stored) for item in ready)
            return WriteResult(tuple(in_order), sequence)

    def side_write(self, within: Callable[[sa.Connection], None], *, durable: bool = False) -> None:
        """Change side tables, such as statistics, in a transaction that takes no sequence."""
        with self._lock:
            self._refuse_closed()
            self._store.side_write(within, durable=durable)

    def side_read(self, within: Callable[[sa.Connection], T]) -> T:
        """Read side tables, such as the ledger, from one consistent state."""
        self._refuse_closed()
        return self._store.side_read(within)

    def query(self, query: MemoryQuery, *, receipt: bool = False) -> QueryResult:
        """Return the hits of a query, best first, and why others are not among them.

        Parameters
        ----------
        query : MemoryQuery
            The question.
        receipt : bool
            Keep its evidence, to be read by `receipt` under ``receipt_id`` of the result.

        Raises
        ------
        LoadingError
            A question with a place, while the mirror is being loaded.
        InvalidRequestError, EpochChangedError, StoreError
            The question cannot be answered.
        """
        self._refuse_closed()
        return self._proving.query(query, receipt)

    def render(
        self,
        query: MemoryQuery,
        max_tokens: int | None = None,
        *,
        renderer: str = '',
        counter: TokenCounter | str | None = None,
        receipt: bool = False,
    ) -> Rendering:
        """Return the hits of a query as the memory prelude of a prompt.

        Unchanged memory gives unchanged bytes; a changed item changes its own segment only.

        Parameters
        ----------
        query : MemoryQuery
            The question; at most ``k`` hits are rendered.
        max_tokens : int, optional
            Most tokens of the text; hits that do not fit are left out whole, and the text says how many.
        renderer : str
            Renderer, ``name@version``; empty: that of the configuration.
        counter : callable or str, optional
            Counts tokens of a text; none: that of the configuration.
        receipt : bool
            Keep the evidence of the retrieval and the identities of the segments.

        Raises
        ------
        InvalidRequestError
            Not even an empty prelude fits, or there is no such renderer or counter; or as `query`.
        """
        self._refuse_closed()
        return self._proving.render(query, max_tokens, renderer, counter, receipt)

    def receipt(self, receipt_id: str) -> dict[str, Any]:
        """Return the recorded evidence of a retrieval or an association, as a JSON object.

        Raises
        ------
        NotFoundError
            There is none of this id, or no longer.
        """
        self._refuse_closed()
        return self._proving.receipts.get(receipt_id)

    def replay_receipt(self, receipt_id: str) -> Replay:
        """Ask the question of a receipt again, of the state it was answered from, and compare the ids.

        Raises
        ------
        NotFoundError
            There is no such receipt.
        InvalidRequestError
            It is of an association, or its query was purged.
        """
        self._refuse_closed()
        return self._proving.replay(receipt_id)

    def chain(self, receipt_id: str) -> Chain:
        """Return the identities behind one answer, from its records to what was made of it.

        Raises
        ------
        NotFoundError
            There is no receipt of a retrieval with this id.
        """
        self._refuse_closed()
        return self._proving.chain(receipt_id)

    def register(
        self, receipt_id: str, identity: TokenKvIdentity | CompressionArtifactIdentity
    ) -> LayerDigest:
        """Record tokens in a cache, or compressed bytes, that were made of the answer of a receipt.

        Raises
        ------
        NotFoundError
            There is no such receipt.
        InvalidRequestError
            What it was made of is no link of the chain of this answer.
        """
        self._refuse_closed()
        return self._proving.register(receipt_id, identity)

    @staticmethod
    def may_reuse(have: CachedPrefix | TokenKvIdentity, want: CachedPrefix | TokenKvIdentity) -> Reuse:
        """Tell whether a kept prompt cache may be used for what is wanted, with each difference.

        Raises
        ------
        InvalidRequestError
            Anything but exact identities is given: similarity is no evidence.
        """
        return may_reuse(have, want)

    def subscribe_retrievals(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Tell a listener of each retrieval soon after it, as of an event; the result ends that.

        Its ``sequence`` is the one that was read: a retrieval takes none and is not in the feed.
        """
        return self._proving.subscribe(listener)

    def vector_of(self, space: str, text: str) -> tuple[float, ...]:
        """Return the vector of a text in a space that has an embedder, to ask with.

        Raises
        ------
        InvalidRequestError
            The space has no embedder, or the embedder failed.
        """
        self._refuse_closed()
        return self._spaces.vectors_of(space, [text])[0]

    def forget(
        self, query: MemoryQuery, *, reason: str = '', actor: str = '', dry_run: bool = False
    ) -> Removal:
        """End what matches, now or scheduled, at the service time; `MemoryQuery.k` is ignored.

        Returns
        -------
        Removal
            The exact count, with ids and sequence.

        Raises
        ------
        InvalidRequestError
            The query has no filter, or asks about another time.
        """
        with self._lock:
            _refuse_unsound(sound_text, reason=reason, actor=actor)
            question, among = self._removable('forget', query, _ACTS_NOW)
            asked = question.sql(world='unended', at_ns=self._store.now_ns())
            removal, committed = self._store.forget(asked, among, reason=reason, actor=actor, dry_run=dry_run)
            self._follow(committed)
            return self._with_working(removal, question, dry_run)

    def end(
        self,
        keys: Sequence[str],
        at_ns: int | Sequence[int],
        *,
        kind: MemoryKind = MemoryKind.SPATIAL,
        map_id: str | None = None,
        reason: str = '',
        merged_into: str = '',
        actor: str = '',
        dry_run: bool = False,
        durable: bool = True,
    ) -> Removal:
        """End what holds under each key at a stated world time: a forget that says itself when.

        Parameters
        ----------
        keys : sequence of str
            Each at most once.
        at_ns : int or sequence of int
            World time, nanoseconds, for all keys or for each: what was said from before holds up to
            here, and what was said from a later time stays, whichever came first.
        kind : MemoryKind
            A durable kind.
        map_id : str, optional
            Their map; None: the current one.
        merged_into : str
            Key of the thing that they prove to be, which the feed tells as a merge; empty: they ended.
        durable : bool
            As in `write`.

        Returns
        -------
        Removal
            The exact count, with ids and sequence.

        Raises
        ------
        InvalidRequestError
            A key, kind or time is not sound, or a key is given twice.

        Examples
        --------
        >>> with MemoryService.open() as memory:
        ...     _ = memory.write([MemoryItem(kind='spatial', key='cup', content='cup', valid_from=1)])
        ...     ended = memory.end(['cup'], 3 * 10**9)
        ...     ended, [len(memory.query(MemoryQuery(key='cup', as_of=t))) for t in (2, 4)]
        (1, [1, 0])
        """
        _refuse_unsound(sound_text, reason=reason, actor=actor)
        (sound_map,) = _refuse_unsound(normal_key, map_id=map_id or None)
        if map_id is None:
            sound_map = self.map_id
        stamps = list(at_ns) if isinstance(at_ns, Sequence) else [at_ns] * len(keys)
        if len(stamps) != len(keys):
            raise InvalidRequestError(f'at_ns: {len(stamps)} times for {len(keys)} keys', field='at_ns')
        endings = [
            Ending(
                _sound(normal_key, key, f'keys[{index}]'),
                _sound_stamp(stamp),
                sound_map or '',
                reason,
                merged_into,
            )
            for index, (key, stamp) in enumerate(zip(keys, stamps, strict=True))
        ]
        if len({ending.key for ending in endings}) < len(endings):
            raise InvalidRequestError(f'keys: one is given twice in {list(keys)}', field='keys')
        if kind not in set(MemoryKind) - {MemoryKind.WORKING}:
            raise InvalidRequestError(f'kind: {kind!r} has no timeline that could end', field='kind')
        with self._lock:
            self._refuse_closed()
            removal, committed = self._store.end(
                endings,
                kind=MemoryKind(kind).value,
                reason=reason,
                actor=actor,
                dry_run=dry_run,
                durable=durable,
            )
            self._follow(committed)
            return removal

    def retract(
        self, query: MemoryQuery, *, reason: str = '', actor: str = '', dry_run: bool = False
    ) -> Removal:
        """Withdraw the versions that the query answers: they were never true.

        A query by ids finds them whenever they held; any other what holds at its time, or
        every version with ``include_invalidated``.

        Raises
        ------
        InvalidRequestError
            The query has no filter, or asks about another belief than that of now.
        """
        with self._lock:
            _refuse_unsound(sound_text, reason=reason, actor=actor)
            question, among = self._removable('retract', query, _BELIEVED_NOW)
            world: World = 'any' if query.ids or query.include_invalidated else 'at'
            removal, committed = self._store.retract(
                question.sql(world=world), among, reason=reason, actor=actor, dry_run=dry_run
            )
            self._follow(committed)
            return self._with_working(removal, question, dry_run, question.at_ns if world == 'at' else None)

    def purge(
        self, query: MemoryQuery, *, reason: str = '', actor: str = '', dry_run: bool = False
    ) -> Removal:
        """Delete for good every identity of which any version, believed or not, matches.

        The one exception to "what was believed stays answerable": content, ids and words
        leave the file and its log. A place finds what is believed now.

        Raises
        ------
        InvalidRequestError
            The query has no filter, or asks about another time.
        """
        with self._lock:
            _refuse_unsound(sound_text, reason=reason, actor=actor)
            question, among = self._removable('purge', query, _ACTS_NOW)
            self._proving.receipts.flush()
            removal, committed = self._store.purge(
                question.among(), among, reason=reason, actor=actor, dry_run=dry_run
            )
            if committed is not None:
                self._proving.receipts.purged_at = committed.change.sequence
            self._spaces.forget_texts()
            self._follow(committed)
            return self._with_working(removal, question, dry_run)

    def correct_map(
        self,
        correction: Moving,
        *,
        map_id: str | None = None,
        landmarks: LandmarkSettings | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Move all that is remembered in a map: what is believed changes, not what was true when.

        Every version keeps its id and its interval, closed ones too, and gets another pose; what
        was believed before stays answerable. Landmarks are made again from their sightings, and
        those that prove to be one, or several, become that. A `LandmarkPipeline` that runs on this
        memory must be told: use its own method.

        Parameters
        ----------
        correction : RigidCorrection or Trajectory
            ``new_from_old``, or where the robot really was; where it was thought to be is stored.
        map_id : str, optional
            None: the current map; empty: what was written without one.
        landmarks : LandmarkSettings, optional
            Gates, and the global frame: only poses in it move. None: the defaults.

        Raises
        ------
        NotFoundError
            The map is not known.
        InvalidRequestError
            The path is not of the time of the stored trajectory, or something would be moved
            beyond all coordinates.

        Examples
        --------
        >>> from hylo_memory_ros.frames import Transform
        >>> from hylo_memory_ros.landmarks import RigidCorrection
        >>> from hylo_memory_ros.model import Pose
        >>> with MemoryService.open(map_id='hall') as memory:
        ...     mug = MemoryItem(kind='spatial', key='mug', content='mug',
        ...                      pose=Pose(frame_id='map', position=(1.0, 2.0, 0.8)))
        ...     _ = memory.write([mug])
        ...     done = memory.correct_map(RigidCorrection(Transform((0.5, 0.0, 0.0))))
        ...     there = memory.query(MemoryQuery(key='mug'))[0].item.pose.position
        ...     before = memory.query(MemoryQuery(key='mug', known_seq=1))[0].item.pose.position
        ...     _ = memory.revert_correction(done.correction_id)
        ...     done.moved, there, before, memory.query(MemoryQuery(key='mug'))[0].item.pose.position
        (1, (1.5, 2.0, 0.8), (1.0, 2.0, 0.8), (1.0, 2.0, 0.8))
        """
        _refuse_unsound(sound_text, actor=actor)
        map_id = self._known_map(map_id)
        settings = landmarks or LandmarkSettings()
        return self._correct(corrected(map_id, correction, settings), actor, dry_run)

    def revert_correction(
        self,
        correction_id: str,
        *,
        landmarks: LandmarkSettings | None = None,
        actor: str = '',
        dry_run: bool = False,
    ) -> CorrectionResult:
        """Put back the coordinates that a correction replaced, bit for bit.

        What was moved again since stays where that put it; `CorrectionResult.remark` tells.

        Parameters
        ----------
        landmarks : LandmarkSettings, optional
            As for `correct_map`.

        Raises
        ------
        NotFoundError
            No correction has this name.
        InvalidRequestError
            It is a reversal, or was taken back before.
        """
        _refuse_unsound(sound_text, actor=actor)
        settings = landmarks or LandmarkSettings()
        return self._correct(reverted(correction_id, settings), actor, dry_run)

    def _known_map(self, map_id: str | None) -> str:
        if map_id is None:
            return self.map_id
        self._maps.refuse_unknown(map_id)
        return map_id

    def _correct(self, plan: Callable[[sa.Connection], Plan], actor: str, dry_run: bool) -> CorrectionResult:
        with self._lock:
            self._refuse_closed()
            moved, committed = self._store.correct(plan, actor=actor, dry_run=dry_run)
            self._follow(committed)
        sequence = 0 if committed is None else committed.change.sequence
        return CorrectionResult(
            moved.correction_id, moved.moved, moved.merged, moved.split, sequence, moved.remark
        )

    def _removable(
        self, op: str, query: MemoryQuery, meaningless: Sequence[str]
    ) -> tuple[Question, list[int] | None]:
        self._refuse_closed()
        if not query.has_filter:
            raise InvalidRequestError(f'{op}: a query without any filter would take everything')
        for name in meaningless:
            if getattr(query, name) is not None:
                raise InvalidRequestError(
                    f'{op}: {name} has no meaning, it acts now, on everything that matches'
                )
        if query.embedding is not None:
            raise InvalidRequestError(f'{op}: embedding: similarity never decides what is taken away')
        question = self._retriever.question(query)
        return question, self._retriever.version_rows(question)

    def _with_working(
        self, removal: Removal, question: Question, dry_run: bool, at_ns: int | None = None
    ) -> Removal:
        """Take from working memory what a removal took from the store, and count it."""
        kinds = question.query.kinds
        if kinds is not None and MemoryKind.WORKING not in kinds:
            return removal
        gone = self._working.forget(question.query, question.map_id, at_ns, dry_run=dry_run)
        return Removal(removal + len(gone), (*removal.ids, *gone), removal.sequence, removal.unreached)

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
        item_id, key, map_id = _refuse_unsound(normal_key, id=id, key=key, map_id=map_id or None)
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
        StoreError
            The copy is not sound; nothing is changed.
        """
        with self._lock:
            self._refuse_closed()
            self._proving.receipts.flush()
            committed = self._store.restore(Path(path))
            self._proving.receipts.recount()
            self._working.clear()
            self._maps = Maps(self._store, self._maps.current)
            self._mirroring.reload()
            self._listeners.tell(committed.change)

    def verify(self) -> VerifyReport:
        """Recompute every timeline and hash, and hold the mirror against the store.

        Writes and questions go on meanwhile.
        """
        self._refuse_closed()
        report = self._store.verify()
        return replace(report, problems=report.problems + self.verify_mirror())

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

    def counts(self) -> dict[str, int]:
        """Return the number of open versions by kind, and of items in working memory."""
        self._refuse_closed()
        return {**self._store.counts(), MemoryKind.WORKING.value: len(self._working)}

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreError('the memory is closed')


def _refuse_unsound(normal: Callable[[str, str], str], **texts: str | None) -> list[str | None]:
    """Return texts in their stored form, by a validator of the model."""
    return [text if text is None else _sound(normal, text, field) for field, text in texts.items()]


def _sound_stamp(at_ns: int) -> int:
    if not 0 <= at_ns <= MAX_STAMP_NS:
        raise InvalidRequestError(f'at_ns: {at_ns} is not a time from 0 to {MAX_STAMP_NS} ns', field='at_ns')
    return int(at_ns)


def _sound(normal: Callable[[str, str], str], text: str, field: str) -> str:
    try:
        return normal(text, field)
    except ValueError as exc:
        raise InvalidRequestError(str(exc), field=field) from exc
