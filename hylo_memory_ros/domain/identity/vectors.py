"""Identities of embeddings and of approximate indexes, and checks that an index matches its vectors."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from typing_extensions import Self

from hylo_memory_ros.domain.identity.digest import (
    Count,
    EmbeddingDigest,
    GenerationDigest,
    Identity,
    Named,
    Number,
    Sha256,
)
from hylo_memory_ros.errors import ConfigurationError, InvalidRequestError
from hylo_memory_ros.model.embedding import SpaceName
from hylo_memory_ros.model.validation import Contract

_ORDERING = b'hylo-ordering-1\0'


class EmbeddingIdentity(Identity):
    """Identity of one authoritative float32 vector, for exact rerank and for rebuilding indexes."""

    record_id: Named
    """Id of the item that it belongs to."""
    space: SpaceName
    """Embedding space, ``name@version``."""
    model: Named
    """Name of the model that made it."""
    dimension: Count
    """Its components."""
    provider_digest: Sha256
    """Digest of the provider: model file and configuration."""
    vector_digest: Sha256
    """Digest of its bytes, float32, little endian."""

    @property
    def digest(self) -> EmbeddingDigest:
        """The digest over every field."""
        return EmbeddingDigest.of(self.fields)


class Ordering(Contract):
    """Order of the vectors in a generation, which maps what is decoded back to rows."""

    count: Count
    """How many vectors there are."""
    digest: Sha256
    """Digest of the pairs, in order."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, EmbeddingDigest]]) -> Self:
        """Return the ordering of (item id, embedding digest) pairs.

        Raises
        ------
        InvalidRequestError
            There is no pair, or a digest is not that of an embedding.

        Examples
        --------
        >>> one, two = (EmbeddingDigest('embedding:sha256:' + digit * 64) for digit in 'ab')
        >>> Ordering.of([('x', one), ('y', two)]) == Ordering.of([('y', two), ('x', one)])
        False
        """
        state, count = sha256(_ORDERING), 0
        for item_id, embedding in pairs:
            name = item_id.encode('utf-8')
            raw = EmbeddingDigest.require(embedding, f'ordering[{count}]').raw
            # The length first, so that no two lists of pairs run together into the same bytes.
            state.update(len(name).to_bytes(4, 'big') + name + raw)
            count += 1
        if not count:
            raise InvalidRequestError('ordering: expected at least one vector', field='ordering')
        return cls(count=count, digest=Sha256(f'sha256:{state.hexdigest()}'))

    def check(self, pairs: Iterable[tuple[str, EmbeddingDigest]]) -> None:
        """Refuse pairs other than the recorded ones, or in another order.

        Raises
        ------
        InvalidRequestError
            Some pair is another, missing, or elsewhere.
        """
        given = Ordering.of(pairs)
        if given != self:
            raise InvalidRequestError(
                f'ordering: expected the {self.count} recorded vectors with digest {self.digest}, got '
                f'{given.count} with {given.digest}',
                field='ordering',
            )


class SourceSnapshot(Contract):
    """The state of the store that a generation was derived from."""

    epoch: Named
    """History of the database."""
    sequence: Number
    """Transaction up to which it looked."""


class DerivedGenerationIdentity(Identity):
    """Identity of a candidate index: rebuildable, never authoritative, always reranked exactly."""

    ordering: Ordering
    """The (item id, embedding digest) pairs, in order."""
    space: SpaceName
    """Embedding space of all its vectors."""
    dimension: Count
    """Their components."""
    family: Named
    """Candidate backend: ``usearch``, ``turbo_quant``, ``provekv_pool``."""
    codec: Named
    """Codec profile, such as ``i8`` or ``turbo_4bit``."""
    codec_version: Named
    """Version of the codec: other bytes from the same vectors are another version."""
    seed: Number
    """Seed of everything drawn at random."""
    source: SourceSnapshot
    """What it was derived from."""

    @property
    def digest(self) -> GenerationDigest:
        """The digest over every field."""
        return GenerationDigest.of(self.fields)


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
        raise InvalidRequestError(
            f'generation: expected a DerivedGenerationIdentity, got a {type(generation).__name__}',
            field='generation',
        )
    if pairs is None:
        raise InvalidRequestError(
            'ordering: missing, so search results cannot be mapped to rows', field='ordering'
        )
    generation.ordering.check(pairs)
