"""Data model: frozen, validated records in integer nanoseconds, metres and radians.

Reading order: `pose`, `time`, `embedding`, `item`, `skill`, `query`, `result`, `feedback`, `consolidation`;
`validation` has the types of their fields. Everything but `errors` and `plugins` may import from here.
"""

from __future__ import annotations

from hylo_memory_ros.model.consolidation import (
    Budget,
    Condensed,
    ConsolidationReport,
    Fill,
    KindRetention,
    RetentionReport,
    Reversion,
)
from hylo_memory_ros.model.embedding import EmbeddingSpace
from hylo_memory_ros.model.feedback import FeedbackResult, Helpfulness, Verdict
from hylo_memory_ros.model.item import MemoryItem, MemoryKind
from hylo_memory_ros.model.pose import Pose, validate_covariance
from hylo_memory_ros.model.query import MAX_K, MemoryQuery
from hylo_memory_ros.model.result import (
    AuditEntry,
    CandidateEvidence,
    Change,
    Changes,
    CorrectionResult,
    Episode,
    History,
    Hit,
    Outcome,
    QueryResult,
    Removal,
    Stats,
    Status,
    VerifyReport,
    Version,
    WriteEvent,
    WriteResult,
)
from hylo_memory_ros.model.skill import SKILL_STATUSES, SkillPayload, SkillStatus, SkillTransition, Verdicts
from hylo_memory_ros.model.time import MAX_STAMP_NS, TimeSpan, ns_from_seconds, seconds_from_ns
from hylo_memory_ros.model.validation import (
    depth_of,
    normalize_frame,
    normalize_key,
    parse_object,
    validate_text,
)

__all__ = [
    'MAX_K',
    'MAX_STAMP_NS',
    'SKILL_STATUSES',
    'AuditEntry',
    'Budget',
    'CandidateEvidence',
    'Change',
    'Changes',
    'Condensed',
    'ConsolidationReport',
    'CorrectionResult',
    'EmbeddingSpace',
    'Episode',
    'FeedbackResult',
    'Fill',
    'Helpfulness',
    'History',
    'Hit',
    'KindRetention',
    'MemoryItem',
    'MemoryKind',
    'MemoryQuery',
    'Outcome',
    'Pose',
    'QueryResult',
    'Removal',
    'RetentionReport',
    'Reversion',
    'SkillPayload',
    'SkillStatus',
    'SkillTransition',
    'Stats',
    'Status',
    'TimeSpan',
    'Verdict',
    'Verdicts',
    'VerifyReport',
    'Version',
    'WriteEvent',
    'WriteResult',
    'depth_of',
    'normalize_frame',
    'normalize_key',
    'ns_from_seconds',
    'parse_object',
    'seconds_from_ns',
    'validate_covariance',
    'validate_text',
]
