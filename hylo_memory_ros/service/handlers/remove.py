"""Removal handler: forget, end, retract and purge."""

from __future__ import annotations

from collections.abc import Sequence

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import (
    AuditEntry,
    MemoryKind,
    MemoryQuery,
    Removal,
    normalize_key,
)
from hylo_memory_ros.retrieval import MAX_SEQUENCE, ResolvedQuery
from hylo_memory_ros.service.core import MemoryCore
from hylo_memory_ros.service.validation import (
    validate_field,
    validate_fields,
    validate_names,
    validate_reason,
    validate_stamp,
)
from hylo_memory_ros.storage.query.filters import SELECTING, SKILLS, selects_items
from hylo_memory_ros.storage.query.spec import World
from hylo_memory_ros.storage.statements.removal import Ending

# What a removal refuses: it changes what is believed now, and takes everything that matches.
_BELIEVED_NOW = ('known_at', 'known_seq', 'cursor', 'min_score')
_ACTS_NOW = ('as_of', *_BELIEVED_NOW)


class RemovalHandler:
    """Forgets, ends, retracts and purges items.

    Parameters
    ----------
    core : MemoryCore
        State of the memory.
    """

    def __init__(self, core: MemoryCore) -> None:
        self._core = core

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
        with self._core.lock:
            validate_reason(reason)
            validate_names(actor=actor)
            resolved, among = self._removable('forget', query, _ACTS_NOW)
            asked = resolved.spec(world='unended')
            with self._core.store.begin('forget', actor=actor, dry_run=dry_run) as uow:
                removal = uow.statements.forget(asked, among, reason=reason)
            self._core.follow(uow.result)
            return self._with_working(removal, resolved, dry_run)

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
            World time, nanoseconds, for all keys or for each: a version from before holds up to
            here, and what is stated from a later time stays, whichever came first.
        kind : MemoryKind
            A durable kind.
        map_id : str, optional
            Their map; None: the current one.
        merged_into : str
            Key of the thing that they prove to be, which the feed reports as a merge; empty: they ended.
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
        >>> from hylo_memory_ros.model import MemoryItem, MemoryQuery
        >>> from hylo_memory_ros.service import MemoryService
        >>> with MemoryService.open() as memory:
        ...     _ = memory.write([MemoryItem(kind='spatial', key='cup', content='cup', valid_from=1)])
        ...     ended = memory.end(['cup'], 3 * 10**9)
        ...     ended, [len(memory.query(MemoryQuery(key='cup', as_of=t))) for t in (2, 4)]
        (1, [1, 0])
        """
        validate_reason(reason)
        validate_names(actor=actor)
        (current_map,) = validate_fields(normalize_key, map_id=map_id or None)
        if map_id is None:
            current_map = self._core.maps.current
        stamps = list(at_ns) if isinstance(at_ns, Sequence) else [at_ns] * len(keys)
        if len(stamps) != len(keys):
            raise InvalidRequestError(f'at_ns: {len(stamps)} times for {len(keys)} keys', field='at_ns')
        endings = [
            Ending(
                validate_field(normalize_key, key, f'keys[{index}]'),
                validate_stamp(stamp),
                current_map or '',
                reason,
                merged_into,
            )
            for index, (key, stamp) in enumerate(zip(keys, stamps, strict=True))
        ]
        if len({ending.key for ending in endings}) < len(endings):
            raise InvalidRequestError(f'keys: one is given twice in {list(keys)}', field='keys')
        if kind not in set(MemoryKind) - {MemoryKind.WORKING}:
            raise InvalidRequestError(f'kind: {kind!r} has no timeline that could end', field='kind')
        with self._core.changing():
            with self._core.store.begin('end', actor=actor, durable=durable, dry_run=dry_run) as uow:
                removal = uow.statements.end(endings, kind=MemoryKind(kind).value, reason=reason)
            self._core.follow(uow.result)
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
        with self._core.lock:
            validate_reason(reason)
            validate_names(actor=actor)
            resolved, among = self._removable('retract', query, _BELIEVED_NOW)
            world: World = 'any' if query.ids or query.include_invalidated else 'at'
            with self._core.store.begin('retract', actor=actor, dry_run=dry_run) as uow:
                removal = uow.statements.retract(resolved.spec(world=world), among, reason=reason)
            self._core.follow(uow.result)
            return self._with_working(removal, resolved, dry_run, resolved.at_ns if world == 'at' else None)

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
        with self._core.lock:
            validate_reason(reason)
            validate_names(actor=actor)
            resolved, among = self._removable('purge', query, _ACTS_NOW)
            if not dry_run:
                self._core.receipts.flush()
            left = [] if dry_run else self._remove_skill_files(resolved, among)
            try:
                removal, committed = self._core.store.purge(
                    resolved.spec_at_any_time(),
                    among,
                    self._from_working(resolved, dry_run=True),
                    reason=reason,
                    actor=actor,
                    dry_run=dry_run,
                )
            except BaseException:
                self._core.skills.mend()
                raise
            if committed is not None:
                self._core.receipts.purged_at = committed.change.sequence
                self._core.spaces.forget_texts()
            self._core.follow(committed)
            self._from_working(resolved, dry_run=dry_run)
            if not dry_run:
                self._core.requests.forget(removal.ids)
            return Removal(removal, removal.ids, removal.sequence, (*removal.unreached, *left))

    def audit(self, id: str | None = None, *, after: int = 0, limit: int = 1000) -> tuple[AuditEntry, ...]:
        """Return who removed what, when and why: every forget, end, retract and purge, oldest first.

        Parameters
        ----------
        id : str, optional
            Only removals of this item.
        after : int
            Only transactions after this sequence.
        limit : int
            Most entries.
        """
        self._core.refuse_closed()
        if after < 0 or limit < 1:
            raise InvalidRequestError(f'audit: after {after} and limit {limit} must be >= 0 and >= 1')
        (item_id,) = validate_fields(normalize_key, id=id)
        with self._core.store.read() as view:
            return tuple(view.statements.audit(min(after, MAX_SEQUENCE), min(limit, MAX_SEQUENCE), item_id))

    def _remove_skill_files(self, resolved: ResolvedQuery, among: Sequence[int] | None) -> list[str]:
        """Delete the files of skills before their commit: left behind, they would be taken for new skills.

        Returns
        -------
        list of str
            What may hold something of them, and was set aside.
        """
        if not len(self._core.skills.index):
            return []
        matching = self._core.store.reader.matching(resolved.spec_at_any_time(), among)
        return self._core.skills.remove_files(list(matching))

    def _removable(
        self, op: str, query: MemoryQuery, meaningless: Sequence[str]
    ) -> tuple[ResolvedQuery, list[int] | None]:
        self._core.refuse_closed()
        if not selects_items(query):
            named = sorted(query.model_fields_set & SELECTING)
            given = f' ({", ".join(named)} leaves nothing out)' if named else ''
            raise InvalidRequestError(f'{op}: a query without any filter{given} would take everything')
        for name in meaningless:
            if getattr(query, name) is not None:
                raise InvalidRequestError(
                    f'{op}: {name} has no meaning, it acts now, on everything that matches'
                )
        if query.embedding is not None or query.text_space is not None:
            raise InvalidRequestError(f'{op}: embedding: similarity never decides what is taken away')
        if query.state is not None:
            raise InvalidRequestError(f'{op}: state: the state of a caller never decides what is taken away')
        resolved = self._core.engine.resolve(query.model_copy(update=SKILLS.lifted), self._core.maps.current)
        return resolved, self._core.engine.version_rows(resolved)

    def _with_working(
        self, removal: Removal, resolved: ResolvedQuery, dry_run: bool, at_ns: int | None = None
    ) -> Removal:
        """Take from working memory what a removal took from the store, and count it."""
        gone = self._from_working(resolved, at_ns, dry_run=dry_run)
        return Removal(removal + len(gone), (*removal.ids, *gone), removal.sequence, removal.unreached)

    def _from_working(self, resolved: ResolvedQuery, at_ns: int | None = None, *, dry_run: bool) -> list[str]:
        kinds = resolved.query.kinds
        if kinds is not None and MemoryKind.WORKING not in kinds:
            return []
        return self._core.working.forget(resolved.query, resolved.map_id, at_ns, dry_run=dry_run)
