"""Which skills fit a caller's state: their predicates compiled once, kept beside the spatial mirror.

An entry is an accepted statement, whose predicates never change; which of them hold, and were believed when,
the store knows. So the same index answers for now and for every time before.

Threads: every method takes one lock.
"""

from __future__ import annotations

import json
import threading
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.domain.skills.circuit import FALSE, TRUE, UNFIT, UNKNOWN, Circuit, Values
from hylo_memory_ros.domain.skills.expression import All, Condition
from hylo_memory_ros.domain.skills.predicate import ALWAYS, parse_predicate
from hylo_memory_ros.model.skill import SKILL_STATUSES, SkillStatus

__all__ = ['REFUSED', 'Fit', 'SkillIndex']

Numbers = NDArray[np.int64]

REFUSED = 'refused'
"""The reason of a skill that has another status than was asked for."""
_REASONS = {FALSE: 'precondition_failed', UNFIT: 'precondition_unfit', UNKNOWN: 'precondition_unknown'}


@dataclass(frozen=True, slots=True)
class Fit:
    """What a state makes of every skill that was ever stated."""

    assertions: Numbers
    """Numbers of the statements, ascending."""
    admitted: NDArray[np.bool_]
    """Whether each has one of the statuses asked for."""
    triggers: Values
    """The value of the trigger of each."""
    preconditions: Values
    """The value of its preconditions together."""

    @property
    def fitting(self) -> Numbers:
        """The admitted statements whose trigger and preconditions hold."""
        holds = np.minimum(self.triggers, self.preconditions) == TRUE
        fits: Numbers = self.assertions[self.admitted & holds]
        return fits

    def listed(self) -> str:
        """Return the fitting ones as a JSON array."""
        return json.dumps(self.fitting.tolist(), separators=(',', ':'))

    def reasons(self, assertions: Sequence[int]) -> dict[str, int]:
        """Count why statements do not fit: `REFUSED`, `trigger_failed`, or what their preconditions lack."""
        at = np.flatnonzero(np.isin(self.assertions, np.asarray(assertions, np.int64)))
        counts = {REFUSED: int((~self.admitted[at]).sum())}
        at = at[self.admitted[at]]
        triggers, both = self.triggers[at], np.minimum(self.triggers[at], self.preconditions[at])
        failed = triggers == FALSE
        counts['trigger_failed'] = int(failed.sum())
        for value, reason in _REASONS.items():
            counts[reason] = int(((both == value) & ~failed).sum())
        return {reason: count for reason, count in counts.items() if count}


class SkillIndex:
    """The compiled predicates of every skill that was ever stated."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._circuit = Circuit()
        self._assertions, self._triggers, self._preconditions = array('q'), array('q'), array('q')
        self._statuses = array('b')

    def __len__(self) -> int:
        """Return the number of statements."""
        return len(self._assertions)

    def __contains__(self, assertion: int) -> bool:
        """Whether a statement is one of a skill."""
        at = bisect_left(self._assertions, assertion)
        return at < len(self._assertions) and self._assertions[at] == assertion

    def load(self, skills: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Hold these statements and no others."""
        with self._lock:
            self._clear()
            self._put(skills)

    def add(self, skills: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Take in statements, each by its number and payload, in order of their numbers."""
        with self._lock:
            self._put(skills)

    def _put(self, skills: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        for number, payload in skills:
            trigger = parse_predicate(payload['trigger']) if payload.get('trigger') else ALWAYS
            preconditions = _condition_of(payload.get('preconditions', ()))
            self._assertions.append(number)
            self._statuses.append(SKILL_STATUSES.index(payload['status']))
            self._triggers.append(self._circuit.add(trigger))
            self._preconditions.append(self._circuit.add(preconditions))

    def fit(self, state: Mapping[str, Any], statuses: Collection[SkillStatus] = SKILL_STATUSES) -> Fit:
        """Return what a state makes of every statement.

        Parameters
        ----------
        state : mapping
            As `model.skill.sound_state` returns it.
        statuses : collection of str
            Those that are asked for.
        """
        wanted = [SKILL_STATUSES.index(status) for status in statuses]
        with self._lock:
            values = self._circuit.values(state)
            columns = self._assertions, self._triggers, self._preconditions
            assertions, triggers, preconditions = (np.array(column, np.int64) for column in columns)
            admitted = np.isin(np.array(self._statuses, np.int8), wanted)
        return Fit(assertions, admitted, values[triggers], values[preconditions])


def _condition_of(predicates: Iterable[str]) -> Condition:
    """Return predicates as one condition: each must hold."""
    return All(frozenset(map(parse_predicate, predicates)))
