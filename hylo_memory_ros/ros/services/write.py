"""What writes: `~/write`, `~/forget`, `~/retract`, `~/purge`, `~/set_map`, `~/flush`, `~/snapshot`.

Handlers are coroutines; everything that touches the memory runs in the one
writer's thread, in the order in which it got there.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.ros.convert.fields import checked_text, stamp_msg, stamp_ns
from hylo_memory_ros.ros.convert.filters import query_from_msg
from hylo_memory_ros.ros.convert.items import item_from_msg
from hylo_memory_ros.ros.convert.results import bytes_of_texts, fitting
from hylo_memory_ros.ros.perception.perception import Perception
from hylo_memory_ros.ros.perception.placement import Draft, Placement
from hylo_memory_ros.ros.runtime.dispatch import Settled
from hylo_memory_ros.ros.runtime.worker_pool import WorkerPool
from hylo_memory_ros.ros.stamp_watch import StampWatch
from hylo_memory_ros.storage.engine.files import file_named
from hylo_memory_ros.transforms import PendingQueue, Transform, TransformSource

__all__ = ['Writing']

# How long a flush waits when its request does not say so, and at most, seconds.
FLUSH_S, MAX_FLUSH_S = 5.0, 3600.0


@dataclass(frozen=True)
class Writing:
    """The handlers that change one memory."""

    memory: Any
    """The `MemoryService`."""
    writer: WorkerPool
    """The one thread that writes."""
    readers: WorkerPool
    """Threads that read."""
    placement: Placement
    """Brings poses and centres into the global frame."""
    perception: Perception
    """What is flushed, and told of another map."""
    pending: PendingQueue
    """Requests that wait for transforms."""
    transforms: TransformSource
    """Cleared when the map is switched."""
    clock: Callable[[], int]
    """The node's clock, nanoseconds; 0 while it has not started."""
    watch: StampWatch
    """Looks at the stamps."""
    reply_limit: int
    """Size to which a reply is cut, bytes."""

    async def write(self, request: Any, response: Any) -> Any:
        """Remember statements, all or none."""
        answer = await self.writer.do(lambda: self._write(request, response))
        if isinstance(answer, list):
            drafts = answer
            await Settled(draft.future for draft in drafts if draft.future is not None)
            answer = await self.writer.do(lambda: self._store(request, response, drafts))
        return answer

    async def forget(self, request: Any, response: Any) -> Any:
        """End what is true."""
        return await self._remove(request, response, self.memory.forget)

    async def retract(self, request: Any, response: Any) -> Any:
        """Withdraw what never was true."""
        return await self._remove(request, response, self.memory.retract)

    async def purge(self, request: Any, response: Any) -> Any:
        """Delete for good."""
        return await self._remove(request, response, self.memory.purge)

    async def set_map(self, request: Any, response: Any) -> Any:
        """Switch to another map."""
        return await self.writer.do(lambda: self._set_map(request, response))

    async def flush(self, request: Any, response: Any) -> Any:
        """Process and commit what perception has received."""
        until_ns = stamp_ns(request.until, 'until')
        response.pending = await self._flushed(until_ns, self._timeout(request.timeout_s))
        response.watermark = stamp_msg(self.perception.status().watermark_ns)
        response.sequence = self.memory.sequence
        return response

    async def snapshot(self, request: Any, response: Any) -> Any:
        """Flush, and answer with the digest of what is believed and open."""
        path = checked_text(request.copy_path, 'copy_path')
        if path and file_named(path, room='').exists():
            raise InvalidRequestError(
                f'copy_path: {path!r} exists; nothing is overwritten', field='copy_path'
            )
        pending = await self._flushed(None, FLUSH_S)
        return await self.writer.do(lambda: self._snapshot(path, pending, response))

    def _write(self, request: Any, response: Any) -> Any:
        if not request.items:
            raise InvalidRequestError('items: empty; a write needs at least one', field='items')
        checked_text(request.request_id, 'request_id')
        items = [item_from_msg(msg, f'items[{index}]') for index, msg in enumerate(request.items)]
        self.watch.check(items[0].pose.stamp_ns if items[0].pose else None, 'items[0].header.stamp')
        drafts = self.placement.drafts(items, self.clock())
        if any(draft.future is not None and not draft.future.done() for draft in drafts):
            return drafts
        return self._store(request, response, drafts)

    def _store(self, request: Any, response: Any, drafts: Sequence[Draft]) -> Any:
        items = [self.placement.placed(draft) for draft in drafts]
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

    async def _remove(self, request: Any, response: Any, operation: Callable[..., Any]) -> Any:
        answer = await self.writer.do(lambda: self._removed(request, response, operation, None))
        if isinstance(answer, Future):
            centre = answer
            await Settled((centre,))
            answer = await self.writer.do(lambda: self._removed(request, response, operation, centre))
        return answer

    def _removed(
        self, request: Any, response: Any, operation: Callable[..., Any], centre: Future[Transform] | None
    ) -> Any:
        reason, actor = checked_text(request.reason, 'reason'), checked_text(request.actor, 'actor')
        # What perception calls stale is no less meant than the rest.
        query: MemoryQuery = query_from_msg(request.filter).model_copy(update={'include_stale': True})
        centre = centre or self.placement.centre(query)
        if centre is not None and not centre.done():
            return centre
        query = self.placement.centred(query, centre)
        removal = operation(query, reason=reason, actor=actor, dry_run=request.dry_run)
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

    def _set_map(self, request: Any, response: Any) -> Any:
        map_id = checked_text(request.map_id, 'map_id')
        if not map_id:
            raise InvalidRequestError("map_id: '' names no map", field='map_id')
        response.previous = self.memory.set_map(map_id, create=request.create)
        if response.previous != map_id:
            self.perception.set_map(map_id)
            self.pending.finish('the map was switched')
            self.transforms.clear()
        return response

    def _timeout(self, given_s: float) -> float:
        if not (math.isfinite(given_s) and 0.0 <= given_s <= MAX_FLUSH_S):
            raise InvalidRequestError(
                f'timeout_s: {given_s} is no time to wait: 0 to {MAX_FLUSH_S:g} s', field='timeout_s'
            )
        return given_s or FLUSH_S

    async def _flushed(self, until_ns: int | None, timeout_s: float) -> int:
        """Flush until nothing waits any more, or the time is over; return what still waits."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            changed = self.perception.changed()
            pending = await self.writer.do(lambda: self.perception.flushed(until_ns))
            if not pending or time.monotonic() >= deadline_s:
                return pending
            await Settled((changed,))

    def _snapshot(self, path: str, pending: int, response: Any) -> Any:
        if path:
            self.memory.snapshot(path)
        manifest = dict(self.memory.manifest())
        response.digest = manifest.pop('digest')
        response.sequence = manifest.pop('sequence')
        response.complete = bool(manifest.pop('complete')) and not pending
        if pending:
            manifest['pending'] = pending
        response.manifest_json = json.dumps(manifest, default=str)
        return response
