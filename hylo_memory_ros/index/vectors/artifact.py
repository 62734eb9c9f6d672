"""File of an approximate index beside the database, verified when loaded, rebuilt when it does not match."""

from __future__ import annotations

import glob
import io
import json
import os
import re
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.domain.identity import (
    DerivedGenerationIdentity,
    EmbeddingDigest,
    Ordering,
    require_ordering,
)
from hylo_memory_ros.errors import HyloMemoryError
from hylo_memory_ros.index.vectors.generation import (
    Codec,
    Generation,
    Record,
    codec_of,
    digest_of_records,
    embedding_digests,
    identity_of,
)
from hylo_memory_ros.index.vectors.hnsw import HnswCodec, HnswCodes
from hylo_memory_ros.index.vectors.space_table import SpaceTable
from hylo_memory_ros.model.embedding import EmbeddingSpace

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
        if isinstance(codec, HnswCodec)
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
    codec: HnswCodec, table: SpaceTable, count: int, before: Generation | None, check: Callable[[], None]
) -> dict[str, NDArray[Any]]:
    index, start = codec.empty(), 0
    if before is not None and isinstance(before.codes, HnswCodes) and len(before) <= count:
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
    assert not isinstance(codec, HnswCodec)
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


_MAGIC = b'hylo-generation-1\n'


