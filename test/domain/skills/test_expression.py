"""Evaluation of conditions over states, against a second implementation of their definition."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.effort import scaled

from hylo_memory_ros.domain.skills import parse_predicate
from hylo_memory_ros.domain.skills.expression import (
    FALSE,
    TRUE,
    UNFIT,
    UNKNOWN,
    And,
    Comparison,
    Condition,
    Constant,
    Holds,
    Not,
    Or,
    Path,
    Truth,
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


def oracle(condition: Condition, state: dict[str, Any]) -> Truth:
    """Return the value of a condition by its definition, without short cuts."""
    if isinstance(condition, And):
        return min((oracle(part, state) for part in condition.parts), default=TRUE)
    if isinstance(condition, Or):
        return max(oracle(part, state) for part in condition.parts)
    if isinstance(condition, Not):
        opposites = {TRUE: FALSE, FALSE: TRUE, UNKNOWN: UNKNOWN, UNFIT: UNFIT}
        return opposites[oracle(condition.condition, state)]
    term = condition.term if isinstance(condition, Holds) else condition.left
    value = term.value if isinstance(term, Constant) else look_up(term, state)
    if isinstance(value, Truth):
        return value
    if isinstance(condition, Holds):
        return (TRUE if value else FALSE) if isinstance(value, bool) else UNFIT
    assert isinstance(condition.right, Constant)
    return compare(condition.operator, value, condition.right.value)


def look_up(term: Any, state: dict[str, Any]) -> Any:
    assert isinstance(term, Path)
    value: Any = state
    for step in term.steps:
        if not isinstance(value, dict if isinstance(step, str) else list):
            return UNFIT
        if step not in (value if isinstance(step, str) else range(len(value))):
            return UNKNOWN
        value = value[step]
    return value


def compare(operator: str, left: Any, right: Any) -> Truth:
    kinds = {type(value) if type(value) is not int else float for value in (left, right)}
    if operator == '==':
        return TRUE if len(kinds) == 1 and left == right else FALSE
    if kinds not in ({float}, {str}):
        return UNFIT
    holds = {'<': left < right, '<=': left <= right, '>': left > right, '>=': left >= right}[operator]
    return TRUE if holds else FALSE


@settings(max_examples=scaled(200), deadline=None)
@given(st.lists(_predicates, min_size=1, max_size=12), _states)
def test_values_are_those_of_the_definition(texts: list[str], state: dict[str, Any]) -> None:
    conditions = [parse_predicate(text) for text in texts]
    assert [part.evaluate(state) for part in conditions] == [oracle(part, state) for part in conditions]


def test_comparing_terms_of_the_state_with_each_other() -> None:
    condition = Comparison('<', Path(('a',)), Path(('b',)))

    assert condition.evaluate({'a': 1, 'b': 2}) is TRUE
    assert condition.evaluate({'a': 'x', 'b': 2}) is UNFIT
    assert condition.evaluate({'a': 1}) is UNKNOWN


def test_a_distance_beyond_every_number_is_unfit() -> None:
    texts = ('distance(p, [1e308, 1e308]) < 1', 'distance([-1e308, 0], p) > 1', 'distance(p, [0, 0]) <= 5')

    def values(state: dict[str, Any]) -> list[Truth]:
        return [parse_predicate(text).evaluate(state) for text in texts]

    assert values({'p': [3.0, 4.0]}) == [FALSE, TRUE, TRUE]
    assert values({'p': [1.7e308, 0]}) == [FALSE, UNFIT, FALSE]
    for unfit in ([1.0], [1.0, True], 'xy', 7, [1, 2, 3]):
        assert values({'p': unfit}) == [UNFIT] * 3
    assert values({}) == [UNKNOWN] * 3
