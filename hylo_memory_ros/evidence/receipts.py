"""The receipt of a retrieval: its query, the state it was answered from, and the evidence of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
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
from hylo_memory_ros.evidence.prompts.render import Rendering
from hylo_memory_ros.index.vectors.generation import embedding_digest
from hylo_memory_ros.model import CandidateEvidence, MemoryKind, MemoryQuery, QueryResult
from hylo_memory_ros.model.embedding import EmbeddingSpace, undeclared_space

__all__ = [
    'APPROXIMATE',
    'CandidateDigest',
    'RecordedQuery',
    'query_facts',
    'receipt_body',
    'render_facts',
]

_COUNTED = (
    'requested', 'returned', 'after_filter', 'scanned', 'missing', 'stale', 'corrupt', 'reranked',
)  # fmt: skip
APPROXIMATE = 'approximate_candidate_generation_with_exact_rerank'
"""Exactness of an answer of which some source returned approximate candidates."""
_EXACT = 'exact_reference'


class CandidateDigest(LayerDigest):
    """Of how one source found its candidates: a link of the chain, no identity of anything stored."""

    __slots__ = ()
    layer, prefix = 'candidates', 'candidates:sha256:'


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
