"""Handlers of `~/write`, `~/forget`, `~/retract` and `~/purge`.

Everything that touches the memory runs in the one writer's thread, in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeAlias, TypeVar

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryQuery, Removal
from hylo_memory_ros.ros.convert.fields import checked_text
from hylo_memory_ros.ros.convert.filters import query_from_msg
from hylo_memory_ros.ros.convert.items import item_from_msg
from hylo_memory_ros.ros.convert.results import bytes_of_texts, fitting
from hylo_memory_ros.ros.perception.placement import Draft
from hylo_memory_ros.ros.runtime.worker_pool import Settled
from hylo_memory_ros.ros.services.registration import Handlers, service
from hylo_memory_ros.srv import Forget, Purge, Retract, Write
from hylo_memory_ros.transforms import Transform

Removing: TypeAlias = Forget.Request | Retract.Request | Purge.Request
Removed = TypeVar('Removed', Forget.Response, Retract.Response, Purge.Response)


class WriteHandlers(Handlers):
    """Services that change what is remembered: ``write``, ``forget``, ``retract``, ``purge``."""

    @service(Write)
    async def write(self, request: Write.Request, response: Write.Response) -> Write.Response:
        """Remember statements, all or none."""
        answer = await self.context.writer.do(lambda: self._write(request, response))
        if isinstance(answer, list):
            drafts = answer
            await Settled(draft.future for draft in drafts if draft.future is not None)
            answer = await self.context.writer.do(lambda: self._store(request, response, drafts))
        return answer

    @service(Forget)
    async def forget(self, request: Forget.Request, response: Forget.Response) -> Forget.Response:
        """End the validity of statements."""
        return await self._remove(request, response, self.memory.forget)

    @service(Retract)
    async def retract(self, request: Retract.Request, response: Retract.Response) -> Retract.Response:
        """Withdraw statements that never were true."""
        return await self._remove(request, response, self.memory.retract)

    @service(Purge)
    async def purge(self, request: Purge.Request, response: Purge.Response) -> Purge.Response:
        """Delete statements and every trace of them."""
        return await self._remove(request, response, self.memory.purge)

    def _write(self, request: Write.Request, response: Write.Response) -> Write.Response | list[Draft]:
        if not request.items:
            raise InvalidRequestError('items: empty; a write needs at least one', field='items')
        checked_text(request.request_id, 'request_id')
        items = [item_from_msg(msg, f'items[{index}]') for index, msg in enumerate(request.items)]
        self.context.watch.check(items[0].pose.stamp_ns if items[0].pose else None, 'items[0].header.stamp')
        drafts = self.context.placement.draft_items(items, self.context.clock())
        if any(draft.future is not None and not draft.future.done() for draft in drafts):
            return drafts
        return self._store(request, response, drafts)

    def _store(
        self, request: Write.Request, response: Write.Response, drafts: Sequence[Draft]
    ) -> Write.Response:
        items = [self.context.placement.place(draft) for draft in drafts]
        result = self.memory.write(
            items,
            request_id=request.request_id or None,
            actor=checked_text(request.actor, 'actor'),
            dry_run=request.dry_run,
        )
        response.ids = [event.id for event in result.events]
        response.outcomes = [event.event for event in result.events]
        response.closed_ids = [event.closed_id for event in result.events]
        response.sequence = 0 if request.dry_run else result.sequence
        response.message = '; '.join(
            f'items[{index}]: {event.reason}' for index, event in enumerate(result.events) if event.reason
        )
        return response

    async def _remove(
        self, request: Removing, response: Removed, operation: Callable[..., Removal]
    ) -> Removed:
        return await self.answer_centred(
            self.context.writer, lambda centre: self._removed(request, response, operation, centre)
        )

    def _removed(
        self,
        request: Removing,
        response: Removed,
        operation: Callable[..., Removal],
        centre: Future[Transform] | None,
    ) -> Removed | Future[Transform]:
        reason, actor = checked_text(request.reason, 'reason'), checked_text(request.actor, 'actor')
        # Landmarks that perception calls stale are removed like all others.
        query: MemoryQuery = query_from_msg(request.filter).model_copy(update={'include_stale': True})
        placed = self.context.placement.place_query(query, centre)
        if isinstance(placed, Future):
            return placed
        removal = operation(placed, reason=reason, actor=actor, dry_run=request.dry_run)
        response.count = int(removal)
        response.ids, cut = fitting(
            removal.ids, lambda name: name, lambda name: bytes_of_texts((name,)), self.reply_limit
        )
        response.sequence = 0 if request.dry_run else removal.sequence
        notes = [] if removal else ['nothing matched']
        if cut:
            notes.append(f'ids: {len(response.ids)} of {int(removal)} fit into this reply')
        notes += [f'not reached: {copy}' for copy in removal.unreached]
        response.message = '; '.join(notes)
        return response
