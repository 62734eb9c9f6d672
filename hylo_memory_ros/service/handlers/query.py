"""What asks: answers, their receipts, and the prompts made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hylo_memory_ros.domain.identity import (
    CachedPrefix,
    CompressionArtifactIdentity,
    LayerDigest,
    Reuse,
    TokenKvIdentity,
    may_reuse,
)
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.evidence.chain import Chain
from hylo_memory_ros.evidence.prompts.render import Rendering
from hylo_memory_ros.evidence.prompts.token_counters import TokenCounter
from hylo_memory_ros.evidence.receipts import Replay
from hylo_memory_ros.model import (
    Change,
    MemoryQuery,
    QueryResult,
    SkillTransition,
    normal_key,
)
from hylo_memory_ros.retrieval import MAX_SEQUENCE
from hylo_memory_ros.service.parts import Parts
from hylo_memory_ros.service.validation import refuse_unsound
from hylo_memory_ros.storage.skills.repository import transitions_of

__all__ = ['Asking']


class Asking(Parts):
    """The operations of a memory that answer, and prove what they answered."""

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
        with self._courtesy.asking():
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
        with self._courtesy.asking():
            return self._proving.render(query, max_tokens, renderer, counter, receipt)

    def skill_transitions(self, key: str | None = None, limit: int = 1000) -> tuple[SkillTransition, ...]:
        """Return the latest steps of skills through their gate, oldest first: who, when, by what evidence.

        Parameters
        ----------
        key : str, optional
            Of this skill; None: of all.
        limit : int
            Most steps.
        """
        self._refuse_closed()
        if limit < 1:
            raise InvalidRequestError(f'skill_transitions: limit {limit} is below 1', field='limit')
        (sound_key,) = refuse_unsound(normal_key, key=key)
        most = min(limit, MAX_SEQUENCE)
        return tuple(self.side_read(lambda connection: transitions_of(connection, sound_key, most)))

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
