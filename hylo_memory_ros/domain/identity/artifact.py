"""The identity of compressed bytes: of a prompt's cache, or of a candidate index."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, model_validator

from hylo_memory_ros.domain.identity.digest import ArtifactDigest, GenerationDigest, Sha256, TokenKvDigest
from hylo_memory_ros.domain.identity.layer import Identity, Named
from hylo_memory_ros.model._contract import Contract

__all__ = ['Codec', 'CompressionArtifactIdentity']


def _source(value: Any) -> TokenKvDigest | GenerationDigest:
    if isinstance(value, str) and value.startswith(TokenKvDigest.prefix):
        return TokenKvDigest(value)
    if isinstance(value, str) and value.startswith(GenerationDigest.prefix):
        return GenerationDigest(value)
    raise ValueError(
        f'{value!r:.90} is the digest of neither tokens in a cache (token_kv:sha256:…) nor a candidate '
        'index (generation:sha256:…)'
    )


class Codec(Contract):
    """Compression method and its parameters."""

    family: Named
    """Codec, such as ``turbo_quant`` or ``fib_quant``."""
    version: Named
    """Its version."""
    profile: Named
    """Bits and groups, such as ``fib_k4_n32`` or ``turbo_4bit``."""
    key_codec: Named | None = None
    """Codec of keys; of a cache only."""
    value_codec: Named | None = None
    """Codec of values; of a cache only."""
    radii_codec: Named | None = None
    """Codec of lengths, where they are kept apart."""
    outlier_policy: Named | None = None
    """What happens to outliers."""
    window_policy: Named | None = None
    """Tokens that stay uncompressed: sinks and the most recent."""


class CompressionArtifactIdentity(Identity):
    """Identity of compressed bytes and of their source."""

    source: Annotated[
        TokenKvDigest | GenerationDigest, PlainValidator(_source), PlainSerializer(str, return_type=str)
    ]
    """The tokens in a cache, or the candidate index, that was compressed."""
    codec: Codec
    """How."""
    bytes_digest: Sha256
    """Digest of the compressed bytes."""
    manifest_digest: Sha256
    """Digest of the manifest beside them."""
    receipt_digest: Sha256
    """Digest of the receipt of their making."""

    @model_validator(mode='after')
    def _applicable(self) -> CompressionArtifactIdentity:
        told = {'key_codec': self.codec.key_codec, 'value_codec': self.codec.value_codec}
        of_cache = isinstance(self.source, TokenKvDigest)
        wrong = [name for name, value in told.items() if (value is not None) != of_cache]
        if wrong:
            rule = 'a compressed cache has both' if of_cache else 'a candidate index has no keys and values'
            raise ValueError(f'codec: {", ".join(wrong)}: {rule}')
        return self

    @property
    def digest(self) -> ArtifactDigest:
        """The digest over every field."""
        return ArtifactDigest.of(self.fields)
