"""The receipt of a retrieval: what was asked, of which state, how it was answered; and its replay."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from hylo_memory_ros.domain.identity import (
    EmbeddingDigest,
    LayerDigest,
    SemanticIdentity,
    Sha256,
    canonical_bytes,
)
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.evidence.prompts.render import Rendering
from hylo_memory_ros.index.vectors.generation import embedding_digest
from hylo_memory_ros.model import CandidateEvidence, MemoryKind, MemoryQuery, QueryResult
from hylo_memory_ros.model.embedding import EmbeddingSpace, undeclared

__all__ = [
    'CandidateDigest',
    'RecordedQuery',
    'Replay',
    'compared',
    'query_facts',
    'receipt_body',
    'render_facts',
    'replayed_query',
]

_COUNTED = (
    'requested', 'returned', 'after_filter', 'scanned', 'missing', 'stale', 'corrupt', 'reranked',
)  # fmt: skip
_EXACT, _APPROXIMATE = 'exact_reference', 'approximate_candidate_generation_with_exact_rerank'


class CandidateDigest(LayerDigest):
    """Of how one source found its candidates: a link of the chain, no identity of anything stored."""

    __slots__ = ()
    layer, prefix = 'candidates', 'candidates:sha256:'


@dataclass(frozen=True, slots=True)
class RecordedQuery:
    """What is known of a retrieval the moment it is answered; the receipt is made of it later."""

    receipt_id: str
    """Its id."""
    query: MemoryQuery
    """What was asked."""
    result: QueryResult
    """What was answered."""
    epoch: str
    """History of the store."""
    evaluated_at_ns: int
    """Service clock."""
    store_sequence: int
    """Newest transaction when it was asked."""
    map_id: str
    """The current map."""
    identity_scope: tuple[str, ...]
    """Scope names that belong to identities."""
    rendering: Rendering | None = None
    """The prompt that was made of it."""
    spaces: Mapping[str, EmbeddingSpace] = field(default_factory=dict)
    """Embedding spaces in use."""
    episode: str = ''
    """The episode that was open; empty: none was."""


def receipt_body(asked: RecordedQuery) -> dict[str, Any]:
    """Return a receipt as a JSON object; see ``srv/Receipt.srv`` and the README."""
    result = asked.result
    query = query_facts(asked.query)
    sources = [_source(evidence) for evidence in result.evidence]
    approximate = any(one.exactness != _EXACT for one in result.evidence)
    return {
        'id': asked.receipt_id,
        'kind': 'retrieval',
        'epoch': asked.epoch,
        'evaluated_at_ns': asked.evaluated_at_ns,
        'as_of_ns': result.as_of_ns,
        'sequence': result.sequence,
        'store_sequence': asked.store_sequence,
        'map_id': asked.map_id,
        'episode': asked.episode,
        'query': query,
        'query_digest': Sha256.of(canonical_bytes(query)),
        'plan': list(result.plan),
        'sources': sources,
        'candidates': {name: sum(source[name] for source in sources) for name in _COUNTED},
        'exactness': _APPROXIMATE if approximate else _EXACT,
        'degradations': [told for source in sources for told in source['degradations']],
        'fallback': '; '.join(source['fallback'] for source in sources if source['fallback']),
        'total': result.total,
        'total_is_lower_bound': result.total_is_lower_bound,
        'truncated': result.truncated,
        'excluded': dict(result.excluded),
        'hits': _hits(asked),
        'purged': 0,
        'render': None if asked.rendering is None else render_facts(asked.rendering),
    }


def query_facts(query: MemoryQuery) -> dict[str, Any]:
    """Return a query as a JSON object of what was set, the same for the same question."""
    facts = query.model_dump(mode='json', exclude_defaults=True)
    if 'kinds' in facts:
        facts['kinds'] = sorted(facts['kinds'])
    return facts


def _source(evidence: CandidateEvidence) -> dict[str, Any]:
    facts = {**asdict(evidence), 'degradations': list(evidence.degradations)}
    return {**facts, 'digest': CandidateDigest.of(facts)}


def _hits(asked: RecordedQuery) -> list[dict[str, Any]]:
    told = []
    for position, hit in enumerate(asked.result):
        item = hit.item
        fact: dict[str, Any] = {
            'id': item.id,
            'position': position,
            'score': hit.score,
            'sequence': hit.sequence,
            'kind': item.kind.value,
            'record': None,
            'embeddings': {
                name: _embedding(asked, name, item.id or '', vector)
                for name, vector in item.embeddings.items()
            },
        }
        if item.kind is not MemoryKind.WORKING:
            fact['record'] = SemanticIdentity.of(
                item, asked.identity_scope, valid_to_ns=hit.valid_to_ns, from_seq=hit.sequence
            ).digest
        told.append(fact)
    return told


def _embedding(asked: RecordedQuery, name: str, item_id: str, vector: Sequence[float]) -> EmbeddingDigest:
    space = asked.spaces.get(name) or undeclared(len(vector))
    return embedding_digest(name, space, item_id, sha256(np.asarray(vector, dtype='<f4').tobytes()).digest())


def render_facts(rendering: Rendering) -> dict[str, Any]:
    """Return which bytes a rendering has, without the text."""
    whole = rendering.whole
    return {
        'renderer': whole.renderer,
        'tokens': rendering.tokens,
        'left_out': list(rendering.left_out),
        'text': rendering.digest,
        'digest': whole.digest,
        'identity': whole.fields,
        'segments': [{**segment.fields, 'digest': segment.digest} for segment in rendering.segments],
    }


@dataclass(frozen=True, slots=True)
class Replay:
    """A receipt held against the same question to the same state."""

    receipt_id: str
    """Which receipt."""
    same: bool
    """Whether the same ids came, in the same order."""
    ids: tuple[str, ...]
    """What the receipt says."""
    found: tuple[str, ...]
    """What came now."""
    missing: tuple[str, ...]
    """Ids that did not come again."""
    added: tuple[str, ...]
    """Ids that did not come before."""
    purged: int
    """Hits that were deleted for good since; where none was, statements that were."""
    reasons: tuple[str, ...]
    """Why it is not the same; each in one sentence."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)


def replayed_query(body: Mapping[str, Any]) -> MemoryQuery:
    """Return the question of a receipt, asked of the state that it was answered from.

    Raises
    ------
    InvalidRequestError
        It is no receipt of a retrieval, or its query was purged.
    """
    if body.get('kind') != 'retrieval':
        raise InvalidRequestError(f'receipt: {body["id"]} is of an association: only retrievals are replayed')
    if body['query'] is None:
        raise InvalidRequestError(
            f'receipt: the query of {body["id"]} left with what was purged: nothing can be asked again'
        )
    query = MemoryQuery.model_validate_json(json.dumps(body['query']))
    if query.cursor is not None:
        return query  # a cursor is pinned to both time axes itself
    return query.model_copy(
        update={'as_of_ns': body['as_of_ns'], 'known_seq': body['sequence'], 'known_at_ns': None}
    )


def compared(body: Mapping[str, Any], result: QueryResult, matching: int | None = None) -> Replay:
    """Return what an answer to `replayed_query` shows.

    Parameters
    ----------
    body : mapping
        The receipt.
    result : QueryResult
        The answer now.
    matching : int, optional
        How many of the receipt's ids the question still finds when it is asked for them alone.
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
    if body['exactness'] == _APPROXIMATE and then != now:
        yield 'candidates were approximate, and came from another generation than now'
