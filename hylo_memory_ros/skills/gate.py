"""The gate that a skill passes from one status to the next: nothing but evidence makes it verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hylo_memory_ros.model.item import MemoryItem
from hylo_memory_ros.model.skill import SkillPayload, problems_of_skill
from hylo_memory_ros.skills.predicate import parse_predicate

__all__ = [
    'TRANSITIONS',
    'Thresholds',
    'problems_at_gate',
    'problems_of_payload',
    'problems_of_skill_item',
    'skill_of',
]

TRANSITIONS: Mapping[str | None, tuple[str, ...]] = {
    None: ('proposed',),
    'proposed': ('verified', 'refuted'),
    'verified': ('deprecated',),
    'refuted': (),
    'deprecated': (),
}
"""Where a skill can go from each status; None: it is new, or was forgotten."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The evidence that a verified skill has."""

    min_traces: int
    """Least number of distinct trace references."""
    min_useful: int
    """Least number of verdicts ``useful``."""
    max_misleading_share: float
    """Largest share of ``misleading`` and ``wrong`` among all verdicts but ``not_applicable``."""


def skill_of(payload: Mapping[str, Any]) -> SkillPayload:
    """Return the payload of a skill, which is sound."""
    return SkillPayload.model_validate(dict(payload))


def problems_of_payload(payload: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a payload and its predicates, each problem with its JSON path.

    Examples
    --------
    >>> problems_of_payload({'params': {}, 'api_surface': 'a@1', 'status': 'proposed', 'trigger': 'eval(x)'})
    ["$.trigger: at 1: unknown function 'eval'; known: abs, distance, has, max, min, size, starts_with"]
    """
    if problems := problems_of_skill(payload):
        return problems
    return list(_problems_of_predicates(skill_of(payload)))


def problems_of_skill_item(item: MemoryItem) -> list[str]:
    """Return what is wrong with an item of kind skill, by field: its payload, and what no skill has."""
    problems = [f'payload: {problem}' for problem in problems_of_payload(item.payload)]
    if item.key is None:
        problems.append('key: none; a skill is known by its key, and moves through its gate under it')
    problems += [
        f'{field}: a skill has no place; say in its preconditions where it may be used'
        for field in ('pose', 'extent')
        if getattr(item, field) is not None
    ]
    return problems


def _problems_of_predicates(skill: SkillPayload) -> Iterator[str]:
    named = [('$.trigger', skill.trigger)] if skill.trigger else []
    for field in ('preconditions', 'postconditions'):
        named += [(f'$.{field}[{index}]', text) for index, text in enumerate(getattr(skill, field))]
    for path, text in named:
        if problem := _problem_of(text):
            yield f'{path}: {problem}'


def _problem_of(text: str) -> str:
    try:
        parse_predicate(text)
    except ValueError as exc:
        return str(exc)
    return ''


def problems_at_gate(before: SkillPayload | None, after: SkillPayload, thresholds: Thresholds) -> list[str]:
    """Return what keeps a skill from the status that it is to have, each problem by name; none: it passes.

    A statement of the same status adds verdicts and evidence, and is held to the same rules. What the skill
    does may only change while it is proposed: evidence is about that, and about nothing else.

    Parameters
    ----------
    before : SkillPayload, optional
        What holds now; None: nothing does.
    after : SkillPayload
        What is to hold.
    thresholds : Thresholds
        What a verified skill needs.
    """
    status = None if before is None else before.status
    if after.status != status and after.status not in TRANSITIONS[status]:
        return [_refused(status, after.status)]
    problems = []
    if before is not None and (status, after.status) != ('proposed', 'proposed'):
        changed = [f'$.{name}' for name, value in before.body.items() if value != after.body[name]]
        if changed:
            problems.append(
                f'{", ".join(changed)}: differs from what is {status}, which the evidence is about; '
                'propose the other under another key'
            )
    if after.status == 'verified':
        problems += _lacking(after, thresholds)
    return problems


def _refused(status: str | None, wanted: str) -> str:
    if status is None:
        return f"$.status: '{wanted}', but a new skill, or a forgotten one, begins as 'proposed'"
    ways = ' or '.join(map(repr, TRANSITIONS[status])) or 'nothing else'
    return f'$.status: {status!r} can become {ways}, not {wanted!r}'


def _lacking(skill: SkillPayload, thresholds: Thresholds) -> Iterator[str]:
    traces = len(set(skill.evidence))
    if traces < thresholds.min_traces:
        yield f'$.evidence: {traces} traces, at least {thresholds.min_traces} (skill_min_traces)'
    verdicts = skill.verdicts
    if verdicts.useful < thresholds.min_useful:
        yield (f'$.verdicts.useful: {verdicts.useful}, at least {thresholds.min_useful} (skill_min_useful)')
    against = verdicts.misleading + verdicts.wrong
    judged = against + verdicts.useful
    share = against / judged if judged else 0.0
    if share > thresholds.max_misleading_share:
        yield (
            f'$.verdicts: {against} of {judged} misleading or wrong, a share of {share:.2g}, '
            f'at most {thresholds.max_misleading_share:g} (skill_max_misleading_share)'
        )
