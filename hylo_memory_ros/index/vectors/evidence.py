"""What a search by vector tells of itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.model import CandidateEvidence

__all__ = ['CandidateEvidence', 'VectorHits']


@dataclass(frozen=True, slots=True)
class VectorHits:
    """Version rows, most similar first; at equal similarity the newest ``valid_from``, then the row."""

    version_rows: NDArray[np.int64]
    """Shape (n,)."""
    similarities: NDArray[np.float64]
    """Shape (n,), by the metric of the space, always higher is better; see `metric`."""
    sequence: int
    """What was believed as of this transaction."""
    evidence: CandidateEvidence
    """How they were found."""
