"""All conditions at once have the values that each has by itself, and what is shared is evaluated once."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.effort import scaled

from hylo_memory_ros.domain.skills import parse_predicate
from hylo_memory_ros.domain.skills.circuit import FALSE, TRUE, UNFIT, UNKNOWN, Circuit
from hylo_memory_ros.domain.skills.expression import (
    All,
    AnyOf,
    Compare,
    Condition,
    Constant,
    Holds,
    Not,
    Path,
)

_paths = st.sampled_from(['a', 'b', 'c.d', 'e[0]', 'f'])
_numbers = st.one_of(
    st.integers(-3, 3), st.sampled_from([0.5, 1.5, 2**53, 2**53 + 1, 1 - 2**63, 2**63 - 1]), st.floats(-3, 3)
)
_texts = st.sampled_from(['x', 'y', 'zz'])
_literals = st.one_of(
    _numbers.map(repr), _texts.map('"{}"'.format), st.sampled_from(['true', 'false', 'null'])
)
_comparisons = st.builds(
    '{} {} {}'.format, _paths, st.sampled_from(['==', '!=', '<', '<=', '>', '>=']), _literals
)
_leaves = st.one_of(_paths, _comparisons, st.builds('{} in [{}, {}]'.format, _paths, _literals, _literals))
_predicates = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        inner.map('!({})'.format),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: '(' + ' && '.join(parts) + ')'),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: '(' + ' || '.join(parts) + ')'),
    ),
    max_leaves=8,
)
_scalars = st.one_of(_numbers, _texts, st.booleans(), st.none())
_states = st.fixed_dictionaries(
    {},
    optional={
        'a': _scalars,
        'b': _scalars,
        'c': st.one_of(_scalars, st.fixed_dictionaries({}, optional={'d': _scalars})),
        'e': st.one_of(_scalars, st.lists(_scalars, max_size=1)),
        'f': _scalars,
    },
)


def plainly(condition: Condition, state: dict[str, Any]) -> int:
    """Return the value of a condition as its definition has it, one part after the other."""
    if isinstance(condition, All):
        return min((plainly(part, state) for part in condition.conditions), default=TRUE)
    if isinstance(condition, AnyOf):
        return max(plainly(part, state) for part in condition.conditions)
    if isinstance(condition, Not):
        return {TRUE: FALSE, FALSE: TRUE, UNKNOWN: UNKNOWN, UNFIT: UNFIT}[plainly(condition.condition, state)]
    term = condition.term if isinstance(condition, Holds) else condition.left
    value = term.value if isinstance(term, Constant) else looked_up(term, state)
    if value in {'unknown', 'unfit'}:
        return UNKNOWN if value == 'unknown' else UNFIT
    if isinstance(condition, Holds):
        return (TRUE if value else FALSE) if isinstance(value, bool) else UNFIT
    assert isinstance(condition.right, Constant)
    return compared(condition.operator, value, condition.right.value)


def looked_up(term: Any, state: dict[str, Any]) -> Any:
    assert isinstance(term, Path)
    value: Any = state
    for step in term.steps:
        if not isinstance(value, dict if isinstance(step, str) else list):
            return 'unfit'
        if step not in (value if isinstance(step, str) else range(len(value))):
            return 'unknown'
        value = value[step]
    return value


def compared(operator: str, one: Any, other: Any) -> int:
    kinds = {type(value) if type(value) is not int else float for value in (one, other)}
    if operator == '==':
        return TRUE if len(kinds) == 1 and one == other else FALSE
    if kinds not in ({float}, {str}):
        return UNFIT
    holds = {'<': one < other, '<=': one <= other, '>': one > other, '>=': one >= other}[operator]
    return TRUE if holds else FALSE


@settings(max_examples=scaled(200), deadline=None)
@given(st.lists(_predicates, min_size=1, max_size=12), _states)
def test_many_at_once_are_as_each_by_itself(texts: list[str], state: dict[str, Any]) -> None:
    conditions = [parse_predicate(text) for text in texts]
    circuit = Circuit()
    numbers = [circuit.add(condition) for condition in conditions]
    values = circuit.values(state)

    assert [int(values[number]) for number in numbers] == [plainly(part, state) for part in conditions]


def test_equal_parts_are_one() -> None:
    circuit = Circuit()
    first = circuit.add(parse_predicate('a > 1 && b == "x"'))
    size = len(circuit)

    assert circuit.add(parse_predicate('(b == "x") && 1 < a')) == first
    assert circuit.add(parse_predicate('a > 1.0 && "x" == b')) == first
    assert len(circuit) == size
    circuit.add(parse_predicate('a > 1 || b == "x"'))
    assert len(circuit) == size + 1


def test_it_can_grow_between_two_evaluations() -> None:
    circuit = Circuit()
    for number in range(300):
        added = circuit.add(parse_predicate(f'a > {number} && !(b == "t{number}") || c'))
        values = circuit.values({'a': 150, 'b': 't7', 'c': False})
        assert values[added] == (TRUE if number < 150 and number != 7 else FALSE)


@pytest.mark.parametrize('radius', [0.5, math.nextafter(0.5, 0.0)])
def test_a_boundary_does_not_depend_on_what_else_is_asked(radius: float) -> None:
    texts = [f'distance(robot, [{number}, 0.3]) <= {radius!r}' for number in range(20)]
    state = {'robot': [0.0, -0.2]}
    together = Circuit()
    numbers = [together.add(parse_predicate(text)) for text in texts]
    values = together.values(state)

    for text, number in zip(texts, numbers, strict=True):
        alone = Circuit()
        one = alone.add(parse_predicate(text))
        assert alone.values(state)[one] == values[number]


def test_comparing_terms_of_the_state_with_each_other() -> None:
    circuit = Circuit()
    compare = circuit.add(Compare('<', Path(('a',)), Path(('b',))))

    assert circuit.values({'a': 1, 'b': 2})[compare] == TRUE
    assert circuit.values({'a': 'x', 'b': 2})[compare] == UNFIT
    assert circuit.values({'a': 1})[compare] == UNKNOWN


def test_a_distance_beyond_every_number_is_unfit() -> None:
    circuit = Circuit()
    texts = ('distance(p, [1e308, 1e308]) < 1', 'distance([-1e308, 0], p) > 1', 'distance(p, [0, 0]) <= 5')
    numbers = [circuit.add(parse_predicate(text)) for text in texts]

    assert [circuit.values({'p': [3.0, 4.0]})[number] for number in numbers] == [FALSE, TRUE, TRUE]
    assert [circuit.values({'p': [1.7e308, 0]})[number] for number in numbers] == [FALSE, UNFIT, FALSE]
    for unfit in ([1.0], [1.0, True], 'xy', 7, [1, 2, 3]):
        assert [circuit.values({'p': unfit})[number] for number in numbers] == [UNFIT] * 3
    assert [circuit.values({})[number] for number in numbers] == [UNKNOWN] * 3
