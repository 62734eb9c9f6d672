"""Write handler: stores items in the database or in working memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryItem, MemoryKind, WriteResult
from hylo_memory_ros.service.core import MemoryCore
from hylo_memory_ros.service.validation import validate_names
from hylo_memory_ros.storage.statements.writer import check_items, check_stamps, resolved
from hylo_memory_ros.storage.unit_of_work import UnitOfWork


class WriteHandler:
    """Writes items to the store, to working memory, or to both in one call.

    Parameters
    ----------
    core : MemoryCore
        State of the memory.
    """

    def __init__(self, core: MemoryCore) -> None:
        self._core = core

    def write(
        self,
        items: Sequence[MemoryItem],
        *,
        request_id: str | None = None,
        actor: str = '',
        dry_run: bool = False,
        durable: bool = True,
        within: Callable[[UnitOfWork], None] | None = None,
    ) -> WriteResult:
        """Store items in one transaction, all or none, in order.

        Parameters
        ----------
        items : sequence of MemoryItem
            At least one; spatial ones without ``map_id`` get the current map.
        request_id : str, optional
            A repeated request gets its first answer again.
        actor : str
            On whose behalf.
        dry_run : bool
            Return what would happen, and store nothing.
        durable : bool
            Whether the commit must survive a power cut, or only a killed process.
        within : callable, optional
            Saves further state in the same transaction; given its unit of work.

        Raises
        ------
        InvalidRequestError, ClockError, IdConflictError, StoreError
            Nothing of the call is stored.
        """
        if not items:
            raise InvalidRequestError('items: there is none to write')
        validate_names(request_id=request_id, actor=actor)
        core = self._core
        if core.spaces.embedders:
            items = core.spaces.embedded(items)
        items = [core.maps.assign_current_map(item) for item in items]
        if not any(item.kind is MemoryKind.WORKING for item in items):
            with core.changing():
                # The answer to a request that working memory had a part in is kept in this process alone.
                if (
                    request_id is not None
                    and (known := core.requests.get(request_id, len(items))) is not None
                ):
                    return known
                return self._write_durable(items, request_id, actor, dry_run, durable, within)
        return self._write_mixed(items, request_id, actor, dry_run, durable, within)

    def _write_mixed(
        self,
        items: Sequence[MemoryItem],
        request_id: str | None,
        actor: str,
        dry_run: bool,
        durable: bool,
        within: Callable[[UnitOfWork], None] | None,
    ) -> WriteResult:
        """Write items of which some are of working memory."""
        core = self._core
        now_ns = core.store.now_ns()
        items = [resolved(item, now_ns) if item.kind is MemoryKind.WORKING else item for item in items]
        stored = [item for item in items if item.kind is not MemoryKind.WORKING]
        working = [item for item in items if item.kind is MemoryKind.WORKING]
        core.working.check(items)
        check_items(working, core.config)
        check_stamps(working, core.config)
        with core.changing():
            if (known := core.requests.get(request_id, len(items))) is not None:
                return known
            result = WriteResult((), core.store.sequence)
            if stored or within is not None:
                result = self._write_durable(stored, request_id, actor, dry_run, durable, within)
            events, evicted = core.working.write(
                working, core.store.sequence, now_ns, episode=core.episode, dry_run=dry_run
            )
            core.publish_evicted(evicted, now_ns)
            of_working, of_store = iter(events), iter(result.events)
            merged = (next(of_working if item.kind is MemoryKind.WORKING else of_store) for item in items)
            result = WriteResult(tuple(merged), result.sequence)
            if not dry_run:
                core.requests.keep(request_id, result)
            return result

    def _write_durable(
        self,
        items: Sequence[MemoryItem],
        request_id: str | None,
        actor: str,
        dry_run: bool,
        durable: bool,
        within: Callable[[UnitOfWork], None] | None,
    ) -> WriteResult:
        core = self._core
        if any(item.embeddings for item in items):
            core.indexes.vectors.check_items(items)
        if not dry_run:
            core.maps.remember(item.scope.get('map_id', '') for item in items)
        check_items(items, core.config)
        with ExitStack() as stack:
            publish_files = None
            if any(item.kind is MemoryKind.SKILL for item in items):
                items = core.skills.with_verdicts(items, actor)
                publish_files = stack.enter_context(core.skills.stage_files(items, dry_run=dry_run))
            with core.store.begin('write', actor=actor, durable=durable, dry_run=dry_run) as uow:
                result = uow.statements.write(items, request_id=request_id)
                if within is not None and not uow.discarded:
                    within(uow)
            if publish_files is not None and uow.result is not None:
                publish_files()
        core.follow(uow.result)
        if len(result.events) != len(items):
            raise InvalidRequestError(
                f'request_id: {request_id!r} was used before for {len(result.events)} items, got {len(items)}'
            )
        return result
