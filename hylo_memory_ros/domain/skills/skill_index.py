"""Index of compiled skill predicates, and their evaluation in a caller's state.

An entry is an accepted statement, whose predicates never change; the store knows which statements hold, and
since when they were believed. So one index serves the present and every past time.

Threads: a lock guards the table of entries; entries never change, and evaluation runs outside the lock.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hylo_memory_ros.domain.skills.expression import FALSE, And, Condition
from hylo_memory_ros.domain.skills.predicate import ALWAYS, parse_predicate
from hylo_memory_ros.model.skill import SKILL_STATUSES, SkillStatus

__all__ = ['OTHER_STATUS', 'Fit', 'SkillIndex']

OTHER_STATUS = 'other_status'
"""Reason to exclude a skill whose status the query does not ask for."""
_REASONS = ('precondition_failed', 'precondition_unfit', 'precondition_unknown', '')


@dataclass(frozen=True, slots=True)
class Fit:
    """Outcome of every stated skill in one state."""

    reasons: Mapping[int, str]
    """Reason to exclude each statement, by its number and in ascending order; empty: the skill fits."""

    @property
    def fitting(self) -> list[int]:
        """The statements of skills that fit."""
        return [statement for statement, reason in self.reasons.items() if not reason]

    def to_json(self) -> str:
        """Return the fitting statements as a JSON array."""
        return json.dumps(self.fitting, separators=(',', ':'))

    def count_reasons(self, statements: Iterable[int]) -> dict[str, int]:
        """Count the reasons to exclude some statements."""
        reasons = (self.reasons.get(statement, '') for statement in statements)
        return dict(Counter(filter(None, reasons)))


@dataclass(frozen=True, slots=True)
class _Entry:
    status: SkillStatus
    trigger: Condition
    preconditions: Condition

    def reason(self, state: Mapping[str, Any]) -> str:
        trigger = self.trigger.evaluate(state)
        if trigger is FALSE:
            return 'trigger_failed'
        return _REASONS[min(trigger, self.preconditions.evaluate(state))]


class SkillIndex:
    """Compiled predicates of every skill that was ever stated."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry] = {}

    def __len__(self) -> int:
        """Return the number of statements."""
        return len(self._entries)

    def __contains__(self, statement: int) -> bool:
        """Return True if a statement is one of a skill."""
        return statement in self._entries

    def load(self, skills: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Replace the entries by those of these statements; see `add`."""
        entries = {statement: _compile(payload) for statement, payload in skills}
        with self._lock:
            self._entries = entries

    def add(self, skills: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Add statements, each by its number and payload, in ascending order of their numbers."""
        entries = {statement: _compile(payload) for statement, payload in skills}
        with self._lock:
            self._entries.update(entries)

    def fit(self, state: Mapping[str, Any], statuses: Collection[SkillStatus] = SKILL_STATUSES) -> Fit:
        """Evaluate every skill.

        Parameters
        ----------
        state : mapping
            State of the caller, as `model.skill.validate_state` returns it.
        statuses : collection of str
            Statuses that the query asks for.
        """
        with self._lock:
            entries = list(self._entries.items())
        return Fit(
            {
                statement: entry.reason(state) if entry.status in statuses else OTHER_STATUS
                for statement, entry in entries
            }
        )


def _compile(payload: Mapping[str, Any]) -> _Entry:
    trigger = parse_predicate(payload['trigger']) if payload.get('trigger') else ALWAYS
    preconditions = And(tuple(map(parse_predicate, payload.get('preconditions', ()))))
    return _Entry(payload['status'], trigger, preconditions)
