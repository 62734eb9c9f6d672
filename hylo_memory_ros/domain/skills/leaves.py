"""What a condition comes down to: one term compared, or true by itself; many of a kind in one stroke.

The values of a condition are four, in an order: `FALSE`, `UNFIT`, `UNKNOWN`, `TRUE`.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.domain.skills.expression import Call, Compare, Constant, Holds, ListOf, Term
from hylo_memory_ros.domain.skills.functions import Missing, Value, equal, is_number, term_of

__all__ = ['FALSE', 'TRUE', 'UNFIT', 'UNKNOWN', 'Leaves', 'Values', 'numbers_of']

FALSE, UNFIT, UNKNOWN, TRUE = range(4)
"""The values of a condition: unfit when the state has another type than is needed."""

Values = NDArray[np.int8]
_MISSING = {Missing.UNKNOWN: UNKNOWN, Missing.UNFIT: UNFIT}
_EXACT = 2**53
_ORDERS: Mapping[str, Callable[[Any, Any], Any]] = {
    '<': operator.lt,
    '<=': operator.le,
    '>': operator.gt,
    '>=': operator.ge,
    '==': operator.eq,
}


class Leaves:
    """All leaves of a circuit, each by the number of its value."""

    def __init__(self) -> None:
        self._scales: dict[tuple[Term, str], _Scale] = {}
        self._surroundings: dict[tuple[Term, int, str], _Surroundings] = {}
        self._tables: dict[Term, _Table] = {}
        self._single: list[tuple[int, Callable[[Mapping[str, Any]], int]]] = []

    def add(self, number: int, leaf: Compare | Holds) -> None:
        """Take in a leaf."""
        constant = (
            leaf.right.value if isinstance(leaf, Compare) and isinstance(leaf.right, Constant) else None
        )
        if isinstance(leaf, Compare) and _is_exact(constant):
            self._add_scale(number, leaf, constant)
        elif isinstance(leaf, Compare) and isinstance(constant, str) and leaf.operator == '==':
            self._tables.setdefault(leaf.left, _Table(leaf.left)).add(number, constant)
        else:
            self._single.append((number, _single(leaf)))

    def _add_scale(self, number: int, leaf: Compare, constant: float) -> None:
        place = _place(leaf.left)
        if place is None or leaf.operator == '==':
            key = (leaf.left, leaf.operator)
            if key not in self._scales:
                self._scales[key] = _Scale(*key)
            self._scales[key].add(number, constant)
        else:
            term, point = place
            around = (term, len(point), leaf.operator)
            if around not in self._surroundings:
                self._surroundings[around] = _Surroundings(*around)
            self._surroundings[around].add(number, point, constant)

    def put(self, values: Values, state: Mapping[str, Any]) -> None:
        """Set the value of every leaf for a state."""
        for scale in self._scales.values():
            scale.put(values, state)
        for surroundings in self._surroundings.values():
            surroundings.put(values, state)
        for table in self._tables.values():
            table.put(values, state)
        for number, evaluate in self._single:
            values[number] = evaluate(state)


class _Scale:
    """One term compared in one way with many numbers."""

    def __init__(self, term: Term, how: str) -> None:
        self._value, self._operator = term_of(term), how
        self._constants, self._numbers = array('d'), array('q')

    def add(self, number: int, constant: float) -> None:
        self._constants.append(constant)
        self._numbers.append(number)

    def put(self, values: Values, state: Mapping[str, Any]) -> None:
        value = self._value(state)
        where = numbers_of(self._numbers)
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


class _Surroundings:
    """One place whose distance from many points is compared in one way with as many numbers."""

    def __init__(self, term: Term, axes: int, how: str) -> None:
        self._value, self._axes, self._operator = term_of(term), axes, how
        self._points, self._constants, self._numbers = array('d'), array('d'), array('q')

    def add(self, number: int, point: Sequence[float], constant: float) -> None:
        self._points.extend(point)
        self._constants.append(constant)
        self._numbers.append(number)

    def put(self, values: Values, state: Mapping[str, Any]) -> None:
        value = self._value(state)
        where = numbers_of(self._numbers)
        if isinstance(value, Missing):
            values[where] = _MISSING[value]
        elif not isinstance(value, list) or len(value) != self._axes or not all(map(is_number, value)):
            values[where] = UNFIT
        else:
            metres = self._metres(np.array(value, np.float64))
            holds = _ORDERS[self._operator](metres, np.array(self._constants))
            values[where] = np.where(np.isfinite(metres), np.where(holds, TRUE, FALSE), UNFIT)

    def _metres(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        metres = np.zeros(len(self._numbers))
        with np.errstate(over='ignore'):
            for offsets in (np.array(self._points).reshape(-1, self._axes) - value).T:
                metres = np.hypot(metres, offsets)
        return metres


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
        values[numbers_of(self._numbers)] = _MISSING[value] if isinstance(value, Missing) else FALSE
        if isinstance(value, str) and (number := self._texts.get(value)) is not None:
            values[number] = TRUE


def _place(term: Term) -> tuple[Term, tuple[float, ...]] | None:
    """Return the place and the fixed point between which a term is the distance; None: it is none such."""
    if not isinstance(term, Call) or term.function != 'distance':
        return None
    for place, point in (term.arguments, term.arguments[::-1]):
        if isinstance(point, ListOf) and 1 <= len(point.items) <= 3 and not isinstance(place, ListOf):
            values = [item.value for item in point.items if isinstance(item, Constant)]
            fixed = tuple(value for value in values if _is_exact(value))
            if len(fixed) == len(point.items):
                return place, fixed
    return None


def _is_exact(value: object) -> TypeGuard[float]:
    """Whether a value is a number that float64 holds as it is."""
    return type(value) is float or (type(value) is int and -_EXACT <= value <= _EXACT)


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


def numbers_of(numbers: array[int]) -> NDArray[np.int64]:
    """Return numbers as they lie in memory, for as long as nothing is added to them."""
    return np.frombuffer(numbers, np.int64) if numbers else np.empty(0, np.int64)
