"""Vector index: exact search, or derived candidates that are always reranked exactly.

Reading order: `metric`, `space_table`; the codecs `turbo_quant`, `provekv_pool` (on
`sign_codes`) and `hnsw`; `generation`, `artifact`; `space_search`, `index`.
"""

from __future__ import annotations

from hylo_memory_ros.index.vectors.artifact import Artifacts
from hylo_memory_ros.index.vectors.index import VectorHits, VectorIndex
from hylo_memory_ros.index.vectors.metric import scores_of, similarities_of
from hylo_memory_ros.model import CandidateEvidence

__all__ = ['Artifacts', 'CandidateEvidence', 'VectorHits', 'VectorIndex', 'scores_of', 'similarities_of']
