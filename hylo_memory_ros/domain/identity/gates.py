"""The gates of the identity model that are not about prompts: code that refuses, each by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hylo_memory_ros.domain.identity.artifact import CompressionArtifactIdentity
from hylo_memory_ros.domain.identity.digest import EmbeddingDigest, GenerationDigest, Sha256
from hylo_memory_ros.domain.identity.vectors import DerivedGenerationIdentity
from hylo_memory_ros.errors import ConfigurationError, InvalidRequestError

__all__ = ['EXACT', 'CompressionFigure', 'require_exact_rerank', 'require_ordering']

EXACT = 'exact'
"""The one backend that is not derived: it compares every vector in float32."""


def require_exact_rerank(backend: str, *, exact_rerank: bool) -> None:
    """Refuse a derived candidate backend without exact float32 rerank.

    Raises
    ------
    ConfigurationError
        Its answers would be those of compressed vectors.

    Examples
    --------
    >>> require_exact_rerank('usearch', exact_rerank=False)
    Traceback (most recent call last):
    ...
    hylo_memory_ros.errors.ConfigurationError: exact_rerank: false with the derived backend 'usearch': ...
    """
    if backend != EXACT and not exact_rerank:
        raise ConfigurationError(
            f'exact_rerank: false with the derived backend {backend!r}: candidates of a derived index are '
            'never an answer before exact float32 compared them',
            backend=backend,
        )


def require_ordering(
    generation: DerivedGenerationIdentity, pairs: Iterable[tuple[str, EmbeddingDigest]] | None
) -> None:
    """Refuse a generation whose ordering is not recorded, or is another than its identity says.

    Parameters
    ----------
    generation : DerivedGenerationIdentity
        What it claims to be.
    pairs : iterable of (item id, embedding digest), optional
        What is recorded beside it, in the order of its vectors.

    Raises
    ------
    InvalidRequestError
        What it decodes could not be given back to rows.
    """
    if not isinstance(generation, DerivedGenerationIdentity):
        raise InvalidRequestError(f'generation: a {type(generation).__name__} is none', field='generation')
    if pairs is None:
        raise InvalidRequestError(
            'ordering: this generation records none, so what it decodes belongs to no row', field='ordering'
        )
    generation.ordering.check(pairs)


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
    def measured(
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
                raise InvalidRequestError(f'{value!r:.90} is no {kind.__name__}: nothing was measured')
        if not isinstance(artifact.source, GenerationDigest):
            raise InvalidRequestError(
                'artifact: it is of tokens in a cache; what was measured there says nothing about vectors',
                field='artifact',
            )
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
