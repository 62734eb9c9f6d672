"""How the candidates of an answer were found: what a receipt records of every source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ['CandidateEvidence', 'Exactness']

Exactness = Literal[
    'exact_reference',
    'approximate_candidate_generation_with_exact_rerank',
]


@dataclass(frozen=True, slots=True)
class CandidateEvidence:
    """What one source of candidates did for one query."""

    backend: str
    """What found them: ``mirror``, ``fts5``, ``sql``, ``working``, ``exact``, ``usearch``, …"""
    generation_id: str = ''
    """Derived generation that was searched; empty: none was."""
    requested: int = 0
    """How many candidates were asked for; 0: all."""
    returned: int = 0
    """How many the source gave."""
    after_filter: int = 0
    """How many of them passed every filter and both time axes."""
    scanned: int = 0
    """How many rows or vectors were looked at; 0 where the source does not count."""
    missing: int = 0
    """Matches that the generation did not hold."""
    stale: int = 0
    """Entries of the generation that are no longer what the store holds."""
    corrupt: int = 0
    """Entries that failed their digest."""
    reranked: int = 0
    """How many were compared again in exact float32."""
    exactness: Exactness = 'exact_reference'
    """Whether anything that matches can be missing."""
    degradations: tuple[str, ...] = ()
    """What was given up, each in one sentence."""
    fallback: str = ''
    """Why the exact way was taken instead of the configured one; empty: it was not."""
