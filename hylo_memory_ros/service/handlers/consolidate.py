"""Consolidation handler: start, revert and list consolidations.

Threads: a consolidation holds the lock only for each of its slices, so that others write between them, and
gives way to questions. There is one at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from typing import Any

from hylo_memory_ros.domain.consolidation import Composer, load_summarizer
from hylo_memory_ros.errors import EpochChangedError, InvalidRequestError, ReadOnlyError, StoreBusyError
from hylo_memory_ros.model import (
    Budget,
    ConsolidationReport,
    MemoryItem,
    MemoryKind,
    Reversion,
    normalize_key,
)
from hylo_memory_ros.service.consolidation.run import ConsolidationRequest, ConsolidationRun
from hylo_memory_ros.service.core import BackgroundThrottle, MemoryCore
from hylo_memory_ros.service.validation import validate_field, validate_names
from hylo_memory_ros.storage import CommitResult, SqliteStore
from hylo_memory_ros.storage.consolidation.repository import (
    ConsolidationRecord,
    ConsolidationRepository,
    SummaryGroup,
    name_of,
)


class ConsolidationReversal:
    """The reversal of one consolidation.

    Parameters
    ----------
    store : SqliteStore
    record : ConsolidationRecord
        The consolidation to revert.
    changing, follow, throttle
        As for a `ConsolidationRun`.
    actor : str
        Author of the request.
    """

    def __init__(
        self,
        store: SqliteStore,
        record: ConsolidationRecord,
        changing: Callable[[], AbstractContextManager[Any]],
        follow: Callable[[CommitResult | None], None],
        throttle: BackgroundThrottle,
        actor: str,
    ) -> None:
        self._store = store
        self._record = record
        self._changing = changing
        self._follow = follow
        self._throttle = throttle
        self._actor = actor

    def execute(self) -> Reversion:
        """Revert it; see `ConsolidationHandler.revert_consolidation`."""
        with self._store.read() as view:
            left = self._groups_left(view.consolidations)
        kept: dict[str, str] = {}
        restored: list[str] = []
        withdrawn: list[str] = []
        beneath: set[int] = set()
        for _, groups in groupby(reversed(left), key=lambda group: group.sequence):
            with self._changing():
                with self._store.begin('revert', actor=self._actor) as uow:
                    uow.consolidations.mark_reverted(self._record.number, uow.recorded_at_ns)
                    back = uow.consolidations.revert(list(groups), beneath)
                self._follow(uow.result)
            restored += back.restored
            withdrawn += back.withdrawn
            kept |= back.kept
            beneath.update(back.beneath)
            self._throttle.give_way()
        # A summary of which another one was made holds again, and goes next.
        gone = set(withdrawn)
        return Reversion(
            self._record.name,
            tuple(item_id for item_id in restored if item_id not in gone),
            tuple(withdrawn),
            kept,
            self._store.reader.digest(),
            self._store.sequence,
        )

    def _groups_left(self, consolidations: ConsolidationRepository) -> list[SummaryGroup]:
        """Return the groups that no reversal has reverted yet, an interrupted one included.

        Raises
        ------
        InvalidRequestError
            It was reverted before, or one of its summaries was consolidated again.
        """
        left = [group for group in consolidations.groups(self._record.number) if not group.reverted]
        if self._record.reverted_ns is not None and not left:
            raise InvalidRequestError(
                f'consolidation_id: {self._record.name!r} was reverted before', field='consolidation_id'
            )
        self._refuse_replaced(consolidations, left)
        return left

    def _refuse_replaced(
        self, consolidations: ConsolidationRepository, groups: Sequence[SummaryGroup]
    ) -> None:
        standing = consolidations.replacements([group.summary for group in groups])
        others = {number for those in standing.values() for number, _ in those} - {self._record.number}
        if again := sorted(others):
            names = ', '.join(map(name_of, again))
            raise InvalidRequestError(
                f'consolidation_id: what {self._record.name!r} made was consolidated again by {names}: '
                'revert that first',
                field='consolidation_id',
                again=list(map(name_of, again)),
            )


_DURABLE = tuple(kind.value for kind in MemoryKind if kind is not MemoryKind.WORKING)


class ConsolidationHandler:
    """Brings a memory within a budget, and reverts that.

    Parameters
    ----------
    core : MemoryCore
        State of the memory.

    Raises
    ------
    ConfigurationError
        The configuration names an unknown summarizer.
    """

    def __init__(self, core: MemoryCore) -> None:
        self._core = core
        self._summarizer = load_summarizer(core.config.consolidation.summarizer)
        self._running = threading.Lock()

    def consolidate(
        self,
        scope: Mapping[str, str] | None = None,
        budget: Budget | None = None,
        *,
        kinds: Collection[MemoryKind] | None = None,
        dry_run: bool = False,
        on_progress: Callable[[float, str], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        actor: str = '',
    ) -> ConsolidationReport:
        """Bring what is at hand within a budget, in slices between which others write and ask.

        Only as much as is needed is done, in this order, each oldest first: what has ended or is no longer
        believed goes into the archive, which changes no answer; near duplicates among EPISODIC items
        become one; then what is left of an episode, else of a day and scope, becomes summaries; then what
        these have become, level by level, and of more and more days, until the budget is met or nothing that
        belongs together is left. Replaced statements end at the service time, are answered as of before and
        known before, and goes into the archive. What has a key, belongs to the open episode, or is of
        another kind is never summarized.

        The same memory and budget give the same summaries, ids and hash.

        Parameters
        ----------
        scope : mapping, optional
            Only statements of this scope; none: all.
        budget : Budget
            What may stay at hand of it.
        kinds : collection of MemoryKind, optional
            Only these; none: every durable kind.
        dry_run : bool
            Change nothing, and report exactly what would be done.
        on_progress : callable, optional
            Takes the part that is done, and what is being done.
        cancelled : callable, optional
            Whether to end after the slice at hand; what was done stays done, and is in the report.
        actor : str
            Requesting user or component.

        Raises
        ------
        InvalidRequestError
            Without a budget, or a scope or kind is not sound; nothing is changed.
        StoreBusyError
            Another consolidation runs.
        StoreError
            A slice cannot be stored; those before stay.

        Examples
        --------
        >>> from hylo_memory_ros.model import Budget, MemoryItem, MemoryQuery
        >>> from hylo_memory_ros.service import MemoryService
        >>> with MemoryService.open() as memory:
        ...     seen = [MemoryItem(kind='episodic', content='saw a mug', valid_from=t) for t in range(9)]
        ...     _ = memory.write(seen)
        ...     report = memory.consolidate(budget=Budget(items=1))
        ...     len(report.merged[0].ids), report.items_after, memory.query(MemoryQuery()).total
        (9, 1, 1)
        """
        request = self._request(scope, budget, kinds, dry_run, on_progress, cancelled, actor)
        with self._alone():
            if not dry_run and self._core.read_only:
                raise ReadOnlyError(
                    f'consolidate: {self._core.store.path} was opened for reading',
                    path=str(self._core.store.path),
                )
            run = ConsolidationRun(
                self._core.store,
                self._core.config.consolidation,
                request,
                self._composer(),
                self._core.episode,
                self._changing_in(self._core.store.epoch),
                self._core.follow,
                self._core.throttle,
            )
            report = run.execute()
            if report.consolidation_id:
                self._keep(report)
            return report

    def revert_consolidation(self, consolidation_id: str, *, actor: str = '') -> Reversion:
        """Let what a consolidation ended hold again, and take its summaries out, in slices, newest first.

        What was forgotten as a summary stays forgotten. What was withdrawn, written or purged since counts
        as it would have without the consolidation. What had ended before stays in the archive.

        Raises
        ------
        NotFoundError
            There is no consolidation of this name.
        InvalidRequestError
            It was reverted before, or one of its summaries was consolidated again since; or a name
            is not a text.
        """
        validate_names(actor=actor, consolidation_id=consolidation_id)
        with self._alone():
            with self._core.store.read() as view:
                record = view.consolidations.load(consolidation_id)
            return ConsolidationReversal(
                self._core.store,
                record,
                self._changing_in(self._core.store.epoch),
                self._core.follow,
                self._core.throttle,
                actor,
            ).execute()

    def consolidations(self) -> tuple[ConsolidationRecord, ...]:
        """Return what is kept of each consolidation, in order."""
        self._core.refuse_closed()
        with self._core.store.read() as view:
            return tuple(view.consolidations.load_all())

    def _request(
        self,
        scope: Mapping[str, str] | None,
        budget: Budget | None,
        kinds: Collection[MemoryKind] | None,
        dry_run: bool,
        on_progress: Callable[[float, str], None] | None,
        cancelled: Callable[[], bool] | None,
        actor: str,
    ) -> ConsolidationRequest:
        if not isinstance(budget, Budget):
            raise InvalidRequestError(
                f'budget: expected a Budget of items or bytes, got {budget!r}', field='budget'
            )
        validate_names(actor=actor)
        if scope is not None and not isinstance(scope, Mapping):
            raise InvalidRequestError(
                f'scope: expected a mapping of names to values, got {scope!r}', field='scope'
            )
        if kinds is not None and (isinstance(kinds, str) or not isinstance(kinds, Collection)):
            raise InvalidRequestError(f'kinds: expected a collection of kinds, got {kinds!r}', field='kinds')
        where = {
            validate_field(normalize_key, name, 'scope'): validate_field(
                normalize_key, value, f'scope[{name!r}]'
            )
            for name, value in dict(scope or {}).items()
        }
        chosen = (
            _DURABLE
            if kinds is None
            else tuple(dict.fromkeys(str(getattr(kind, 'value', kind)) for kind in kinds))
        )
        unknown = [kind for kind in chosen if kind not in _DURABLE]
        if unknown or not chosen:
            raise InvalidRequestError(
                f'kinds: {unknown or list(chosen)} names none of {", ".join(_DURABLE)}', field='kinds'
            )
        return ConsolidationRequest(
            where,
            budget,
            chosen,
            dry_run,
            actor=actor,
            on_progress=on_progress or (lambda _part, _stage: None),
            cancelled=cancelled or (lambda: False),
        )

    def _composer(self) -> Composer:
        with self._core.store.read() as view:
            reverted = view.consolidations.count_reverted()
        return Composer(
            self._summarizer,
            self._core.config.clock,
            reverted,
            self._with_vectors,
            self._core.spaces.spaces.get,
        )

    def _with_vectors(self, item: MemoryItem) -> MemoryItem:
        return self._core.spaces.embedded([item])[0]

    def _keep(self, report: ConsolidationReport) -> None:
        fields = {**report.as_dict(0), 'skipped': len(report.skipped)}
        number = int(report.consolidation_id.partition('/')[2])
        # A durable commit takes the slices before it to the disk too.
        with self._core.changing(), self._core.store.begin_unnumbered(durable=True) as uow:
            uow.consolidations.end(number, fields)
            uow.consolidations.end_interrupted(number)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._core.refuse_closed()
        if not self._running.acquire(blocking=False):
            raise StoreBusyError('consolidate: another consolidation is running; ask again when it has ended')
        try:
            yield
        finally:
            self._running.release()

    def _changing_in(self, epoch: str) -> Callable[[], AbstractContextManager[None]]:
        """Return the lock that a change of this history holds."""

        @contextmanager
        def changing() -> Iterator[None]:
            with self._core.changing():
                if self._core.store.epoch != epoch:
                    raise EpochChangedError(
                        'consolidation: another memory was restored in the place of this one'
                    )
                yield

        return changing
