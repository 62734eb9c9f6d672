"""What proves an answer: `~/receipt`, `~/render`, `~/may_reuse`.

Handlers are coroutines; what takes time runs in a reader's thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from hylo_memory_ros.domain.identity import prefix_from_json
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.ros.convert.fields import checked_text
from hylo_memory_ros.ros.convert.filters import query_from_msg
from hylo_memory_ros.ros.perception.placement import Placement
from hylo_memory_ros.ros.runtime.dispatch import Settled
from hylo_memory_ros.ros.runtime.worker_pool import WorkerPool
from hylo_memory_ros.transforms import Transform

__all__ = ['Proving']


@dataclass(frozen=True)
class Proving:
    """The handlers that prove answers of one memory."""

    memory: Any
    """The `MemoryService`."""
    readers: WorkerPool
    """Threads that answer."""
    placement: Placement
    """Brings centres into the global frame."""
    reply_limit: int
    """Largest reply, bytes."""
    keeps_receipts: bool
    """Whether a rendering has a receipt."""
    decided: Callable[[str], Mapping[str, Any] | None]
    """Returns the receipt of a recent association, which may be stored nowhere."""

    async def render(self, request: Any, response: Any) -> Any:
        """Answer with the memory prelude of a prompt."""
        answer = await self.readers.do(lambda: self._render(request, response, None))
        if isinstance(answer, Future):
            centre = answer
            await Settled((centre,))
            answer = await self.readers.do(lambda: self._render(request, response, centre))
        return answer

    async def may_reuse(self, request: Any, response: Any) -> Any:
        """Answer whether a kept prompt cache may be used."""
        return await self.readers.do(lambda: self._may_reuse(request, response))

    async def receipt(self, request: Any, response: Any) -> Any:
        """Answer with the evidence of one retrieval or association."""
        return await self.readers.do(lambda: self._receipt(request, response))

    def _render(self, request: Any, response: Any, centre: Future[Transform] | None) -> Any:
        query = query_from_msg(request.filter, k=request.k)
        if self.placement.needs_centre(query):
            centre = centre or self.placement.centre(query)
            if centre is not None and not centre.done():
                return centre
            query = self.placement.centred(query, centre)
        rendering = self.memory.render(
            query,
            request.max_tokens or None,
            renderer=checked_text(request.renderer, 'renderer'),
            receipt=self.keeps_receipts,
        )
        size = len(rendering.text.encode('utf-8'))
        if size > self.reply_limit:
            raise InvalidRequestError(
                f'render: the text has {size} bytes, more than reply_limit_bytes {self.reply_limit}: '
                'give max_tokens or a smaller k',
                limit=self.reply_limit,
            )
        response.text, response.digest = rendering.text, rendering.digest
        response.ids = list(rendering.ids)
        response.segment_digests = [segment.digest for segment in rendering.segments]
        response.receipt_id = rendering.receipt_id
        if rendering.left_out:
            response.message = (
                f'max_tokens: {len(rendering.left_out)} of {len(rendering.result)} hits left out'
            )
        return response

    def _may_reuse(self, request: Any, response: Any) -> Any:
        have = prefix_from_json(checked_text(request.have_json, 'have_json'), 'have_json')
        want = prefix_from_json(checked_text(request.want_json, 'want_json'), 'want_json')
        answer = self.memory.may_reuse(have, want)
        response.allowed, response.reasons = answer.allowed, list(answer.reasons)
        return response

    def _receipt(self, request: Any, response: Any) -> Any:
        name = checked_text(request.id, 'id')
        if not name:
            raise InvalidRequestError("id: '' names no receipt", field='id')
        response.receipt_json = self._fitting(dict(self.decided(name) or self.memory.receipt(name)))
        return response

    def _fitting(self, body: dict[str, Any]) -> str:
        """Return a receipt as text, without its last hits where it would not fit into a reply."""
        text = json.dumps(body, ensure_ascii=False)
        hits = body.get('hits', [])
        most = len(hits)
        while len(text.encode('utf-8')) > self.reply_limit and most:
            most //= 2
            body = {**body, 'hits': hits[:most], 'render': None, 'hits_left_out': len(hits) - most}
            text = json.dumps(body, ensure_ascii=False)
        return text
