"""Canonical bytes and the digests that tell statements, identities and snapshots apart."""

from __future__ import annotations

from hylo_memory_ros.identity.canonical import CANONICAL_FORM, canonical_bytes
from hylo_memory_ros.identity.set_hash import EMPTY_STATE, digest_of_state, updated_state
from hylo_memory_ros.identity.statement import Statement, statement_of

__all__ = [
    'CANONICAL_FORM',
    'EMPTY_STATE',
    'Statement',
    'canonical_bytes',
    'digest_of_state',
    'statement_of',
    'updated_state',
]
