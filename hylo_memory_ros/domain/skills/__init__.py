"""Skills: predicates over a caller's state, and the gate that a skill has to pass.

Nothing here executes a skill: its code is data, and predicates are read by a parser of our own, which
knows no name beyond the state and a handful of functions.

Reading order: `expression`, `functions`, `tokens`, `predicate`, `leaves`, `circuit`, `matching`, `gate`.
"""

from __future__ import annotations

from hylo_memory_ros.domain.skills.gate import (
    Thresholds,
    problems_at_gate,
    problems_of_payload,
    problems_of_skill_item,
    skill_of,
)
from hylo_memory_ros.domain.skills.matching import REFUSED, Fit, SkillIndex
from hylo_memory_ros.domain.skills.predicate import parse_predicate

__all__ = [
    'REFUSED',
    'Fit',
    'SkillIndex',
    'Thresholds',
    'parse_predicate',
    'problems_at_gate',
    'problems_of_payload',
    'problems_of_skill_item',
    'skill_of',
]
