"""Building a generation from the vectors of a space, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.domain.identity import EmbeddingDigest, Ordering
from hylo_memory_ros.index.vectors._space import SpaceTable
from hylo_memory_ros.index.vectors.artifact import Artifact
from hylo_memory_ros.index.vectors.generation import (
    Codec,
    Generation,
    Record,
    codec_of,
    digest_of_records,
    embedding_digests,
    identity_of,
)
from hylo_memory_ros.index.vectors.hnsw import GraphCodec, GraphCodes

__all__ = ['AbandonedError', 'built']

_SAMPLE = 8192
# So many vectors go into a graph before the thread looks whether it is still wanted.
_STEP = 512


class AbandonedError(Exception):
    """What was being built is no longer wanted."""


def built(
    table: SpaceTable,
    records: Sequence[Record],
    source: tuple[str, int],
    before: Generation | None,
    check: Callable[[], None],
) -> tuple[Generation, Artifact]:
    """Return a generation of the first vectors of a table, and what it is saved as.

    Parameters
    ----------
    records : sequence of Record
        Of the vectors, in order.
    source : (str, int)
        Epoch and sequence of the store that they are from.
    before : Generation, optional
        An earlier one, whose graph is continued where it is of the same vectors.
    check : callable
        Raises `AbandonedError` to end the work.
    """
    codec = codec_of(table.space)
    codes = (
        _graph(codec, table, len(records), before, check)
        if isinstance(codec, GraphCodec)
        else _encoded(codec, table, len(records), check)
    )
    digests: list[EmbeddingDigest] = []
    for index, (_, digest) in enumerate(embedding_digests(table.name, table.space, records)):
        digests.append(digest)
        if index % _STEP == 0:
            check()
    names = (item_id for _, item_id, _ in records)
    identity = identity_of(
        table.name, table.space, codec, Ordering.of(zip(names, digests, strict=True)), source
    )
    artifact = Artifact(identity, table.metric, records, digests, codes)
    assertions = artifact.ordering['assertions']
    ready = Generation(identity, codec, codec.codes(codes), assertions, digest_of_records(records))
    return ready, artifact


def _graph(
    codec: GraphCodec, table: SpaceTable, count: int, before: Generation | None, check: Callable[[], None]
) -> dict[str, NDArray[Any]]:
    index, start = codec.empty(), 0
    if before is not None and isinstance(before.codes, GraphCodes) and len(before) <= count:
        index, start = before.codes.index.copy(), len(before)
    for first, vectors, there in table.slots.blocks(start, count):
        _refuse_gaps(there)
        for step in range(0, len(vectors), _STEP):
            check()
            codec.add(index, first + step, vectors[step : step + _STEP])
    return codec.parts(index)


def _encoded(
    codec: Codec, table: SpaceTable, count: int, check: Callable[[], None]
) -> dict[str, NDArray[Any]]:
    assert not isinstance(codec, GraphCodec)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(np.int64))
    sample, there = table.slots.take(chosen)
    parts: dict[str, NDArray[Any]] = dict(codec.train(sample if there is None else sample[there]))
    pieces: dict[str, list[NDArray[Any]]] = {}
    for _, vectors, there_too in table.slots.blocks(0, count):
        check()
        _refuse_gaps(there_too)
        for name, piece in codec.encode(vectors).items():
            pieces.setdefault(name, []).append(piece)
    return parts | {name: np.concatenate(each) for name, each in pieces.items()}


def _refuse_gaps(there: NDArray[np.bool_] | None) -> None:
    if there is not None and not there.all():
        raise AbandonedError
