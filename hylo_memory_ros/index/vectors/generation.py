"""Generation: an approximate index over a snapshot of one space, its codec and its digests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.domain.identity import (
    DerivedGenerationIdentity,
    EmbeddingDigest,
    EmbeddingIdentity,
    Ordering,
    Sha256,
    SourceSnapshot,
)
from hylo_memory_ros.index.vectors.hnsw import HnswCodec, HnswCodes
from hylo_memory_ros.index.vectors.provekv_pool import PoolCodec, PoolCodes
from hylo_memory_ros.index.vectors.turbo_quant import TurboCodes, TurboQuant
from hylo_memory_ros.model.embedding import EmbeddingSpace

Codec = HnswCodec | TurboQuant | PoolCodec
Codes = HnswCodes | TurboCodes | PoolCodes

Record = tuple[int, str, bytes]
"""Assertion, item id, SHA-256 of the vector."""


def codec_of(space: EmbeddingSpace) -> Codec:
    """Return the codec that a space declares."""
    if space.backend == 'usearch':
        return HnswCodec(space.dimension, space.metric, space.quantization)
    if space.backend == 'turbo_quant':
        return TurboQuant(space.dimension, space.bits, space.seed)
    return PoolCodec(space.dimension, space.seed)


def embedding_digest(name: str, space: EmbeddingSpace, item_id: str, digest: bytes) -> EmbeddingDigest:
    """Return the digest of the embedding identity of one stored vector.

    The name of the space replaces a model or provider that it does not declare: its vectors come from one
    source, which the declaration of the space identifies.
    """
    return EmbeddingDigest.of(
        _fields(name, space) | {'record_id': item_id, 'vector_digest': f'sha256:{digest.hex()}'}
    )


@lru_cache(maxsize=64)
def _validated(name: str, model: str, dimension: int, provider: str) -> EmbeddingIdentity:
    return EmbeddingIdentity(
        record_id='id',
        space=name,
        model=model or name,
        dimension=dimension,
        provider_digest=Sha256(provider) if provider else Sha256.of(name.encode()),
        vector_digest=Sha256.of(b''),
    )


def _fields(name: str, space: EmbeddingSpace) -> dict[str, Any]:
    # Validated once for a space: a generation has a digest for each of 100 000 vectors.
    return _validated(name, space.model, space.dimension, space.provider_digest).fields


def identity_of(
    name: str, space: EmbeddingSpace, codec: Codec, ordering: Ordering, source: tuple[str, int]
) -> DerivedGenerationIdentity:
    """Return the identity of a generation of a space; `source`: epoch and sequence."""
    return DerivedGenerationIdentity(
        ordering=ordering,
        space=name,
        dimension=space.dimension,
        family=codec.family,
        codec=codec.profile,
        codec_version=codec.version,
        seed=codec.seed,
        source=SourceSnapshot(epoch=source[0], sequence=source[1]),
    )


@dataclass(frozen=True, slots=True)
class Generation:
    """Candidate index with the identity of its vectors, in their order."""

    identity: DerivedGenerationIdentity
    codec: Codec
    codes: Codes
    assertions: NDArray[np.int64]
    """Shape (n,)."""
    records: bytes
    """Digest over item ids and vector digests, in order, to compare with the store."""

    id: str = field(init=False)
    """Digest of the identity."""

    def __post_init__(self) -> None:
        # Computed once: every answer contains it.
        object.__setattr__(self, 'id', str(self.identity.digest))

    def __len__(self) -> int:
        return len(self.assertions)


def digest_of_records(records: Sequence[Record]) -> bytes:
    """Return a digest over item ids and vector digests, in order."""
    state = sha256()
    for _, item_id, digest in records:
        name = item_id.encode()
        state.update(len(name).to_bytes(4, 'big') + name + digest)
    return state.digest()


def embedding_digests(
    name: str, space: EmbeddingSpace, records: Sequence[Record]
) -> Iterator[tuple[str, EmbeddingDigest]]:
    """Yield the pairs of an ordering: item id and embedding digest."""
    fields = _fields(name, space)
    for _, item_id, digest in records:
        record = {'record_id': item_id, 'vector_digest': f'sha256:{digest.hex()}'}
        yield item_id, EmbeddingDigest.of(fields | record)
