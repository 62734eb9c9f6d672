"""Search by vector: exact, or through derived candidates that are always compared again exactly.

Reading order: `metric`, `_columns`, `_store`, `_space`; the codecs `turbo_quant`, `provekv_pool` and `hnsw`;
`generation`, `artifact`, `_building`; `backend`, `index`.
"""

from __future__ import annotations

from hylo_memory_ros.index.vectors.artifact import Artifacts
from hylo_memory_ros.index.vectors.evidence import CandidateEvidence, VectorHits
from hylo_memory_ros.index.vectors.index import VectorIndex
from hylo_memory_ros.index.vectors.metric import scores_of, similarities_of

__all__ = ['Artifacts', 'CandidateEvidence', 'VectorHits', 'VectorIndex', 'scores_of', 'similarities_of']
