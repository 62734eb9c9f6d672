"""Replay of a receipt: its query, repeated on the same state, and the comparison of both answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.evidence.receipts import APPROXIMATE
from hylo_memory_ros.model import MemoryKind, MemoryQuery, QueryResult

__all__ = ['Replay', 'compare_answers', 'replayed_query']


@dataclass(frozen=True, slots=True)
class Replay:
    """A receipt compared with the same query to the same state."""

    receipt_id: str
    """Its id."""
    same: bool
    """Whether both have the same ids in the same order."""
    ids: tuple[str, ...]
    """Ids of the receipt."""
    found: tuple[str, ...]
    """Ids of the answer now."""
    missing: tuple[str, ...]
    """Ids of the receipt alone."""
    added: tuple[str, ...]
    """Ids of the answer alone."""
    purged: int
    """Number of hits deleted for good since; without any, of statements."""
    reasons: tuple[str, ...]
    """Reasons for a difference, one sentence each."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)


def replayed_query(body: Mapping[str, Any]) -> MemoryQuery:
    """Return the query of a receipt, at the state that it was answered from.

    Raises
    ------
    InvalidRequestError
        The receipt is of an association, or its query was purged.
    """
    if body.get('kind') != 'retrieval':
        raise InvalidRequestError(f'receipt: {body["id"]} is of an association: only retrievals are replayed')
    if body['query'] is None:
        raise InvalidRequestError(f'receipt: the query of {body["id"]} was purged: it cannot be repeated')
    query = MemoryQuery.model_validate_json(json.dumps(body['query']))
    if query.cursor is not None:
        return query  # a cursor is pinned to both time axes itself
    return query.model_copy(
        update={'as_of_ns': body['as_of_ns'], 'known_seq': body['sequence'], 'known_at_ns': None}
    )


def compare_answers(body: Mapping[str, Any], result: QueryResult, matching: int | None = None) -> Replay:
    """Compare the answer to `replayed_query` with the receipt.

    Parameters
    ----------
    body : mapping
        The receipt.
    result : QueryResult
        The answer now.
    matching : int, optional
        Number of ids of the receipt that still match the query.
    """
    ids = tuple(hit['id'] for hit in body['hits'])
    found = tuple(hit.item.id or '' for hit in result)
    missing = tuple(name for name in ids if name not in set(found))
    added = tuple(name for name in found if name not in set(ids))
    replay = Replay(
        body['id'],
        ids == found and not body['purged'],
        ids,
        found,
        missing,
        added,
        body['purged'] or result.purged,
        (),
    )
    if replay.same:
        return replay
    reasons = [*_gone(body, replay), *_unrepeatable(body, result, replay.purged, matching)]
    return replace(replay, reasons=tuple(reasons) or ('the state differs: verify the memory',))


def _gone(body: Mapping[str, Any], replay: Replay) -> Iterator[str]:
    if body['purged']:
        yield f'purged: {replay.purged} of the hits were deleted for good since'
        if replay.added:
            yield f'{len(replay.added)} moved up into the places of what was purged'
    elif replay.purged:
        yield f'purged: {replay.purged} statements were deleted for good since'
    working = MemoryKind.WORKING.value
    if any(hit['kind'] == working and hit['id'] in replay.missing for hit in body['hits']):
        yield 'working memory keeps no history'


def _unrepeatable(
    body: Mapping[str, Any], result: QueryResult, purged: int, matching: int | None
) -> Iterator[str]:
    query = body['query']
    if query.get('text') is not None and not purged:
        yield 'ranks of words depend on everything that was written since'
        if matching is not None:
            lost = len(body['hits']) - matching
            yield f'{lost} of the ids no longer match' if lost else 'each of the ids still matches'
    if not query.get('include_stale', True) or 'min_existence' in query:
        yield 'existence is counted beside items and has no history'
    if 'min_helpfulness' in query or query.get('weights', {}).get('helpfulness'):
        yield 'helpfulness is counted beside items and has no history'
    then = [source['generation_id'] for source in body['sources']]
    now = [evidence.generation_id for evidence in result.evidence]
    if body['exactness'] == APPROXIMATE and then != now:
        yield 'candidates were approximate, and came from another generation than now'
