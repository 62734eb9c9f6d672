"""Rules for transitions between the statuses of a skill: only evidence makes a skill verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hylo_memory_ros.domain.skills.predicate import parse_predicate
from hylo_memory_ros.model.item import MemoryItem
from hylo_memory_ros.model.skill import SkillPayload, problems_of_skill

TRANSITIONS: Mapping[str | None, tuple[str, ...]] = {
    None: ('proposed',),
    'proposed': ('verified', 'refuted'),
    'verified': ('deprecated',),
    'refuted': (),
    'deprecated': (),
}
"""Statuses that may follow each status; None: the skill is new or was forgotten."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Evidence that a verified skill needs."""

    min_traces: int
    """Minimum number of distinct trace references."""
    min_useful: int
    """Minimum number of ``useful`` verdicts."""
    max_misleading_share: float
    """Maximum share of ``misleading`` and ``wrong`` among all verdicts except ``not_applicable``."""


def skill_of(payload: Mapping[str, Any]) -> SkillPayload:
    """Parse a payload that is already known to be valid."""
    return SkillPayload.model_validate(dict(payload))


def problems_of_payload(payload: Mapping[str, Any]) -> list[str]:
    """Return the problems of a payload and of its predicates, each with its JSON path.

    Examples
    --------
    >>> problems_of_payload({'params': {}, 'api_surface': 'a@1', 'status': 'proposed', 'trigger': 'eval(x)'})
    ["$.trigger: at 1: unknown function 'eval'; known: abs, distance, has, max, min, size, starts_with"]
    """
    if problems := problems_of_skill(payload):
        return problems
    return list(_check_predicates(skill_of(payload)))


def problems_of_skill_item(item: MemoryItem) -> list[str]:
    """Return the problems of an item of kind skill, each with its field."""
    problems = [f'payload: {problem}' for problem in problems_of_payload(item.payload)]
    if item.key is None:
        problems.append('key: expected a text, got None; a skill passes its gate under its key')
    problems += [
        f'{field}: expected None, a skill has no place; its preconditions can name one'
        for field in ('pose', 'extent')
        if getattr(item, field) is not None
    ]
    return problems


def _check_predicates(skill: SkillPayload) -> Iterator[str]:
    predicates = {'$.trigger': skill.trigger} if skill.trigger else {}
    for field in ('preconditions', 'postconditions'):
        predicates |= {f'$.{field}[{index}]': text for index, text in enumerate(getattr(skill, field))}
    for path, text in predicates.items():
        try:
            parse_predicate(text)
        except ValueError as exc:  # noqa: PERF203 - every problem is reported
            yield f'{path}: {exc}'


def problems_at_gate(before: SkillPayload | None, after: SkillPayload, thresholds: Thresholds) -> list[str]:
    """Return the problems that keep a skill from its next status; none: it passes the gate.

    A statement of the same status adds verdicts and evidence, and the same rules apply to it. The body of a
    skill may change only while the skill is proposed, because evidence is about one body.

    Parameters
    ----------
    before : SkillPayload, optional
        Payload that holds now; None: the skill is new or was forgotten.
    after : SkillPayload
        Payload to accept.
    thresholds : Thresholds
        Evidence that a verified skill needs.
    """
    status = None if before is None else before.status
    if after.status != status and after.status not in TRANSITIONS[status]:
        return [_describe_transition(status, after.status)]
    problems = []
    if before is not None and (status, after.status) != ('proposed', 'proposed'):
        changed = [f'$.{name}' for name, value in before.body.items() if value != after.body[name]]
        if changed:
            problems.append(
                f'{", ".join(changed)}: differs from the {status} skill, which the evidence is about; '
                'propose the change under another key'
            )
    if after.status == 'verified':
        problems += _check_evidence(after, thresholds)
    return problems


def _describe_transition(status: str | None, wanted: str) -> str:
    if status is None:
        return f"$.status: expected 'proposed' for a new or forgotten skill, got {wanted!r}"
    allowed = ' or '.join(map(repr, TRANSITIONS[status])) or 'no other status'
    return f'$.status: expected {allowed} after {status!r}, got {wanted!r}'


def _check_evidence(skill: SkillPayload, thresholds: Thresholds) -> Iterator[str]:
    traces = len(set(skill.evidence))
    if traces < thresholds.min_traces:
        yield f'$.evidence: expected at least {thresholds.min_traces} traces (skill_min_traces), got {traces}'
    verdicts = skill.verdicts
    if verdicts.useful < thresholds.min_useful:
        yield (
            f'$.verdicts.useful: expected at least {thresholds.min_useful} (skill_min_useful), '
            f'got {verdicts.useful}'
        )
    against = verdicts.misleading + verdicts.wrong
    judged = against + verdicts.useful
    share = against / judged if judged else 0.0
    if share > thresholds.max_misleading_share:
        yield (
            f'$.verdicts: expected at most a share of {thresholds.max_misleading_share:g} misleading or '
            f'wrong (skill_max_misleading_share), got {share:.2g} ({against} of {judged})'
        )
