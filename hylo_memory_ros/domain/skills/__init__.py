"""Skills: predicates over a caller's state, the index that evaluates them, and the gate between statuses.

Nothing here executes a skill: its code is data, and a predicate can name nothing but the state and a few
functions. CEL libraries for Python either lack wheels for a supported version or report a missing value and a
value of another type only as text, so parser and evaluator are ours.

Reading order: `expression`, `predicate`, `gate`.
"""

from __future__ import annotations

from hylo_memory_ros.domain.skills.gate import (
    Thresholds,
    problems_at_gate,
    problems_of_payload,
    problems_of_skill_item,
    skill_of,
)
from hylo_memory_ros.domain.skills.predicate import OTHER_STATUS, Fit, SkillIndex, parse_predicate

__all__ = [
    'OTHER_STATUS',
    'Fit',
    'SkillIndex',
    'Thresholds',
    'parse_predicate',
    'problems_at_gate',
    'problems_of_payload',
    'problems_of_skill_item',
    'skill_of',
]
