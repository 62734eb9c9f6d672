"""Payload of a skill: instructions, conditions of use, and evidence."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, StrictInt, StringConstraints, ValidationError, model_validator

from hylo_memory_ros.model.validation import Contract, JsonObject, Name, Text, depth_of, validate_object

SkillStatus = Literal['proposed', 'verified', 'refuted', 'deprecated']
SKILL_STATUSES: tuple[SkillStatus, ...] = get_args(SkillStatus)
MAX_CONDITIONS = 64
MAX_EVIDENCE = 1024
MAX_STATE_BYTES = 65_536
MAX_STATE_DEPTH = 16
_INT64 = 2**63

Tally = Annotated[StrictInt, Field(ge=0, le=2**53)]
Condition = Annotated[Text, StringConstraints(min_length=1, strict=True)]


class Verdicts(Contract):
    """Number of verdicts on a skill, by verdict."""

    useful: Tally = 0
    """It did what it promises."""
    misleading: Tally = 0
    """It was followed, and led astray."""
    wrong: Tally = 0
    """What it says is not so."""
    not_applicable: Tally = 0
    """It did not fit the situation; neither for nor against it."""


class SkillPayload(Contract):
    """The payload of an item of kind skill; it is data, and nothing here executes it.

    Examples
    --------
    >>> skill = SkillPayload(params={'speed': 0.2}, api_surface='hylo.tools@v1', status='proposed',
    ...                      trigger='task == "dock"', preconditions=['battery < 0.3'])
    >>> skill.verdicts.useful, skill.body['trigger']
    (0, 'task == "dock"')
    """

    code: Annotated[Text, StringConstraints(min_length=1, strict=True)] | None = None
    """The program, for whoever runs skills; never executed here."""
    params: JsonObject | None = None
    """Instead of code: the parameters of a behaviour that the caller has."""
    api_surface: Name
    """The calls that it relies on, ``name@version``."""
    trigger: Text = ''
    """A predicate over the caller's state: when to think of it; empty: always."""
    preconditions: Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS)] = ()
    """Predicates over the caller's state that must all hold before it starts."""
    postconditions: Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS)] = ()
    """Predicates that hold afterwards, for planners; they do not filter."""
    status: SkillStatus
    """``proposed``, ``verified``, ``refuted`` or ``deprecated``."""
    verdicts: Verdicts = Field(default_factory=Verdicts)
    """What was judged of it so far."""
    evidence: Annotated[tuple[Name, ...], Field(max_length=MAX_EVIDENCE)] = ()
    """References to traces that show it at work: bags, receipts, runs."""

    @model_validator(mode='after')
    def _one_way(self) -> SkillPayload:
        if (self.code is None) == (self.params is None):
            raise ValueError('code, params: give exactly one of them')
        return self

    @property
    def body(self) -> Mapping[str, Any]:
        """Instructions and conditions: what evidence is about, unchanged by a transition."""
        return {
            'code': self.code,
            'params': self.params,
            'api_surface': self.api_surface,
            'trigger': self.trigger,
            'preconditions': self.preconditions,
            'postconditions': self.postconditions,
        }


@dataclass(frozen=True, slots=True)
class SkillTransition:
    """One step of a skill through its gate."""

    sequence: int
    """The transaction that made it."""
    recorded_at_ns: int
    """When, by the service clock."""
    actor: str
    """Author of the request."""
    id: str | None
    """The item that carries the new status; None: it was purged."""
    key: str | None
    """The skill; None: it was purged."""
    from_status: SkillStatus | None
    """The status before; None: there was none."""
    to_status: SkillStatus
    """The status since then."""
    evidence: Mapping[str, Any]
    """``traces`` and ``verdicts`` that it was given with; empty: it was purged."""


def problems_of_skill(payload: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the form of a payload, each problem with its JSON path; none: it is valid.

    Examples
    --------
    >>> problems_of_skill({'params': {}, 'api_surface': 'a@1', 'status': 'done', 'verdicts': {'useful': -1}})
    ["$.status: 'done': Input should be 'proposed', 'verified', 'refuted' or 'deprecated'",
     '$.verdicts.useful: -1: Input should be greater than or equal to 0']
    """
    try:
        SkillPayload.model_validate(dict(payload))
    except ValidationError as exc:
        return [_format_problem(problem) for problem in exc.errors(include_url=False)]
    return []


def _format_problem(problem: Any) -> str:
    parts = (f'[{part}]' if isinstance(part, int) else f'.{part}' for part in problem['loc'])
    path = '$' + ''.join(parts)
    reason = str(problem['msg']).removeprefix('Value error, ')
    if problem['type'] in {'value_error', 'missing'}:
        return f'{path}: {reason}'
    return f'{path}: {problem["input"]!r:.100}: {reason}'


def validate_state(value: object) -> dict[str, Any]:
    """Return a caller's state as predicates may read it.

    Raises
    ------
    ValueError
        It is not a JSON object, more than `MAX_STATE_DEPTH` deep, more than `MAX_STATE_BYTES` large, or holds
        an integer of more than 64 bits.
    """
    state: dict[str, Any] = _normalize(validate_object(value))
    if (depth := depth_of(state)) > MAX_STATE_DEPTH:
        raise ValueError(f'$: nested {depth} deep, at most {MAX_STATE_DEPTH}')
    if (size := _size(state, '$')) > MAX_STATE_BYTES:
        raise ValueError(f'$: {size} bytes, at most {MAX_STATE_BYTES}')
    return state


def _normalize(value: Any) -> Any:
    """Return a value with its texts in NFC, as those of predicates are."""
    if isinstance(value, str):
        return unicodedata.normalize('NFC', value)
    if isinstance(value, dict):
        return {unicodedata.normalize('NFC', name): _normalize(part) for name, part in value.items()}
    return [_normalize(part) for part in value] if isinstance(value, list) else value


def _size(value: Any, path: str) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict):
        return sum(len(key.encode()) + 1 + _size(part, f'{path}.{key}') for key, part in value.items()) + 1
    if isinstance(value, list):
        return sum(_size(part, f'{path}[{index}]') for index, part in enumerate(value)) + 1
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise ValueError(f'{path}: an integer of more than 64 bits')
    return 8
