"""Handlers of the services that read: `~/query`, `~/history`, `~/changes`."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from concurrent.futures import Future

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model import MemoryQuery, QueryResult
from hylo_memory_ros.ros.convert.fields import checked_sequence, checked_text
from hylo_memory_ros.ros.convert.filters import query_from_msg
from hylo_memory_ros.ros.convert.items import PARTS
from hylo_memory_ros.ros.convert.results import (
    bytes_of_event,
    bytes_of_hit,
    bytes_of_texts,
    bytes_of_version,
    cursor_of,
    cursor_read,
    event_to_msg,
    fitting,
    hit_to_msg,
    point_to_msg,
    version_to_msg,
)
from hylo_memory_ros.ros.services.registration import Handlers, service
from hylo_memory_ros.srv import Changes, History, Query
from hylo_memory_ros.transforms import Transform

# Asked of the store at a time when the caller sets no limit; what fits into a reply decides.
PAGE = 1000


class QueryHandlers(Handlers):
    """Services that read: ``query``, ``history``, ``changes``."""

    @service(Query)
    async def query(self, request: Query.Request, response: Query.Response) -> Query.Response:
        """Answer a query."""
        return await self.answer_centred(
            self.context.readers, lambda centre: self._query(request, response, centre)
        )

    @service(History)
    async def history(self, request: History.Request, response: History.Response) -> History.Response:
        """Answer with the versions of one identity."""
        return await self.context.readers.do(lambda: self._history(request, response))

    @service(Changes)
    async def changes(self, request: Changes.Request, response: Changes.Response) -> Changes.Response:
        """Answer with what was committed after a sequence."""
        return await self.context.readers.do(lambda: self._changes(request, response))

    def _query(
        self, request: Query.Request, response: Query.Response, centre: Future[Transform] | None
    ) -> Query.Response | Future[Transform]:
        include = _parts(request.include)
        placement = self.context.placement
        core, pinned = cursor_read(checked_text(request.cursor, 'cursor'))
        query = query_from_msg(request.filter, k=request.k, cursor=core, explain=request.explain)
        moved = placement.needs_centre(query)
        if pinned is not None and query.near is not None:
            query = query.model_copy(update={'near': (pinned, query.near[1])})
        else:
            placed = placement.place_query(query, centre)
            if isinstance(placed, Future):
                return placed
            query = placed
        return self._answer(request, response, query, include, moved)

    def _answer(
        self,
        request: Query.Request,
        response: Query.Response,
        query: MemoryQuery,
        include: Collection[str],
        moved: bool,
    ) -> Query.Response:
        result: QueryResult = self.memory.query(query, receipt=request.receipt)
        shown = self._put_hits(request, response, result, include)
        if shown < len(result):
            # The cursor must say where this reply ends, not where the page would have.
            result = self.memory.query(query.model_copy(update={'k': shown}), receipt=request.receipt)
            shown = self._put_hits(request, response, result, include)
        response.sequence, response.total = result.sequence, result.total
        response.receipt_id = result.receipt_id
        response.total_is_lower_bound = result.total_is_lower_bound
        response.truncated = result.truncated or shown < len(result)
        response.cursor = cursor_of(result.cursor, result.center_used if moved else None)
        response.center_used = point_to_msg(result.center_used)
        response.excluded_reasons = list(result.excluded)
        response.excluded_counts = list(result.excluded.values())
        nearest = result.nearest_excluded_m
        response.nearest_excluded_m = math.nan if nearest is None else nearest
        response.message = '; '.join(result.notes)
        if result.purged:
            response.extra_json = json.dumps({'purged': result.purged})
        return response

    def _put_hits(
        self, request: Query.Request, response: Query.Response, result: QueryResult, include: Collection[str]
    ) -> int:
        if not request.ids_only:
            response.hits, _ = fitting(
                result,
                lambda hit: hit_to_msg(hit, include, explain=request.explain),
                bytes_of_hit,
                self.reply_limit,
            )
            return len(response.hits)
        hits, _ = fitting(
            result, lambda hit: hit, lambda hit: 48 + bytes_of_texts((hit.item.id or '',)), self.reply_limit
        )
        response.ids = [hit.item.id or '' for hit in hits]
        response.scores = [hit.score for hit in hits]
        response.positions = [
            part for hit in hits for part in (hit.item.pose.position if hit.item.pose else (math.nan,) * 3)
        ]
        return len(hits)

    def _history(self, request: History.Request, response: History.Response) -> History.Response:
        identity = {
            name: checked_text(getattr(request, name), name) or None
            for name in ('id', 'kind', 'key', 'map_id')
        }
        cursor = checked_text(request.cursor, 'cursor') or None
        result = self.memory.history(**identity, limit=request.limit or PAGE, cursor=cursor)
        now_ns = self.memory.now_ns()
        response.versions, cut = fitting(
            result.versions,
            lambda version: version_to_msg(version, PARTS, now_ns),
            bytes_of_version,
            self.reply_limit,
        )
        if cut:
            result = self.memory.history(**identity, limit=len(response.versions), cursor=cursor)
        response.cursor = result.cursor or ''
        return response

    def _changes(self, request: Changes.Request, response: Changes.Response) -> Changes.Response:
        epoch = checked_text(request.epoch, 'epoch') or self.memory.epoch
        after = checked_sequence(request.after_sequence, 'after_sequence')
        result = self.memory.changes((epoch, after), limit=request.limit or PAGE)
        response.events, _ = fitting(
            result.changes,
            lambda change: event_to_msg(change, result.epoch),
            bytes_of_event,
            self.reply_limit,
        )
        response.epoch, response.last_sequence, response.gap = result.epoch, result.last_sequence, result.gap
        return response


def _parts(include: Collection[str]) -> frozenset[str]:
    for part in include:
        if part not in PARTS:
            raise InvalidRequestError(
                f'include: {part!r} is none of {", ".join(sorted(PARTS))}', field='include'
            )
    return frozenset(include)
