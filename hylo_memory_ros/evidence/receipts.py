"""Receipts of retrievals: the query, the state it was answered from, the evidence, and their replay."""

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
from hylo_memory_ros.evidence.prompts import Rendering
from hylo_memory_ros.index.vectors.generation import embedding_digest
from hylo_memory_ros.model import CandidateEvidence, MemoryKind, MemoryQuery, QueryResult
from hylo_memory_ros.model.embedding import EmbeddingSpace, undeclared_space

_COUNTED = (
    'requested', 'returned', 'after_filter', 'scanned', 'missing', 'stale', 'corrupt', 'reranked',
)  # fmt: skip
APPROXIMATE = 'approximate_candidate_generation_with_exact_rerank'
"""Exactness of an answer of which some source returned approximate candidates."""
_EXACT = 'exact_reference'


class CandidateDigest(LayerDigest, layer='candidates'):
    """Of how one source found its candidates: a link of the chain, no identity of anything stored."""


@dataclass(frozen=True, slots=True)
class RecordedQuery:
    """Facts of a retrieval at the moment of its answer, of which the receipt is made later."""

    receipt_id: str
    """Its id."""
    query: MemoryQuery
    """The query."""
    result: QueryResult
    """The answer."""
    epoch: str
    """History of the store."""
    evaluated_at_ns: int
    """Service clock."""
    store_sequence: int
    """Newest transaction at that moment."""
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


def receipt_body(recorded: RecordedQuery) -> dict[str, Any]:
    """Return a receipt as a JSON object; see ``srv/Receipt.srv`` and the README."""
    result = recorded.result
    query = query_facts(recorded.query)
    sources = [_source(evidence) for evidence in result.evidence]
    approximate = any(one.exactness != _EXACT for one in result.evidence)
    return {
        'id': recorded.receipt_id,
        'kind': 'retrieval',
        'epoch': recorded.epoch,
        'evaluated_at_ns': recorded.evaluated_at_ns,
        'as_of_ns': result.as_of_ns,
        'sequence': result.sequence,
        'store_sequence': recorded.store_sequence,
        'map_id': recorded.map_id,
        'episode': recorded.episode,
        'query': query,
        'query_digest': Sha256.of(canonical_bytes(query)),
        'plan': list(result.plan),
        'sources': sources,
        'candidates': {name: sum(source[name] for source in sources) for name in _COUNTED},
        'exactness': APPROXIMATE if approximate else _EXACT,
        'degradations': [text for source in sources for text in source['degradations']],
        'fallback': '; '.join(source['fallback'] for source in sources if source['fallback']),
        'total': result.total,
        'total_is_lower_bound': result.total_is_lower_bound,
        'truncated': result.truncated,
        'excluded': dict(result.excluded),
        'hits': _hits(recorded),
        'purged': 0,
        'render': None if recorded.rendering is None else render_facts(recorded.rendering),
    }


def query_facts(query: MemoryQuery) -> dict[str, Any]:
    """Return the fields of a query that are set as a JSON object, equal for equal queries."""
    facts = query.model_dump(mode='json', exclude_defaults=True)
    if 'kinds' in facts:
        facts['kinds'] = sorted(facts['kinds'])
    return facts


def _source(evidence: CandidateEvidence) -> dict[str, Any]:
    facts = {**asdict(evidence), 'degradations': list(evidence.degradations)}
    return {**facts, 'digest': CandidateDigest.of(facts)}


def _hits(recorded: RecordedQuery) -> list[dict[str, Any]]:
    facts = []
    for position, hit in enumerate(recorded.result):
        item = hit.item
        fact: dict[str, Any] = {
            'id': item.id,
            'position': position,
            'score': hit.score,
            'sequence': hit.sequence,
            'kind': item.kind.value,
            'record': None,
            'embeddings': {
                name: _embedding(recorded, name, item.id or '', vector)
                for name, vector in item.embeddings.items()
            },
        }
        if item.kind is not MemoryKind.WORKING:
            fact['record'] = SemanticIdentity.of(
                item, recorded.identity_scope, valid_to_ns=hit.valid_to_ns, from_seq=hit.sequence
            ).digest
        facts.append(fact)
    return facts


def _embedding(recorded: RecordedQuery, name: str, item_id: str, vector: Sequence[float]) -> EmbeddingDigest:
    space = recorded.spaces.get(name) or undeclared_space(len(vector))
    return embedding_digest(name, space, item_id, sha256(np.asarray(vector, dtype='<f4').tobytes()).digest())


def render_facts(rendering: Rendering) -> dict[str, Any]:
    """Return the identities of a rendering, without its text."""
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
