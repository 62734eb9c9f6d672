"""Handlers of evidence and feedback: `~/receipt`, `~/render`, `~/may_reuse`, `~/feedback`."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any, cast

from hylo_memory_ros.domain.identity import prefix_from_json
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model.feedback import Verdict
from hylo_memory_ros.ros.convert.fields import checked_text, texts
from hylo_memory_ros.ros.convert.filters import query_from_msg
from hylo_memory_ros.ros.services.registration import Handlers, service
from hylo_memory_ros.srv import Feedback, MayReuse, Receipt, Render
from hylo_memory_ros.transforms import Transform


class ReceiptHandlers(Handlers):
    """Services that prove answers: ``render``, ``may_reuse``, ``receipt``."""

    @service(Render)
    async def render(self, request: Render.Request, response: Render.Response) -> Render.Response:
        """Answer with the memory prelude of a prompt."""
        return await self.answer_centred(
            self.context.readers, lambda centre: self._render(request, response, centre)
        )

    @service(MayReuse)
    async def may_reuse(self, request: MayReuse.Request, response: MayReuse.Response) -> MayReuse.Response:
        """Answer whether a kept prompt cache may be used."""
        return await self.context.readers.do(lambda: self._may_reuse(request, response))

    @service(Receipt)
    async def receipt(self, request: Receipt.Request, response: Receipt.Response) -> Receipt.Response:
        """Answer with the evidence of one retrieval or association."""
        return await self.context.readers.do(lambda: self._receipt(request, response))

    def _render(
        self, request: Render.Request, response: Render.Response, centre: Future[Transform] | None
    ) -> Render.Response | Future[Transform]:
        query = query_from_msg(request.filter, k=request.k)
        placed = self.context.placement.place_query(query, centre)
        if isinstance(placed, Future):
            return placed
        rendering = self.memory.render(
            placed,
            request.max_tokens or None,
            renderer=checked_text(request.renderer, 'renderer'),
            receipt=self.context.config.memory.receipts != 'off',
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

    def _may_reuse(self, request: MayReuse.Request, response: MayReuse.Response) -> MayReuse.Response:
        have = prefix_from_json(checked_text(request.have_json, 'have_json'), 'have_json')
        want = prefix_from_json(checked_text(request.want_json, 'want_json'), 'want_json')
        answer = self.memory.may_reuse(have, want)
        response.allowed, response.reasons = answer.allowed, list(answer.reasons)
        return response

    def _receipt(self, request: Receipt.Request, response: Receipt.Response) -> Receipt.Response:
        name = checked_text(request.id, 'id')
        if not name:
            raise InvalidRequestError("id: '' names no receipt", field='id')
        response.receipt_json = self._fitting(
            dict(self.context.perception.receipt(name) or self.memory.receipt(name))
        )
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


class FeedbackHandlers(Handlers):
    """The service ``feedback``: verdicts on answers."""

    @service(Feedback)
    async def feedback(self, request: Feedback.Request, response: Feedback.Response) -> Feedback.Response:
        """Count whether remembered items helped."""
        return await self.context.writer.do(lambda: self._feedback(request, response))

    def _feedback(self, request: Feedback.Request, response: Feedback.Response) -> Feedback.Response:
        judged = self.memory.feedback(
            cast('Verdict', checked_text(request.outcome, 'outcome')),  # any other word is refused there
            receipt_id=checked_text(request.receipt_id, 'receipt_id'),
            ids=texts(request.ids, 'ids'),
            episode=checked_text(request.episode, 'episode'),
            note=checked_text(request.note, 'note'),
            actor=checked_text(request.actor, 'actor'),
        )
        response.updated = len(judged)
        if judged.replaced:
            response.message = f'{judged.replaced} earlier verdicts were replaced'
        return response
