"""Canonical bytes, digests of statements and snapshots, and the six identities.

Similarity finds memories; only exact identity permits reuse. The layers, from what is remembered to
what is computed of it: `SemanticIdentity`, `EmbeddingIdentity`, `DerivedGenerationIdentity`,
`RenderedSegmentIdentity`, `TokenKvIdentity`, `CompressionArtifactIdentity`. Each has a digest of its
own class, and gates refuse one where another is meant.
"""

from __future__ import annotations

from hylo_memory_ros.domain.identity.artifact import Codec, CompressionArtifactIdentity, CompressionFigure
from hylo_memory_ros.domain.identity.digest import (
    CANONICAL_FORM,
    EMPTY_STATE,
    ArtifactDigest,
    EmbeddingDigest,
    GenerationDigest,
    Identity,
    LayerDigest,
    SegmentDigest,
    SemanticDigest,
    Sha256,
    TokenKvDigest,
    canonical_bytes,
    digest_of_state,
    update_state,
)
from hylo_memory_ros.domain.identity.prompt import (
    AttentionLayout,
    CachedPrefix,
    CacheLayout,
    ModelRevision,
    PositionLayout,
    RenderedSegmentIdentity,
    Reuse,
    SegmentType,
    Tokenizer,
    TokenKvIdentity,
    may_reuse,
    prefix_from_json,
)
from hylo_memory_ros.domain.identity.statement import (
    SemanticIdentity,
    Statement,
    content_bytes,
    details_of,
    identity_digest,
    is_moved,
    merged,
    statement_of,
    with_details,
)
from hylo_memory_ros.domain.identity.vectors import (
    EXACT,
    DerivedGenerationIdentity,
    EmbeddingIdentity,
    Ordering,
    SourceSnapshot,
    require_exact_rerank,
    require_ordering,
)

__all__ = [
    'CANONICAL_FORM',
    'EMPTY_STATE',
    'EXACT',
    'ArtifactDigest',
    'AttentionLayout',
    'CacheLayout',
    'CachedPrefix',
    'Codec',
    'CompressionArtifactIdentity',
    'CompressionFigure',
    'DerivedGenerationIdentity',
    'EmbeddingDigest',
    'EmbeddingIdentity',
    'GenerationDigest',
    'Identity',
    'LayerDigest',
    'ModelRevision',
    'Ordering',
    'PositionLayout',
    'RenderedSegmentIdentity',
    'Reuse',
    'SegmentDigest',
    'SegmentType',
    'SemanticDigest',
    'SemanticIdentity',
    'Sha256',
    'SourceSnapshot',
    'Statement',
    'TokenKvDigest',
    'TokenKvIdentity',
    'Tokenizer',
    'canonical_bytes',
    'content_bytes',
    'details_of',
    'digest_of_state',
    'identity_digest',
    'is_moved',
    'may_reuse',
    'merged',
    'prefix_from_json',
    'require_exact_rerank',
    'require_ordering',
    'statement_of',
    'update_state',
    'with_details',
]
