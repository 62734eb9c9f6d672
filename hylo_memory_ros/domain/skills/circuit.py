"""Many conditions evaluated at once: each distinct part of them has one number, and one value for a state.

A value is one of four, ordered so that AND is the least of its parts, OR the greatest, as in CEL: what is
false decides an AND and what is true an OR, whatever is not known beside it. All gates of one level are
evaluated in one stroke.

Threads: the caller sees to it that one at a time adds or evaluates.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from hylo_memory_ros.domain.skills.expression import All, AnyOf, Condition, Not
from hylo_memory_ros.domain.skills.leaves import FALSE, TRUE, UNFIT, UNKNOWN, Leaves, Values, numbers_of

__all__ = ['FALSE', 'TRUE', 'UNFIT', 'UNKNOWN', 'Circuit', 'Values']

_OPPOSITE = np.array([TRUE, UNFIT, UNKNOWN, FALSE], np.int8)


class Circuit:
    """Conditions that share their parts; each is added once, and stays."""

    def __init__(self) -> None:
        self._numbers: dict[Condition, int] = {}
        self._levels: list[int] = []
        self._leaves = Leaves()
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
            number = self._numbered(0)
            self._leaves.add(number, condition)
            return number
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

    def values(self, state: Mapping[str, Any]) -> Values:
        """Return the value of every part, by its number."""
        values = np.full(len(self), TRUE, np.int8)
        self._leaves.put(values, state)
        for nots, gates in zip(self._nots, self._gates, strict=True):
            nots.put(values)
            for gate in gates.values():
                gate.put(values)
        return values


class _Opposites:
    """The NOTs of one level."""

    def __init__(self) -> None:
        self._numbers, self._parts = array('q'), array('q')

    def add(self, number: int, part: int) -> None:
        self._numbers.append(number)
        self._parts.append(part)

    def put(self, values: Values) -> None:
        values[numbers_of(self._numbers)] = _OPPOSITE[values[numbers_of(self._parts)]]


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
            joined = self._join.reduceat(values[numbers_of(self._parts)], numbers_of(self._starts))
            values[numbers_of(self._numbers)] = joined
