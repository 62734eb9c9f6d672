"""Query handler: queries, prompts, history and the feed of changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hylo_memory_ros.errors import EpochChangedError, InvalidRequestError
from hylo_memory_ros.evidence.prompts import Rendering, TokenCounter, counter_named, rendered, renderer_named
from hylo_memory_ros.evidence.receipts import RecordedQuery
from hylo_memory_ros.model import (
    Change,
    Changes,
    History,
    MemoryKind,
    MemoryQuery,
    QueryResult,
    SkillTransition,
    normalize_key,
)
from hylo_memory_ros.retrieval import MAX_SEQUENCE, Cursor
from hylo_memory_ros.service.core import MemoryCore
from hylo_memory_ros.service.receipt_log import new_receipt_id
from hylo_memory_ros.service.validation import validate_fields


class QueryHandler:
    """Answers queries, renders prompts, and reads history and the feed.

    Parameters
    ----------
    core : MemoryCore
        State of the memory.

    Raises
    ------
    InvalidRequestError
        The configuration names an unknown renderer or token counter.
    """

    def __init__(self, core: MemoryCore) -> None:
        self._core = core
        self._renderer = renderer_named(core.config.renderer)
        self._counter = counter_named(core.config.token_counter)

    def query(self, query: MemoryQuery, *, receipt: bool = False) -> QueryResult:
        """Return the hits of a query, best first, and why others are not among them.

        Parameters
        ----------
        query : MemoryQuery
            Filters, place, time and ranking.
        receipt : bool
            Keep the evidence, to be read by `receipt` under ``receipt_id`` of the result.

        Raises
        ------
        LoadingError
            A query with a place, while the index is being loaded.
        InvalidRequestError, EpochChangedError, StoreError
            The query cannot be answered.
        """
        core = self._core
        core.refuse_closed()
        with core.throttle.hold():
            wanted = core.receipts.wanted(receipt)
            if not wanted and not core.receipts.events.listeners:
                return core.engine.answer(query, core.maps.current)
            recorded, result = self._record(query, wanted)
            core.receipts.keep(recorded)
            return result

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
            At most ``k`` hits are rendered.
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
            Not even an empty prelude fits, or the renderer or counter is unknown; or as `query`.
        """
        core = self._core
        core.refuse_closed()
        if max_tokens is not None and max_tokens < 0:
            raise InvalidRequestError(f'max_tokens: {max_tokens} is negative', field='max_tokens')
        with core.throttle.hold():
            named = renderer_named(renderer) if renderer else self._renderer
            count = counter_named(counter) if isinstance(counter, str) else counter or self._counter
            wanted = core.receipts.wanted(receipt)
            recorded, result = self._record(query, wanted)
            rendering = rendered(result, named, count, max_tokens)
            if wanted or core.receipts.events.listeners:
                core.receipts.keep(replace(recorded, rendering=rendering))
            return replace(rendering, receipt_id=recorded.receipt_id)

    def _record(self, query: MemoryQuery, wanted: bool) -> tuple[RecordedQuery, QueryResult]:
        """Answer a query and keep what its receipt needs."""
        core = self._core
        # Read before the answer: whatever is purged from here on is taken out of the receipt.
        store_sequence, map_id = core.store.sequence, core.maps.current
        result = core.engine.answer(query, map_id)
        receipt_id = new_receipt_id() if wanted else ''
        recorded = RecordedQuery(
            receipt_id,
            query,
            result,
            core.store.epoch,
            core.store.now_ns(),
            store_sequence,
            map_id,
            core.config.identity_scope,
            spaces=core.spaces.spaces,
            episode=core.episode,
        )
        return recorded, replace(result, receipt_id=receipt_id) if wanted else result

    def subscribe_retrievals(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call a listener soon after each retrieval, with an event; the returned callable unsubscribes it.

        Its ``sequence`` is the one that was read: a retrieval takes none and is not in the feed.
        """
        return self._core.receipts.events.subscribe(listener)

    def vector_of(self, space: str, text: str) -> tuple[float, ...]:
        """Return the vector of a text in a space that has an embedder, to query with.

        Raises
        ------
        InvalidRequestError
            The space has no embedder, or the embedder failed.
        """
        self._core.refuse_closed()
        return self._core.spaces.vectors_of(space, [text])[0]

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
        """Return all versions of a thing, given by its key or an id of it, in the order of belief.

        Versions with the id that is asked for are marked (`Version.is_asked`).

        Raises
        ------
        InvalidRequestError
            Neither an id nor a key is given, or both are.
        """
        core = self._core
        core.refuse_closed()
        if (id is None) == (key is None):
            raise InvalidRequestError(
                'history: give an id, or a key (with kind and map_id where keys repeat)'
            )
        if limit < 1:
            raise InvalidRequestError(f'history: limit {limit} is below 1')
        item_id, key, map_id = validate_fields(normalize_key, id=id, key=key, map_id=map_id or None)
        if kind is not None and kind not in set(MemoryKind):
            raise InvalidRequestError(f'kind: {kind!r} is none of {", ".join(MemoryKind)}', field='kind')
        limit = min(limit, MAX_SEQUENCE)
        request = f'history {item_id!r} {kind!r} {key!r} {map_id!r}'
        offset = Cursor.decoded(cursor, core.store.epoch, request).offset if cursor else 0
        versions = core.store.reader.history(
            item_id=item_id, kind=kind, key=key, map_id=map_id, limit=limit + 1, offset=offset
        )
        following = None
        if len(versions) > limit:
            following = Cursor(core.store.epoch, request, offset + limit).encoded()
        return History(tuple(versions[:limit]), following)

    def changes(self, after: tuple[str, int] | None = None, limit: int = 1000) -> Changes:
        """Return the feed of transactions after a position (epoch, sequence), without a gap.

        Raises
        ------
        EpochChangedError
            The position belongs to another history; begin again.
        """
        core = self._core
        core.refuse_closed()
        current = core.store.epoch
        epoch, sequence = after if after is not None else (current, 0)
        if epoch != current:
            raise EpochChangedError(f'epoch: {epoch!r} is another history than {current!r}; begin again')
        if sequence < 0 or limit < 1:
            raise InvalidRequestError(f'changes: sequence {sequence} and limit {limit} must be >= 0 and >= 1')
        return core.store.reader.changes(min(sequence, MAX_SEQUENCE), min(limit, MAX_SEQUENCE))

    def skill_transitions(self, key: str | None = None, limit: int = 1000) -> tuple[SkillTransition, ...]:
        """Return the latest steps of skills through their gate, oldest first: who, when, by what evidence.

        Parameters
        ----------
        key : str, optional
            Of this skill; None: of all.
        limit : int
            Most steps.
        """
        core = self._core
        core.refuse_closed()
        if limit < 1:
            raise InvalidRequestError(f'skill_transitions: limit {limit} is below 1', field='limit')
        (skill_key,) = validate_fields(normalize_key, key=key)
        most = min(limit, MAX_SEQUENCE)
        with core.store.read() as view:
            return tuple(view.skills.transitions(skill_key, most))

    def counts(self) -> dict[str, int]:
        """Return the number of open versions by kind, and of items in working memory."""
        core = self._core
        core.refuse_closed()
        return {**core.store.reader.counts(), MemoryKind.WORKING.value: len(core.working)}
