"""Derived indexes (spatial and vectors): loading, update after commits, consistency check.

Threads: `follow` is called under the service's write lock, in the order of sequences.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping

from hylo_memory_ros.index import OPEN, BelievedRow, RowBatch, SpatialIndex
from hylo_memory_ros.index.vectors import Artifacts, VectorIndex
from hylo_memory_ros.model import EmbeddingSpace
from hylo_memory_ros.storage import CommitResult, SqliteStore

logger = logging.getLogger(__name__)


class Indexes:
    """Spatial index and vector index that follow a store.

    Parameters
    ----------
    store : SqliteStore
        The authority.
    background : bool
        Load in a thread of its own; until then the index answers `LoadingError`.
    spaces : mapping of str to EmbeddingSpace, optional
        The declared embedding spaces.
    read_only : bool
        Save no derived generation.
    """

    def __init__(
        self,
        store: SqliteStore,
        *,
        background: bool,
        spaces: Mapping[str, EmbeddingSpace] | None = None,
        read_only: bool = False,
    ) -> None:
        self._store = store
        self.spatial = SpatialIndex(store.now_ns)
        artifacts = Artifacts(store.path, read_only=read_only)
        self.vectors = VectorIndex(
            spaces or {}, store.reader, artifacts, lambda: (store.epoch, store.sequence)
        )
        self._thread: threading.Thread | None = None
        if background:
            # A million rows take seconds; a node must answer by key meanwhile.
            self._thread = threading.Thread(target=self._load, name='index-load')
            self._thread.start()
        else:
            self._load()

    def _load(self) -> None:
        try:
            # The sequence first: rows that arrive both ways are kept once, rows missed never.
            sequence = self._store.sequence
            self.spatial.load(self._batches(), sequence)
        except Exception:
            logger.exception('the spatial index could not be loaded')
        try:
            sequence = self._store.sequence
            batches = (
                self._store.reader.vector_batches(5_000),
                self._store.reader.vector_version_batches(50_000),
            )
            self.vectors.load(*batches, sequence)
        except Exception:
            logger.exception('the vectors could not be loaded')

    def _batches(self) -> Iterator[RowBatch]:
        return map(RowBatch.from_tuples, self._store.reader.spatial_batches(50_000))

    def follow(self, committed: CommitResult) -> None:
        """Take over what one transaction changed."""
        sequence = committed.change.sequence
        added = [
            BelievedRow(
                row.version_row,
                row.spatial_id,
                *committed.places[row.spatial_id],
                row.valid_from_ns,
                row.valid_to_ns,
                row.from_seq,
            )
            for row in committed.added
            if row.spatial_id is not None
        ]
        self.spatial.apply(sequence, added, committed.ended)
        if committed.removed:
            self.spatial.remove(committed.removed, sequence)
        versions = [
            (
                row.version_row,
                row.assertion_id,
                row.valid_from_ns,
                OPEN if row.valid_to_ns is None else row.valid_to_ns,
                row.from_seq,
                OPEN,
            )
            for row in committed.added
        ]
        self.vectors.apply(sequence, committed.vectors, versions, committed.ended)
        if committed.unsaid:
            self.vectors.remove(committed.unsaid, sequence)

    def check(self, sequence: int) -> tuple[str, ...]:
        """Compare the index with the store, and reload it when they differ.

        Parameters
        ----------
        sequence : int
            One that both have reached; later commits may go on meanwhile.

        Returns
        -------
        tuple of str
            Each difference in one sentence.
        """
        found = self.spatial.verify(self._batches(), sequence)
        if found:
            logger.error('the spatial index differs from the store, and is reloaded: %s', found[0])
            self._load()
        return tuple(
            f'mirror: version row {difference.version_row} {difference.kind} {difference.fields}'
            for difference in found
        )

    def reload(self) -> None:
        """Fill the index with what the store holds now."""
        self._load()

    def close(self) -> None:
        """End every thread, a load too; safe to repeat."""
        self.spatial.close()
        self.vectors.close()
        if self._thread is not None:
            self._thread.join()
