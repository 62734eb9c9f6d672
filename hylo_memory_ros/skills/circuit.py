"""Many conditions evaluated at once: each distinct part of them has one number, and one value for a state.

A value is one of four, ordered so that AND is the least of its parts, OR the greatest, as in CEL: what is
false decides an AND and what is true an OR, whatever is not known beside it. Comparisons of one term with
different constants are made in one stroke, and so are all gates of one level.

Threads: the caller sees to it that one at a time adds or evaluates.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.skills.expression import All, AnyOf, Compare, Condition, Constant, Holds, Not, Term
from hylo_memory_ros.skills.functions import Missing, Value, equal, is_number, term_of

__all__ = ['FALSE', 'TRUE', 'UNFIT', 'UNKNOWN', 'Circuit']

FALSE, UNFIT, UNKNOWN, TRUE = range(4)
"""The values of a condition: unfit when the state has another type than is needed."""

Values = NDArray[np.int8]
_OPPOSITE = np.array([TRUE, UNFIT, UNKNOWN, FALSE], np.int8)
_MISSING = {Missing.UNKNOWN: UNKNOWN, Missing.UNFIT: UNFIT}
_EXACT = 2**53
_ORDERS: Mapping[str, Callable[[Any, Any], Any]] = {
    '<': operator.lt,
    '<=': operator.le,
    '>': operator.gt,
    '>=': operator.ge,
    '==': operator.eq,
}


class Circuit:
    """Conditions that share their parts; each is added once, and stays."""

    def __init__(self) -> None:
        self._numbers: dict[Condition, int] = {}
        self._levels: list[int] = []
        self._scales: dict[tuple[Term, str], _Scale] = {}
        self._tables: dict[Term, _Table] = {}
        self._single: list[tuple[int, Callable[[Mapping[str, Any]], int]]] = []
        self._nots: list[_Opposites] = []
        self._gates: list[dict[type, _Gates]] = []
        self.add(All(frozenset()))

    def __len__(self) -> int:
        """Return how many distinct parts there are."""
        return len(self._levels)

    def add(self, condition: Condition) -> int:
        """Return the number of a condition, which may be new."""
        number = self._numbers.get(condition)
        if number is None:
            number = self._added(condition)
            self._numbers[condition] = number
        return number

    def _added(self, condition: Condition) -> int:
        if isinstance(condition, Not):
            parts = [self.add(condition.condition)]
        elif isinstance(condition, (All, AnyOf)):
            parts = sorted(map(self.add, condition.conditions))
        else:
            return self._leaf(condition)
        level = max((self._levels[part] + 1 for part in parts), default=0)
        number = self._numbered(level)
        if parts:
            while len(self._gates) <= level:
                self._gates.append({All: _Gates(np.minimum), AnyOf: _Gates(np.maximum)})
                self._nots.append(_Opposites())
            if isinstance(condition, Not):
                self._nots[level].add(number, parts[0])
            else:
                self._gates[level][type(condition)].add(number, parts)
        return number

    def _numbered(self, level: int) -> int:
        self._levels.append(level)
        return len(self._levels) - 1

    def _leaf(self, leaf: Compare | Holds) -> int:
        number = self._numbered(0)
        if isinstance(leaf, Compare) and isinstance(leaf.right, Constant):
            constant = leaf.right.value
            if isinstance(constant, (int, float)) and is_number(constant) and _is_exact(constant):
                key = (leaf.left, leaf.operator)
                if key not in self._scales:
                    self._scales[key] = _Scale(leaf)
                self._scales[key].add(number, constant)
                return number
            if isinstance(constant, str) and leaf.operator == '==':
                if leaf.left not in self._tables:
                    self._tables[leaf.left] = _Table(leaf.left)
                self._tables[leaf.left].add(number, constant)
                return number
        self._single.append((number, _single(leaf)))
        return number

    def values(self, state: Mapping[str, Any]) -> Values:
        """Return the value of every part, by its number."""
        values = np.full(len(self), TRUE, np.int8)
        for scale in self._scales.values():
            scale.put(values, state)
        for table in self._tables.values():
            table.put(values, state)
        for number, evaluate in self._single:
            values[number] = evaluate(state)
        for nots, gates in zip(self._nots, self._gates, strict=True):
            nots.put(values)
            for gate in gates.values():
                gate.put(values)
        return values


class _Scale:
    """One term compared in one way with many numbers."""

    def __init__(self, leaf: Compare) -> None:
        self._value, self._operator = term_of(leaf.left), leaf.operator
        self._constants, self._numbers = array('d'), array('q')

    def add(self, number: int, constant: float) -> None:
        self._constants.append(constant)
        self._numbers.append(number)

    def put(self, values: Values, state: Mapping[str, Any]) -> None:
        value = self._value(state)
        where = _taken(self._numbers)
        if isinstance(value, Missing):
            values[where] = _MISSING[value]
        elif not is_number(value):
            values[where] = FALSE if self._operator == '==' else UNFIT
        elif len(self._numbers) == 1:
            values[self._numbers[0]] = TRUE if _ORDERS[self._operator](value, self._constants[0]) else FALSE
        else:
            # An integer that float64 does not hold is compared as Python does.
            constants = np.array(self._constants, np.float64 if _is_exact(value) else object)
            holds = _ORDERS[self._operator](value, constants)
            values[where] = np.where(holds, TRUE, FALSE)


class _Table:
    """One term that is to be one of many texts."""

    def __init__(self, term: Term) -> None:
        self._value = term_of(term)
        self._texts: dict[str, int] = {}
        self._numbers = array('q')

    def add(self, number: int, text: str) -> None:
        self._texts[text] = number
        self._numbers.append(number)

    def put(self, values: Values, state: Mapping[str, Any]) -> None:
        value = self._value(state)
        values[_taken(self._numbers)] = _MISSING[value] if isinstance(value, Missing) else FALSE
        if isinstance(value, str) and (number := self._texts.get(value)) is not None:
            values[number] = TRUE


class _Opposites:
    """The NOTs of one level."""

    def __init__(self) -> None:
        self._numbers, self._parts = array('q'), array('q')

    def add(self, number: int, part: int) -> None:
        self._numbers.append(number)
        self._parts.append(part)

    def put(self, values: Values) -> None:
        values[_taken(self._numbers)] = _OPPOSITE[values[_taken(self._parts)]]


class _Gates:
    """The ANDs, or the ORs, of one level."""

    def __init__(self, join: np.ufunc) -> None:
        self._join = join
        self._numbers, self._starts, self._parts = array('q'), array('q'), array('q')

    def add(self, number: int, parts: list[int]) -> None:
        self._numbers.append(number)
        self._starts.append(len(self._parts))
        self._parts.extend(parts)

    def put(self, values: Values) -> None:
        if self._numbers:
            joined = self._join.reduceat(values[_taken(self._parts)], _taken(self._starts))
            values[_taken(self._numbers)] = joined


def _taken(numbers: array[int]) -> NDArray[np.int64]:
    return np.frombuffer(numbers, np.int64) if numbers else np.empty(0, np.int64)


def _is_exact(number: float) -> bool:
    return type(number) is float or -_EXACT <= number <= _EXACT


def _single(leaf: Compare | Holds) -> Callable[[Mapping[str, Any]], int]:
    if isinstance(leaf, Holds):
        return partial(_held, term_of(leaf.term))
    return partial(_compared, leaf.operator, term_of(leaf.left), term_of(leaf.right))


def _held(term: Callable[[Any], Value], state: Mapping[str, Any]) -> int:
    value = term(state)
    if isinstance(value, Missing):
        return _MISSING[value]
    return (TRUE if value else FALSE) if isinstance(value, bool) else UNFIT


def _compared(
    how: str, left: Callable[[Any], Value], right: Callable[[Any], Value], state: Mapping[str, Any]
) -> int:
    one, other = left(state), right(state)
    missing = [_MISSING[value] for value in (one, other) if isinstance(value, Missing)]
    if missing:
        return min(missing)
    if how == '==':
        return TRUE if equal(one, other) else FALSE
    if how == 'in':
        return _contained(one, other)
    if not (is_number(one) and is_number(other)) and not (isinstance(one, str) and isinstance(other, str)):
        return UNFIT
    return TRUE if _ORDERS[how](one, other) else FALSE


def _contained(one: Value, other: Value) -> int:
    if isinstance(other, list):
        return TRUE if any(equal(one, item) for item in other) else FALSE
    if isinstance(other, dict) and isinstance(one, str):
        return TRUE if one in other else FALSE
    return UNFIT
