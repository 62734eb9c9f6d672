"""Identity and measured size of compressed bytes: a prompt cache or an approximate index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, model_validator

from hylo_memory_ros.domain.identity.digest import (
    ArtifactDigest,
    GenerationDigest,
    Identity,
    Named,
    Sha256,
    TokenKvDigest,
)
from hylo_memory_ros.domain.identity.vectors import DerivedGenerationIdentity
from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.model.validation import Contract


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
    def _validate_codec(self) -> CompressionArtifactIdentity:
        codecs = {'key_codec': self.codec.key_codec, 'value_codec': self.codec.value_codec}
        of_cache = isinstance(self.source, TokenKvDigest)
        wrong = [name for name, value in codecs.items() if (value is not None) != of_cache]
        if wrong:
            rule = 'a compressed cache has both' if of_cache else 'a candidate index has no keys and values'
            raise ValueError(f'codec: {", ".join(wrong)}: {rule}')
        return self

    @property
    def digest(self) -> ArtifactDigest:
        """The digest over every field."""
        return ArtifactDigest.of(self.fields)


@dataclass(frozen=True, slots=True)
class CompressionFigure:
    """Measured size of a candidate index, always counted on its own bytes."""

    generation: GenerationDigest
    """The generation over our own vectors."""
    artifact: CompressionArtifactIdentity
    """The bytes that were counted."""
    artifact_bytes: int
    """Their number."""
    raw_bytes: int
    """Bytes of the same vectors in float32."""

    @property
    def ratio(self) -> float:
        """Artifact bytes / float32 bytes."""
        return self.artifact_bytes / self.raw_bytes

    @classmethod
    def measure(
        cls, generation: DerivedGenerationIdentity, artifact: CompressionArtifactIdentity, data: bytes
    ) -> CompressionFigure:
        """Count the bytes of an artifact of one of our generations.

        Parameters
        ----------
        generation : DerivedGenerationIdentity
            The vectors that were compressed.
        artifact : CompressionArtifactIdentity
            What they were compressed to.
        data : bytes
            The artifact itself.

        Raises
        ------
        InvalidRequestError
            The artifact is of a prompt's cache, of another generation, or has other bytes: a figure
            of something else says nothing about these vectors.
        """
        for value, kind in ((generation, DerivedGenerationIdentity), (artifact, CompressionArtifactIdentity)):
            if not isinstance(value, kind):
                raise InvalidRequestError(f'expected a {kind.__name__}, got {value!r:.90}')
        if not isinstance(artifact.source, GenerationDigest):
            raise InvalidRequestError(
                'artifact: it is of tokens in a cache; what was measured there says nothing about vectors',
                field='artifact',
            )
        # A ratio is published only for bytes that were made of these vectors.
        if artifact.source != generation.digest:
            raise InvalidRequestError(
                f'artifact: it is of {artifact.source}, not of {generation.digest}', field='artifact'
            )
        if Sha256.of(data) != artifact.bytes_digest:
            raise InvalidRequestError(
                f'data: {len(data)} bytes, {Sha256.of(data)}, are not the artifact, {artifact.bytes_digest}',
                field='data',
            )
        raw = 4 * generation.dimension * generation.ordering.count
        return cls(generation.digest, artifact, len(data), raw)
