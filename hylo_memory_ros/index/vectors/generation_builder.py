"""Builder of generations in a background thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.domain.identity import EmbeddingDigest, Ordering
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
from hylo_memory_ros.index.vectors.space_table import SpaceTable

__all__ = ['BuildCancelledError', 'build_generation']

_SAMPLE = 8192
# Vectors added to a graph between two checks for cancellation.
_STEP = 512


class BuildCancelledError(Exception):
    """The build was cancelled."""


def build_generation(
    table: SpaceTable,
    records: Sequence[Record],
    source: tuple[str, int],
    before: Generation | None,
    check: Callable[[], None],
) -> tuple[Generation, Artifact]:
    """Build a generation of the first vectors of a table, and its artifact.

    Parameters
    ----------
    records : sequence of Record
        Of the vectors, in order.
    source : (str, int)
        Epoch and sequence of the store that the records are from.
    before : Generation, optional
        Earlier generation, whose graph is continued if it is of the same vectors.
    check : callable
        Raises `BuildCancelledError` to cancel the build.
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
    for first, vectors, present in table.slots.blocks(start, count):
        _reject_gaps(present)
        for step in range(0, len(vectors), _STEP):
            check()
            codec.add(index, first + step, vectors[step : step + _STEP])
    return codec.parts(index)


def _encoded(
    codec: Codec, table: SpaceTable, count: int, check: Callable[[], None]
) -> dict[str, NDArray[Any]]:
    assert not isinstance(codec, GraphCodec)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _SAMPLE)).astype(np.int64))
    sample, present = table.slots.take(chosen)
    parts: dict[str, NDArray[Any]] = dict(codec.train(sample if present is None else sample[present]))
    pieces: dict[str, list[NDArray[Any]]] = {}
    for _, vectors, block_present in table.slots.blocks(0, count):
        check()
        _reject_gaps(block_present)
        for name, piece in codec.encode(vectors).items():
            pieces.setdefault(name, []).append(piece)
    return parts | {name: np.concatenate(each) for name, each in pieces.items()}


def _reject_gaps(present: NDArray[np.bool_] | None) -> None:
    if present is not None and not present.all():
        raise BuildCancelledError
