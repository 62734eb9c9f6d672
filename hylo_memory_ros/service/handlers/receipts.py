"""What proves an answer, and what is made of it: receipts, replays, prompts, the chain of identities.

Threads: any, beside writers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.identity import (
    CompressionArtifactIdentity,
    LayerDigest,
    TokenKvIdentity,
    canonical_bytes,
)
from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.evidence.chain import Chain, chain_of
from hylo_memory_ros.evidence.prompts.render import Rendering, rendered
from hylo_memory_ros.evidence.prompts.renderers import renderer_named
from hylo_memory_ros.evidence.prompts.token_counters import TokenCounter, counter_named
from hylo_memory_ros.evidence.receipts import RecordedQuery, Replay, compared, replayed_query
from hylo_memory_ros.model import Change, EmbeddingSpace, MemoryQuery, QueryResult
from hylo_memory_ros.retrieval import RetrievalEngine
from hylo_memory_ros.service.receipt_log import Receipts, new_receipt_id
from hylo_memory_ros.storage import Store
from hylo_memory_ros.storage.receipts import load_registered, save_registered

__all__ = ['Proving']


class Proving:
    """Answers that can be proved afterwards.

    Parameters
    ----------
    store : Store
        What is asked.
    config : MemoryConfig
        What is kept of answers.
    retriever : RetrievalEngine
        Answers in the current map.
    retriever_in : callable
        Returns one that answers in a given map.
    current_map : callable
        The current map.
    side_write : callable
        Gives a connection under the lock of writes.
    current_episode : callable
        The open episode; empty: none.
    spaces : mapping of str to EmbeddingSpace
        The embedding spaces in use, with what embedders and the file tell of them.
    read_only : bool
        Whether nothing can be stored.

    Raises
    ------
    InvalidRequestError
        The configuration names a renderer or a token counter that does not exist.
    """

    def __init__(
        self,
        store: Store,
        config: MemoryConfig,
        retriever: RetrievalEngine,
        retriever_in: Callable[[str | None], RetrievalEngine],
        current_map: Callable[[], str],
        side_write: Callable[[Callable[[sa.Connection], None]], None],
        *,
        current_episode: Callable[[], str],
        spaces: Mapping[str, EmbeddingSpace],
        read_only: bool,
    ) -> None:
        self._spaces = spaces
        self._store, self._config, self._current_map = store, config, current_map
        self._retriever_in = retriever_in
        self._retriever = retriever
        self._side_write, self._current_episode = side_write, current_episode
        self.receipts = Receipts(config, side_write, store.side_read, store.cold_ids, read_only=read_only)
        self._renderer, self._counter = renderer_named(config.renderer), counter_named(config.token_counter)

    def query(self, query: MemoryQuery, receipt: bool) -> QueryResult:
        """Answer, and keep a receipt where one is wanted."""
        wanted = self.receipts.wanted(receipt)
        if not wanted and not self.receipts.told:
            return self._retriever.answer(query)
        asked, result = self._asked(query, wanted)
        self.receipts.keep(asked)
        return result

    def _asked(self, query: MemoryQuery, wanted: bool) -> tuple[RecordedQuery, QueryResult]:
        # Before the question: what is purged from here on is taken out of the receipt.
        store_sequence, map_id = self._store.sequence, self._current_map()
        result = self._retriever.answer(query)
        receipt_id = new_receipt_id() if wanted else ''
        asked = RecordedQuery(
            receipt_id,
            query,
            result,
            self._store.epoch,
            self._store.now_ns(),
            store_sequence,
            map_id,
            self._config.identity_scope,
            spaces=self._spaces,
            episode=self._current_episode(),
        )
        return asked, replace(result, receipt_id=receipt_id) if wanted else result

    def render(
        self,
        query: MemoryQuery,
        max_tokens: int | None,
        renderer: str,
        counter: TokenCounter | str | None,
        receipt: bool,
    ) -> Rendering:
        """Answer as the prelude of a prompt."""
        if max_tokens is not None and max_tokens < 0:
            raise InvalidRequestError(f'max_tokens: {max_tokens} is negative', field='max_tokens')
        named = renderer_named(renderer) if renderer else self._renderer
        count = counter_named(counter) if isinstance(counter, str) else counter or self._counter
        wanted = self.receipts.wanted(receipt)
        asked, result = self._asked(query, wanted)
        rendering = rendered(result, named, count, max_tokens)
        if wanted or self.receipts.told:
            self.receipts.keep(replace(asked, rendering=rendering))
        return replace(rendering, receipt_id=asked.receipt_id)

    def replay(self, receipt_id: str) -> Replay:
        """Ask the question of a receipt again, of the state that it was answered from."""
        body = self.receipts.get(receipt_id)
        query, retriever = replayed_query(body), self._retriever_in(body['map_id'])
        result = retriever.answer(query)
        replay = compared(body, result)
        if replay.same or not replay.ids or query.text is None or query.cursor is not None:
            return replay
        # Ranks of words drift with every write; whether a thing matches does not.
        alone = query.model_copy(update={'ids': replay.ids, 'k': len(replay.ids)})
        return compared(body, result, len(retriever.answer(alone)))

    def register(
        self, receipt_id: str, identity: TokenKvIdentity | CompressionArtifactIdentity
    ) -> LayerDigest:
        """Record a cache, or compressed bytes, that was made of the answer of a receipt."""
        body = self.receipts.get(receipt_id)
        known = self._known(body)
        if isinstance(identity, TokenKvIdentity):
            needed: LayerDigest = identity.segment
        elif isinstance(identity, CompressionArtifactIdentity):
            needed = identity.source
        else:
            raise InvalidRequestError(
                f'register: a {type(identity).__name__} is neither tokens in a cache nor compressed bytes',
                field='identity',
            )
        if needed not in known:
            raise InvalidRequestError(
                f'register: {needed} is no link of the chain of {receipt_id}', field='identity'
            )
        digest = identity.digest
        self.receipts.flush()
        text = canonical_bytes(identity.fields).decode()
        self._side_write(lambda connection: save_registered(connection, digest, receipt_id, text))
        return digest

    def _known(self, body: Mapping[str, Any]) -> set[str]:
        render = body.get('render')
        known = {source['generation_id'] for source in body.get('sources', ()) if source['generation_id']}
        if render is not None:
            known |= {render['digest'], *(segment['digest'] for segment in render['segments'])}
        return known | set(self._registered(body['id']))

    def _registered(self, receipt_id: str) -> Mapping[str, Mapping[str, Any]]:
        return self._store.side_read(lambda connection: load_registered(connection, receipt_id))

    def chain(self, receipt_id: str) -> Chain:
        """Return every identity from the records to what was made of the answer."""
        body = self.receipts.get(receipt_id)
        if body['kind'] != 'retrieval':
            raise NotFoundError(f'receipt: {receipt_id} is of an association, which has no chain')
        return chain_of(body, self._registered(receipt_id))

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Tell a listener of every retrieval, as an event at the sequence that it read."""
        return self.receipts.listeners.add(listener)
