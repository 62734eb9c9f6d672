"""Handlers of `~/episode`: begin and end of an episode.

What perception received before a begin or an end, and can be decided, is committed before it, so that
it belongs to the side on which it was seen.
"""

from __future__ import annotations

from hylo_memory_ros.errors import ClockError, InvalidRequestError
from hylo_memory_ros.ros.convert.fields import checked_text, scope_of
from hylo_memory_ros.ros.services.registration import Handlers, service
from hylo_memory_ros.srv import Episode


class EpisodeHandlers(Handlers):
    """The service ``episode``."""

    @service(Episode)
    async def episode(self, request: Episode.Request, response: Episode.Response) -> Episode.Response:
        """Begin or end an episode."""
        op = checked_text(request.op, 'op')
        if op not in (Episode.Request.BEGIN, Episode.Request.END):
            raise InvalidRequestError(f"op: {op!r} is neither 'begin' nor 'end'", field='op')
        change = self._begin if op == Episode.Request.BEGIN else self._end
        return await self.context.writer.do(lambda: change(request, response))

    def _begin(self, request: Episode.Request, response: Episode.Response) -> Episode.Response:
        if request.outcome:
            raise InvalidRequestError(
                f'outcome: {request.outcome!r}: given with begin, expected with end', field='outcome'
            )
        if not self.context.clock():
            raise ClockError('clock: it has not started, so no episode can begin')
        name, note = checked_text(request.id, 'id'), checked_text(request.note, 'note')
        scope, actor = scope_of(request.scope, ''), checked_text(request.actor, 'actor')
        self.context.perception.settle()
        response.id = self.memory.begin_episode(name, scope, note, actor).id
        return response

    def _end(self, request: Episode.Request, response: Episode.Response) -> Episode.Response:
        if request.scope:
            raise InvalidRequestError(
                f'scope: {list(request.scope)}: given with end, expected with begin', field='scope'
            )
        name, note = checked_text(request.id, 'id'), checked_text(request.note, 'note')
        outcome, actor = checked_text(request.outcome, 'outcome'), checked_text(request.actor, 'actor')
        self.context.perception.settle()
        ended = self.memory.end_episode(name, outcome, note, actor)
        response.id = ended.id
        response.message = f'ended after {ended.duration_s:.3f} s, remembered at sequence {ended.end_seq}'
        return response
