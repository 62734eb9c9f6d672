"""`~/episode`: begins and ends stretches of work.

The handler is a coroutine; what it changes runs in the one writer's thread. What perception received
before a begin or an end, and can be decided, is committed before it, so that it counts to the side on
which it was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hylo_memory_ros.errors import ClockError, InvalidRequestError
from hylo_memory_ros.ros.convert.fields import checked_text, scope_of
from hylo_memory_ros.ros.perception.perception import Perception
from hylo_memory_ros.ros.runtime.worker_pool import WorkerPool
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.srv import Episode

__all__ = ['EpisodeHandler']


@dataclass(frozen=True)
class EpisodeHandler:
    """What begins and ends the episodes of one memory."""

    memory: MemoryService
    """Which carries them."""
    writer: WorkerPool
    """The one thread that writes."""
    perception: Perception
    """Whose pending work is committed first."""
    clock: Callable[[], int]
    """The node's clock, nanoseconds; 0 while it has not started."""

    async def episode(self, request: Any, response: Any) -> Any:
        """Begin or end an episode."""
        op = checked_text(request.op, 'op')
        if op not in (Episode.Request.BEGIN, Episode.Request.END):
            raise InvalidRequestError(f"op: {op!r} is neither 'begin' nor 'end'", field='op')
        acts = self._begin if op == Episode.Request.BEGIN else self._end
        return await self.writer.do(lambda: acts(request, response))

    def _begin(self, request: Any, response: Any) -> Any:
        if request.outcome:
            raise InvalidRequestError(
                f'outcome: {request.outcome!r}: it is told by the end, not by the begin', field='outcome'
            )
        if not self.clock():
            raise ClockError('clock: it has not started, so no episode can begin')
        name, note = checked_text(request.id, 'id'), checked_text(request.note, 'note')
        scope, actor = scope_of(request.scope, ''), checked_text(request.actor, 'actor')
        self.perception.settle()
        response.id = self.memory.begin_episode(name, scope, note, actor).id
        return response

    def _end(self, request: Any, response: Any) -> Any:
        if request.scope:
            raise InvalidRequestError(
                f'scope: {list(request.scope)}: it is told by the begin, not by the end', field='scope'
            )
        name, note = checked_text(request.id, 'id'), checked_text(request.note, 'note')
        outcome, actor = checked_text(request.outcome, 'outcome'), checked_text(request.actor, 'actor')
        self.perception.settle()
        ended = self.memory.end_episode(name, outcome, note, actor)
        response.id = ended.id
        response.message = f'ended after {ended.duration_s:.3f} s, remembered at sequence {ended.end_seq}'
        return response
