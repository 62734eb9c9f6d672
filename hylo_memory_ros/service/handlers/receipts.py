"""Receipt handler: read and replay receipts, and their chain of identities.

Threads: any, beside writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hylo_memory_ros.domain.identity import (
    CachedPrefix,
    CompressionArtifactIdentity,
    LayerDigest,
    Reuse,
    TokenKvIdentity,
    canonical_bytes,
    may_reuse,
)
from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.evidence.chain import Chain, chain_of
from hylo_memory_ros.evidence.receipts import (
    Replay,
    compare_answers,
    replayed_query,
)
from hylo_memory_ros.service.core import MemoryCore


class ReceiptHandler:
    """Reads and replays receipts, and records what was made of their answers.

    Parameters
    ----------
    core : MemoryCore
        State of the memory.
    """

    def __init__(self, core: MemoryCore) -> None:
        self._core = core

    def receipt(self, receipt_id: str) -> dict[str, Any]:
        """Return the recorded evidence of a retrieval or an association, as a JSON object.

        Raises
        ------
        NotFoundError
            The id is unknown, or its receipt has expired.
        """
        self._core.refuse_closed()
        return self._core.receipts.get(receipt_id)

    def replay_receipt(self, receipt_id: str) -> Replay:
        """Repeat the query of a receipt on the state it was answered from, and compare the ids.

        Raises
        ------
        NotFoundError
            The id is unknown, or its receipt has expired.
        InvalidRequestError
            The receipt is of an association, or its query was purged.
        """
        body = self.receipt(receipt_id)
        query, engine = replayed_query(body), self._core.engine
        result = engine.answer(query, body['map_id'])
        replay = compare_answers(body, result)
        if replay.same or not replay.ids or query.text is None or query.cursor is not None:
            return replay
        # The rank of words drifts with every write, the set of matches does not: compare that.
        matches = query.model_copy(update={'ids': replay.ids, 'k': len(replay.ids)})
        return compare_answers(body, result, len(engine.answer(matches, body['map_id'])))

    def chain(self, receipt_id: str) -> Chain:
        """Return the identities behind one answer, from its records to what was made of it.

        Raises
        ------
        NotFoundError
            No receipt of a retrieval has this id.
        """
        body = self.receipt(receipt_id)
        if body['kind'] != 'retrieval':
            raise NotFoundError(f'receipt: {receipt_id} is of an association, which has no chain')
        return chain_of(body, self._registered(receipt_id))

    def register(
        self, receipt_id: str, identity: TokenKvIdentity | CompressionArtifactIdentity
    ) -> LayerDigest:
        """Record tokens in a cache, or compressed bytes, that were made of the answer of a receipt.

        Raises
        ------
        NotFoundError
            The id is unknown, or its receipt has expired.
        InvalidRequestError
            The source of the identity is no link of the chain of this answer.
        """
        body = self.receipt(receipt_id)
        source = identity.segment if isinstance(identity, TokenKvIdentity) else identity.source
        if source not in self._known(body):
            raise InvalidRequestError(
                f'register: {source} is no link of the chain of {receipt_id}', field='identity'
            )
        digest = identity.digest
        self._core.receipts.flush()
        text = canonical_bytes(identity.fields).decode()
        with self._core.changing(), self._core.store.begin_unnumbered() as uow:
            uow.receipts.register(digest, receipt_id, text)
        return digest

    @staticmethod
    def may_reuse(have: CachedPrefix | TokenKvIdentity, want: CachedPrefix | TokenKvIdentity) -> Reuse:
        """Decide whether a kept prompt cache may be used in place of another, with each difference.

        Raises
        ------
        InvalidRequestError
            An argument is not an exact identity: similarity is no evidence.
        """
        return may_reuse(have, want)

    def _known(self, body: Mapping[str, Any]) -> set[str]:
        """Return the digests of all links of an answer."""
        render = body.get('render')
        known = {source['generation_id'] for source in body.get('sources', ()) if source['generation_id']}
        if render is not None:
            known |= {render['digest'], *(segment['digest'] for segment in render['segments'])}
        return known | set(self._registered(body['id']))

    def _registered(self, receipt_id: str) -> Mapping[str, Mapping[str, Any]]:
        with self._core.store.read() as view:
            return view.receipts.registered(receipt_id)
