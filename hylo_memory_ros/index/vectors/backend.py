"""How one space is searched: exactly, or through a derived generation that is always reranked exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index.vectors._space import Asking, Compared, SpaceTable
from hylo_memory_ros.index.vectors._store import VectorSource
from hylo_memory_ros.index.vectors.evidence import CandidateEvidence
from hylo_memory_ros.model.space import EmbeddingSpace

__all__ = ['Searched']


class Searched:
    """One space with its backend."""

    def __init__(self, name: str, space: EmbeddingSpace, source: VectorSource) -> None:
        self.table = SpaceTable(name, space, source)

    def search(
        self, asked: Asking, version_rows: NDArray[np.int64] | None
    ) -> tuple[Compared, CandidateEvidence]:
        """Return the most similar rows, and how they were found."""
        ranked = self.table.exact(asked, version_rows)
        return ranked, CandidateEvidence(
            'exact',
            requested=asked.k,
            returned=ranked.matching,
            after_filter=ranked.matching,
            scanned=ranked.scanned,
            missing=ranked.missing,
            reranked=ranked.reranked,
        )

    def loaded(self) -> None:
        """Follow a complete load."""

    def grown(self) -> None:
        """Follow a commit."""

    def remove(self, assertions: Sequence[int]) -> None:
        """Delete vectors and their versions for good."""
        self.table.remove(assertions)

    def close(self) -> None:
        """End every thread."""
