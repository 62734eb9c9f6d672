"""Terms and conditions of a predicate, and their evaluation over a caller's state.

A condition has one of four truth values, ordered so that AND is the least of its parts and OR the greatest.
As in CEL, a false part decides an AND, and a true part an OR, whatever the other parts lack.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple


class Truth(IntEnum):
    """Truth value of a condition; also the result of a term that has no value."""

    FALSE = 0
    UNFIT = 1
    """A value has another type than is needed, or a result is not a finite number of 64 bits."""
    UNKNOWN = 2
    """The state lacks a value that is needed."""
    TRUE = 3


FALSE, UNFIT, UNKNOWN, TRUE = Truth

State = Mapping[str, Any]
Value = Any
"""A JSON value; or `UNFIT` or `UNKNOWN`, where a term has none."""
_INT64 = 2**63
_OPPOSITE = (TRUE, UNFIT, UNKNOWN, FALSE)
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    '+': operator.add,
    '-': operator.sub,
    '*': operator.mul,
    '/': operator.truediv,
}
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    '<': operator.lt,
    '<=': operator.le,
    '>': operator.gt,
    '>=': operator.ge,
}


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: str | int | float | bool | None

    def evaluate(self, state: State) -> Value:  # noqa: ARG002
        """Return its value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Path:
    """A place in the state: names and positions from the top."""

    steps: tuple[str | int, ...]

    def evaluate(self, state: State) -> Value:
        """Return the value at this place."""
        value: Value = state
        for step in self.steps:
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


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of terms."""

    items: tuple[Term, ...]

    def evaluate(self, state: State) -> Value:
        """Return the values of its items."""
        return _evaluate_all(self.items, state)


@dataclass(frozen=True, slots=True)
class Has:
    """Existence of a place in the state."""

    path: Path

    def evaluate(self, state: State) -> Value:
        """Return whether the state has a value there."""
        return not isinstance(self.path.evaluate(state), Truth)


@dataclass(frozen=True, slots=True)
class Call:
    """One of `FUNCTIONS`, applied to terms."""

    function: str
    arguments: tuple[Term, ...]

    def evaluate(self, state: State) -> Value:
        """Return the result of the function."""
        values = _evaluate_all(self.arguments, state)
        return values if isinstance(values, Truth) else FUNCTIONS[self.function].apply(*values)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two numbers joined by ``+``, ``-``, ``*`` or ``/``."""

    operator: str
    left: Term
    right: Term

    def evaluate(self, state: State) -> Value:
        """Return the resulting number."""
        values = _evaluate_all((self.left, self.right), state)
        if isinstance(values, Truth):
            return values
        if not all(map(_is_number, values)):
            return UNFIT
        try:
            result = _ARITHMETIC[self.operator](*values)
        except (OverflowError, ZeroDivisionError):
            return UNFIT
        in_range = -_INT64 <= result < _INT64 if isinstance(result, int) else math.isfinite(result)
        return result if in_range else UNFIT


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two terms compared by ``==``, ``<``, ``<=``, ``>``, ``>=`` or ``in``."""

    operator: str
    left: Term
    right: Term

    def evaluate(self, state: State) -> Truth:
        """Return whether the comparison holds."""
        left, right = self.left.evaluate(state), self.right.evaluate(state)
        if isinstance(left, Truth) or isinstance(right, Truth):
            return min(value for value in (left, right) if isinstance(value, Truth))
        if self.operator == '==':
            return TRUE if _equal(left, right) else FALSE
        if self.operator == 'in':
            return _contains(right, left)
        numbers = _is_number(left) and _is_number(right)
        if not numbers and not (isinstance(left, str) and isinstance(right, str)):
            return UNFIT
        return TRUE if _ORDERS[self.operator](left, right) else FALSE


@dataclass(frozen=True, slots=True)
class Holds:
    """A term that is true or false itself."""

    term: Term

    def evaluate(self, state: State) -> Truth:
        """Return the truth of the term."""
        value = self.term.evaluate(state)
        if isinstance(value, Truth):
            return value
        return (TRUE if value else FALSE) if isinstance(value, bool) else UNFIT


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    condition: Condition

    def evaluate(self, state: State) -> Truth:
        """Return the opposite."""
        return _OPPOSITE[self.condition.evaluate(state)]


@dataclass(frozen=True, slots=True)
class And:
    """Conditions that must all hold; of none, true."""

    parts: tuple[Condition, ...]

    def evaluate(self, state: State) -> Truth:
        """Return the least of the parts."""
        least = TRUE
        for part in self.parts:
            truth = part.evaluate(state)
            if truth is FALSE:
                return FALSE
            least = min(truth, least)
        return least


@dataclass(frozen=True, slots=True)
class Or:
    """Conditions of which one must hold."""

    parts: tuple[Condition, ...]

    def evaluate(self, state: State) -> Truth:
        """Return the greatest of the parts."""
        greatest = FALSE
        for part in self.parts:
            truth = part.evaluate(state)
            if truth is TRUE:
                return TRUE
            greatest = max(truth, greatest)
        return greatest


Term = Constant | Path | ListOf | Has | Call | Arithmetic
Condition = Comparison | Holds | Not | And | Or


def _evaluate_all(terms: Iterable[Term], state: State) -> list[Value] | Truth:
    """Return the values of terms; `UNFIT` before `UNKNOWN` if any has none."""
    values = [term.evaluate(state) for term in terms]
    # A wrong type stays wrong whatever the state will hold elsewhere, so it is the reason to report.
    return min((value for value in values if isinstance(value, Truth)), default=values)


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _equal(left: Value, right: Value) -> bool:
    """Compare by value: 1 equals 1.0, and true does not equal 1."""
    if _is_number(left) and _is_number(right):
        return bool(left == right)
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_equal(left[name], right[name]) for name in left)
    return bool(left == right)


def _contains(container: Value, value: Value) -> Truth:
    if isinstance(container, list):
        return TRUE if any(_equal(value, item) for item in container) else FALSE
    if isinstance(container, dict) and isinstance(value, str):
        return TRUE if value in container else FALSE
    return UNFIT


def _size(value: Value) -> Value:
    return len(value) if isinstance(value, (str, list, dict)) else UNFIT


def _distance(left: Value, right: Value) -> Value:
    for point in (left, right):
        if not isinstance(point, list) or not 1 <= len(point) <= 3 or not all(map(_is_number, point)):
            return UNFIT
    if len(left) != len(right):
        return UNFIT
    try:
        distance = math.dist(left, right)
    except OverflowError:
        return UNFIT
    return distance if math.isfinite(distance) else UNFIT


def _starts_with(text: Value, prefix: Value) -> Value:
    return text.startswith(prefix) if isinstance(text, str) and isinstance(prefix, str) else UNFIT


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Value]:
    return lambda *values: function(*values) if all(map(_is_number, values)) else UNFIT


class Function(NamedTuple):
    """A function that predicates may call."""

    arity: int
    """Number of arguments."""
    apply: Callable[..., Value]
    """Result for argument values; `UNFIT` for values of another type."""


FUNCTIONS: Mapping[str, Function] = {
    'abs': Function(1, _of_numbers(abs)),
    'distance': Function(2, _distance),
    'max': Function(2, _of_numbers(max)),
    'min': Function(2, _of_numbers(min)),
    'size': Function(1, _size),
    'starts_with': Function(2, _starts_with),
}
"""Functions of values, by name; `Has` asks about a place and is not among them."""
