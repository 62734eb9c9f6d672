"""Values of terms over a state, and the functions that terms may call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from hylo_memory_ros.domain.skills.expression import Arithmetic, Call, Constant, ListOf, Path, Term

__all__ = ['ARGUMENTS', 'CONDITIONS', 'Missing', 'Value', 'equal', 'is_number', 'term_of']


class Missing(Enum):
    """What a term has instead of a value."""

    UNKNOWN = 'unknown'
    """The state does not say."""
    UNFIT = 'unfit'
    """The state says something of another type than is needed, or the result would be no number."""


UNKNOWN: Final = Missing.UNKNOWN
UNFIT: Final = Missing.UNFIT
State = Mapping[str, Any]
Value = Any
_INT64 = 2**63


def is_number(value: Value) -> bool:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _value_at(state: State, steps: tuple[str | int, ...]) -> Value:
    """Return what the state says at a place."""
    value: Value = state
    for step in steps:
        if isinstance(step, str):
            if not isinstance(value, dict):
                return UNFIT
            value = value.get(step, UNKNOWN)
        else:
            if not isinstance(value, list):
                return UNFIT
            value = value[step] if step < len(value) else UNKNOWN
        if value is UNKNOWN:
            return UNKNOWN
    return value


def equal(left: Value, right: Value) -> bool:
    """Whether two values are equal; numbers by their value, unlike types never."""
    if is_number(left) and is_number(right):
        return bool(left == right)
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[name], right[name]) for name in left)
    return bool(left == right)


def _reckoned(operator: str, left: Value, right: Value) -> Value:
    if not (is_number(left) and is_number(right)):
        return UNFIT
    if operator == '/' and right == 0:
        return UNFIT
    try:
        result = _OPERATORS[operator](left, right)
    except OverflowError:
        return UNFIT
    sound = -_INT64 <= result < _INT64 if isinstance(result, int) else math.isfinite(result)
    return result if sound else UNFIT


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    '+': lambda left, right: left + right,
    '-': lambda left, right: left - right,
    '*': lambda left, right: left * right,
    '/': lambda left, right: left / right,
}


def _size(value: Value) -> Value:
    return len(value) if isinstance(value, (str, list, dict)) else UNFIT


def _distance(one: Value, other: Value) -> Value:
    for point in (one, other):
        if not isinstance(point, list) or not 1 <= len(point) <= 3 or not all(map(is_number, point)):
            return UNFIT
    if len(one) != len(other):
        return UNFIT
    try:
        metres = math.dist(one, other)
    except OverflowError:
        return UNFIT
    return metres if math.isfinite(metres) else UNFIT


def _numbers(function: Callable[..., Any]) -> Callable[..., Value]:
    return lambda *values: function(*values) if all(map(is_number, values)) else UNFIT


def _starts_with(text: Value, beginning: Value) -> Value:
    if not (isinstance(text, str) and isinstance(beginning, str)):
        return UNFIT
    return text.startswith(beginning)


_FUNCTIONS: Mapping[str, tuple[int, Callable[..., Value]]] = {
    'abs': (1, _numbers(abs)),
    'distance': (2, _distance),
    'max': (2, _numbers(max)),
    'min': (2, _numbers(min)),
    'size': (1, _size),
    'starts_with': (2, _starts_with),
}
ARGUMENTS: Mapping[str, int] = {'has': 1, **{name: count for name, (count, _) in _FUNCTIONS.items()}}
"""How many terms each function takes."""
CONDITIONS = frozenset({'has', 'starts_with'})
"""Functions that are true or false."""


def term_of(term: Term) -> Callable[[State], Value]:
    """Return a function of the state that gives the value of a term, or `Missing`."""
    if isinstance(term, Constant):
        constant = term.value
        return lambda state: constant  # noqa: ARG005
    if isinstance(term, Path):
        steps = term.steps
        return lambda state: _value_at(state, steps)
    if isinstance(term, ListOf):
        return _joined(lambda *values: list(values), [term_of(item) for item in term.items])
    if isinstance(term, Arithmetic):
        operator = term.operator
        sides = [term_of(term.left), term_of(term.right)]
        return _joined(lambda left, right: _reckoned(operator, left, right), sides)
    assert isinstance(term, Call)
    parts = [term_of(argument) for argument in term.arguments]
    if term.function == 'has':
        (place,) = parts
        return lambda state: not isinstance(place(state), Missing)
    return _joined(_FUNCTIONS[term.function][1], parts)


def _joined(
    function: Callable[..., Value], parts: list[Callable[[State], Value]]
) -> Callable[[State], Value]:
    """Return a function of the state that has a value when all its parts have one."""

    def value(state: State) -> Value:
        values = [part(state) for part in parts]
        for missing in (UNFIT, UNKNOWN):
            # Said first: what is of a wrong type stays so, whatever the state will say of the rest.
            if any(one is missing for one in values):
                return missing
        return function(*values)

    return value