class ArtifactError(Exception):
    """A saved generation cannot be used; `kind` is missing, stale or corrupt."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Artifact:
    """Saved form of a generation.

    Attributes
    ----------
    header : dict
        Its identity, and the checksum of the body.
    ordering : dict of ndarray
        Assertions, item ids and embedding digests, in the order of the vectors.
    codes : dict of ndarray
        Codes and radii.
    """

    def __init__(
        self,
        identity: DerivedGenerationIdentity,
        metric: str,
        records: Sequence[Record],
        digests: Sequence[EmbeddingDigest],
        codes: dict[str, NDArray[Any]],
    ) -> None:
        names = '\n'.join(json.dumps(item_id) for _, item_id, _ in records).encode()
        self.identity = identity
        self.codes = codes
        self.ordering: dict[str, NDArray[Any]] = {
            'assertions': np.array([assertion for assertion, _, _ in records], np.int64),
            'item_ids': np.frombuffer(names, np.uint8),
            'vector_digests': np.frombuffer(b''.join(digest for _, _, digest in records), np.uint8),
            'embedding_digests': np.frombuffer(b''.join(digest.raw for digest in digests), np.uint8),
        }
        self.header = {'identity': identity.fields, 'metric': metric, 'digest': str(identity.digest)}

    @property
    def code_bytes(self) -> int:
        """Bytes of codes and radii."""
        return sum(part.nbytes for part in self.codes.values())

    @property
    def ordering_bytes(self) -> int:
        """Bytes of the ordering."""
        return sum(part.nbytes for part in self.ordering.values())

    def packed(self) -> bytes:
        """Return the content of the file."""
        body = io.BytesIO()
        parts: dict[str, Any] = {f'ordering.{name}': part for name, part in self.ordering.items()}
        parts |= {f'codes.{name}': part for name, part in self.codes.items()}
        np.savez(body, **parts)
        data = body.getvalue()
        header = json.dumps(self.header | {'checksum': sha256(data).hexdigest()}, sort_keys=True).encode()
        return _MAGIC + len(header).to_bytes(4, 'big') + header + data


class Artifacts:
    """Saved generations of one database.

    Parameters
    ----------
    database : Path or None
        The database file; None: nothing is saved.
    read_only : bool
        Load, and write nothing.
    """

    def __init__(self, database: Path | None, *, read_only: bool = False) -> None:
        self._database = database
        self._read_only = read_only

    def save(self, space: str, artifact: Artifact) -> None:
        """Write a generation beside the database, atomically, and delete the earlier ones.

        Raises
        ------
        OSError
            It cannot be written; earlier files stay.
        """
        if self._database is None or self._read_only:
            return
        digest = str(artifact.identity.digest).rpartition(':')[2][:16]
        target = self._database.with_name(f'{self._stem(space)}-{digest}.generation')
        unfinished = target.with_name(f'.{target.name}.new')
        try:
            with unfinished.open('wb') as file:
                file.write(artifact.packed())
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(target)
        finally:
            unfinished.unlink(missing_ok=True)
        for other in self._saved(space):
            if other != target:
                other.unlink(missing_ok=True)

    def drop(self, space: str) -> None:
        """Delete every saved generation of a space, and unfinished files of a killed process."""
        if self._read_only or self._database is None:
            return
        unfinished = self._database.parent.glob(f'.{glob.escape(self._stem(space))}-*.new')
        for path in (*self._saved(space), *unfinished):
            path.unlink(missing_ok=True)

    def drop_others(self, spaces: Collection[str]) -> None:
        """Delete the saved generations of all other spaces."""
        if self._read_only or self._database is None:
            return
        kept = {self._stem(space) for space in spaces}
        for path in self._database.parent.glob(f'{glob.escape(self._database.name)}.vectors-*.generation'):
            if path.name.rpartition('-')[0] not in kept:
                path.unlink(missing_ok=True)

    def load(
        self, name: str, space: EmbeddingSpace, epoch: str, sequence: int, records: Sequence[Record]
    ) -> Generation:
        """Return the saved generation of a space if it is of exactly these vectors.

        Parameters
        ----------
        records : sequence of Record
            Records of the store, in order; the generation may be of the first of them.

        Raises
        ------
        ArtifactError
            None is saved, it is of another space, database, codec or state, or it is damaged.
        """
        saved = self._saved(name)
        if not saved:
            raise ArtifactError('missing', 'no generation is saved')
        try:
            header, data = _unpacked(saved[-1].read_bytes())
        except OSError as exc:
            raise ArtifactError('missing', f'{saved[-1].name}: {exc.strerror}') from exc
        return _fitting(header, data, name, space, (epoch, sequence), records)

    def _saved(self, space: str) -> list[Path]:
        if self._database is None:
            return []
        stem = self._stem(space)
        return sorted(
            path
            for path in self._database.parent.iterdir()
            if path.name.startswith(stem + '-') and path.suffix == '.generation'
        )

    def _stem(self, space: str) -> str:
        assert self._database is not None
        readable = re.sub(r'[^A-Za-z0-9._-]', '_', space)[:48]
        return f'{self._database.name}.vectors-{readable}-{sha256(space.encode()).hexdigest()[:8]}'


def _unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    start = len(_MAGIC) + 4
    try:
        if not data.startswith(_MAGIC):
            raise ValueError('it does not begin as a generation does')
        size = int.from_bytes(data[len(_MAGIC) : start], 'big')
        header: dict[str, Any] = json.loads(data[start : start + size])
        body = data[start + size :]
        if sha256(body).hexdigest() != header['checksum']:
            raise ValueError('its checksum is another')
        with np.load(io.BytesIO(body), allow_pickle=False) as parts:
            return header, {name: parts[name] for name in parts.files}
    except (ValueError, KeyError, TypeError, OSError, EOFError) as exc:
        raise ArtifactError('corrupt', f'the saved generation is damaged: {exc}') from exc


def _fitting(
    header: dict[str, Any],
    parts: dict[str, NDArray[Any]],
    name: str,
    space: EmbeddingSpace,
    source: tuple[str, int],
    records: Sequence[Record],
) -> Generation:
    try:
        identity = DerivedGenerationIdentity(**header['identity'])
        if str(identity.digest) != header['digest']:
            raise ArtifactError('corrupt', 'the saved generation is not what its identity says')
        codec = codec_of(space)
        expected = {
            'space': (identity.space, name),
            'dimension': (identity.dimension, space.dimension),
            'metric': (header['metric'], space.metric),
            'database': (identity.source.epoch, source[0]),
            'family': (identity.family, codec.family),
            'codec': (identity.codec, codec.profile),
            'codec_version': (identity.codec_version, codec.version),
            'seed': (identity.seed, codec.seed),
        }
        for what, (found, wanted) in expected.items():
            if found != wanted:
                raise ArtifactError('stale', f'{what}: saved for {found!r}, needed for {wanted!r}')
        if identity.source.sequence > source[1]:
            raise ArtifactError('stale', f'sequence: saved at {identity.source.sequence}, now {source[1]}')
        count = identity.ordering.count
        assertions = np.asarray(parts['ordering.assertions'], np.int64)
        held = records[:count]
        if assertions.tolist() != [assertion for assertion, _, _ in held]:
            raise ArtifactError('stale', 'ordering: other vectors are in the store')
        digests = b''.join(digest for _, _, digest in held)
        if parts['ordering.vector_digests'].tobytes() != digests:
            raise ArtifactError('stale', 'ordering: a vector in the store is another')
        require_ordering(identity, embedding_digests(name, space, held))
        codes = {part[6:]: values for part, values in parts.items() if part.startswith('codes.')}
        return Generation(identity, codec, codec.codes(codes), assertions, digest_of_records(held))
    except (HyloMemoryError, ValueError, KeyError, TypeError, IndexError, RuntimeError) as exc:
        raise ArtifactError('corrupt', f'the saved generation cannot be read: {exc}') from exc
