"""Skills that fit the caller's state, out of 1 000: their predicates alone, and inside a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench._figure import at_most, medians, seconds
from hylo_memory_ros.domain.skills import SkillIndex
from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService

SKILLS = 1_000
TARGET_MS = 25.0
ROUNDS = 101
THINGS = ('mug', 'chair', 'table', 'lamp', 'book')
Predicates = Callable[[int, float], list[str]]


def distinct(number: int, chance: float) -> list[str]:
    """Return three predicates with constants that no other skill has."""
    return [
        f'battery > {chance:.9f}',
        f'gripper == "empty" || held.label in ["thing {number}", "mug"]',
        f'!(distance_m >= {10 * chance:.9f}) && has(held.label)',
    ]


def shared(number: int, chance: float) -> list[str]:
    """Return predicates that many skills have in common."""
    return [
        f'battery > {chance:.1f}',
        'gripper == "empty"',
        f'held.label == "{THINGS[number % len(THINGS)]}"',
    ]


def located(number: int, chance: float) -> list[str]:
    """Return a predicate about a place that no other skill names."""
    return [f'distance(robot.position, [{number % 40}, {number // 40}]) < {1 + 9 * chance:.6f}']


def state(number: int) -> dict[str, Any]:
    """Return the robot's state of one round."""
    chance = (number * 0.618) % 1.0
    return {
        'task': f'task {number % 50}',
        'battery': chance,
        'gripper': ('empty', 'full')[number % 2],
        'held': {'label': THINGS[number % len(THINGS)]},
        'distance_m': 5 * chance,
        'robot': {'position': [100 * chance, 50.0]},
    }


def payload(number: int, preconditions: list[str], **fields: Any) -> dict[str, Any]:
    """Return the payload of a skill that two of fifty tasks trigger."""
    trigger = f'task == "task {number % 50}" || task == "task {(number + 1) % 50}"'
    surface = {'params': {'speed': 0.2}, 'api_surface': 'hylo.tools@v1'}
    return {**surface, 'trigger': trigger, 'preconditions': preconditions, 'status': 'proposed', **fields}


def payloads(predicates: Predicates) -> list[dict[str, Any]]:
    """Return the payloads of all skills."""
    chances = np.random.default_rng(3).uniform(0.0, 1.0, SKILLS).tolist()
    return [payload(number, predicates(number, chance)) for number, chance in enumerate(chances)]


def match() -> Iterator[dict[str, Any]]:
    """Evaluate every skill; a trigger that holds always leaves none of the preconditions out."""
    for name, predicates in (('distinct', distinct), ('shared', shared), ('located', located)):
        index = SkillIndex()
        skills = [{**skill, 'trigger': ''} for skill in payloads(predicates)]
        compile_s = seconds(lambda index=index, skills=skills: index.load(enumerate(skills, 1)))  # type: ignore[misc]
        fitting = [len(index.fit(state(number)).fitting) for number in range(ROUNDS)]
        (median_s,) = medians(ROUNDS, lambda number, index=index: index.fit(state(number)).fitting)  # type: ignore[misc]
        yield at_most(
            f'precondition match over 1 000 skills, {name}, ms',
            median_s * 1e3,
            TARGET_MS,
            fitting=int(np.median(fitting)),
            compile_s=round(compile_s, 2),
        )


def query() -> Iterator[dict[str, Any]]:
    """Query the ten newest verified skills that fit, and their number."""
    evidence = {'evidence': ['a', 'b', 'c'], 'verdicts': {'useful': 3}, 'status': 'verified'}
    with MemoryService.open(clock=lambda: 2 * 10**18) as memory:
        skills = payloads(distinct)
        for first in range(0, SKILLS, 500):
            for fields in ({}, evidence):
                memory.write(
                    [
                        MemoryItem(
                            kind='skill',
                            key=f'skill/{number}',
                            content=f'skill {number}',
                            valid_from_ns=10**18 + number,
                            payload={**skills[number], **fields},
                        )
                        for number in range(first, first + 500)
                    ]
                )
        fits = []

        def ask(number: int) -> None:
            fits.append(memory.query(MemoryQuery(kinds=['skill'], state=state(number))).total)

        with_state, without, fit = medians(
            ROUNDS,
            ask,
            lambda _: memory.query(MemoryQuery(kinds=['skill'])),
            lambda number: memory._skills.index.fit(state(number)).to_json(),
        )
        yield at_most(
            'match of 1 000 skills inside a query, ms',
            (with_state - without) * 1e3,
            TARGET_MS,
            query_ms=round(with_state * 1e3, 2),
            without_state_ms=round(without * 1e3, 2),
            predicates_ms=round(fit * 1e3, 2),
            fitting=int(np.median(fits)),
        )


FIGURES = {'match': match, 'query': query}
