"""Identities (digests) of prompt segments and of KV-cache entries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hylo_memory_ros.domain.identity.digest import (
    Count,
    Identity,
    Named,
    Number,
    SegmentDigest,
    Sha256,
    TokenKvDigest,
)
from hylo_memory_ros.model.validation import Contract

__all__ = [
    'AttentionLayout',
    'CacheLayout',
    'ModelRevision',
    'PositionLayout',
    'RenderedSegmentIdentity',
    'SegmentType',
    'TokenKvIdentity',
    'Tokenizer',
]

SegmentType = Literal['system', 'tool_schema', 'memory_prelude', 'retrieved_doc', 'user_turn', 'agent_tail']


class RenderedSegmentIdentity(Identity):
    """Identity of the bytes given to a tokenizer: other bytes of the same meaning are another segment."""

    renderer: Named
    """Renderer and its version, ``name@version``."""
    segment_type: SegmentType
    """What the segment is for."""
    source_ids: tuple[Named, ...]
    """Ids of the items in it, in order."""
    bytes_digest: Sha256
    """Digest of its text in UTF-8."""
    separator_digest: Sha256
    """Digest of the policy that separates and frames segments."""

    @property
    def digest(self) -> SegmentDigest:
        """The digest over every field."""
        return SegmentDigest.of(self.fields)


class Tokenizer(Contract):
    """Tokenizer and its configuration."""

    name: Named
    """Its name."""
    version: Named
    """Its version."""
    digest: Sha256
    """Digest of its files."""


class ModelRevision(Contract):
    """Model whose cache it is."""

    id: Named
    """Name of the model."""
    revision: Named
    """Its revision, such as a commit."""
    config_digest: Sha256
    """Digest of its configuration."""


class PositionLayout(Contract):
    """Position of the tokens in the prompt, and the encoding of positions."""

    policy_digest: Sha256
    """Digest of the position policy, such as RoPE with its base and scaling."""
    token_start: Number
    """Position of the first token."""
    token_end: Number
    """Position behind the last token."""

    @model_validator(mode='after')
    def _validate_range(self) -> PositionLayout:
        if self.token_end <= self.token_start:
            raise ValueError(f'position: the range [{self.token_start}, {self.token_end}) holds no token')
        return self


class AttentionLayout(Contract):
    """The shape of the cache."""

    layers: Count
    """Layers of the model."""
    kv_heads: Count
    """Key and value heads of a layer."""
    head_dim: Count
    """Components of a head."""
    layout: Named
    """How attention is laid out, such as ``gqa``."""


class CacheLayout(Contract):
    """Memory layout of the cache."""

    dtype: Named
    """Type of its numbers, such as ``bf16``."""
    layout: Named
    """Order of its axes, such as ``paged/16``."""


class TokenKvIdentity(Identity):
    """Identity of cached tokens: tokens, positions and model, as exact reuse needs."""

    segment: SegmentDigest
    """The rendered segment that was tokenized."""
    tokenizer: Tokenizer
    """What tokenized it."""
    model: ModelRevision
    """Model whose cache it is."""
    position: PositionLayout
    """Where its tokens stand."""
    attention: AttentionLayout
    """The shape of the cache."""
    token_ids: Annotated[tuple[Number, ...], Field(min_length=1, max_length=2**20)]
    """The tokens."""
    cache: CacheLayout
    """Memory layout of the cache."""

    @model_validator(mode='after')
    def _validate_tokens(self) -> TokenKvIdentity:
        span = self.position.token_end - self.position.token_start
        if span != len(self.token_ids):
            raise ValueError(
                f'token_ids: {len(self.token_ids)} tokens do not fill the range '
                f'[{self.position.token_start}, {self.position.token_end})'
            )
        return self

    @property
    def digest(self) -> TokenKvDigest:
        """The digest over every field."""
        return TokenKvDigest.of(self.fields)
