"""Parsing and evaluation of predicates, which name nothing but the state and a few functions."""

from __future__ import annotations

import contextlib

import pytest

from hylo_memory_ros.domain.skills import parse_predicate
from hylo_memory_ros.domain.skills.expression import FALSE, TRUE, UNFIT, UNKNOWN, Truth
from hylo_memory_ros.domain.skills.predicate import MAX_BYTES, MAX_DEPTH, MAX_PARTS

STATE = {
    'battery': 0.8,
    'count': 3,
    'big': 2**53 + 1,
    'door_open': True,
    'task': 'fetch "it"',
    'nothing': None,
    'tags': ['clean', 'dry', 7],
    'gripper': {'state': 'empty', 'force': -2.5, 'odd key': 1},
    'robot': {'position': [1.0, 2.0, 0.0]},
    'caf\u00e9': 1,
    'name': 'caf\u00e9',
}


def value(text: str) -> Truth:
    return parse_predicate(text).evaluate(STATE)


@pytest.mark.parametrize(
    'text',
    [
        'battery > 0.3', 'battery>=0.8', '0.3 < battery', 'battery != 1', 'battery == 8e-1', 'count == 3.0',
        '-count < -2', '!(battery < 0.3)', 'door_open', '!!door_open', 'door_open == true',
        'nothing == null',
        'true', '!false', 'task == "fetch \\"it\\""', "task == 'fetch \\u0022it\\u0022'", 'task > "a"',
        'name == "cafe\u0301"', '"clean" in tags', '7 in tags', '7.0 in tags', '!(true in tags)',
        'gripper.state in ["full", "empty"]', 'gripper["odd key"] == 1', '"force" in gripper',
        'tags[1] == "dry"',
        'has(gripper.state)', '!has(gripper.colour)', '!has(battery.level)', '!has(tags[3])',
        'size(tags) == 3',
        'size(task) > 3', 'size(gripper) == 3', 'abs(gripper.force) == 2.5',
        'min(battery, count) == battery',
        'max(1, count) == 3', 'starts_with(task, "fe")', 'distance(robot.position, [1, 2, 1.5]) <= 1.5',
        'battery + 0.1 * count > 1 && count - 1 == 2 && count / 2 == 1.5', '-(count) + 4 == 1',
        'big == 9007199254740993', 'big != 9007199254740992', 'big > 9007199254740992.0',
        '!(door_open == 1)',
        '!(task == 1)', 'task != 1', '[1, count] == [1, 3]', '(count) == 3', '1 < 2', 'count in [1, 3]',
        'missing == 1 || door_open', 'battery > "a" || door_open', 'tags == ["clean", "dry", 7]',
        'door_open || false && missing', 'size([]) == 0', 'missing || battery > 0.1',
    ],
)  # fmt: skip
def test_it_is_true(text: str) -> None:
    assert value(text) == TRUE
    assert value(f'!({text})') == FALSE


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('missing', UNKNOWN), ('missing > 1', UNKNOWN), ('!missing', UNKNOWN),
        ('gripper.colour == "red"', UNKNOWN),
        ('tags[3] == 1', UNKNOWN), ('missing in tags', UNKNOWN), ('missing + 1 > 0', UNKNOWN),
        ('missing && door_open', UNKNOWN), ('missing || count > 5', UNKNOWN),
        ('missing && count > 5', FALSE),
        ('starts_with(missing, "a")', UNKNOWN), ('count in [missing, 1]', UNKNOWN),
        ('battery', UNFIT), ('!task', UNFIT), ('task > 1', UNFIT), ('battery < "a"', UNFIT),
        ('door_open < true', UNFIT),
        ('battery.level > 1', UNFIT), ('tags.first == 1', UNFIT), ('gripper[0] == 1', UNFIT),
        ('nothing.a == 1', UNFIT),
        ('task + 1 > 0', UNFIT), ('count / 0 > 0', UNFIT), ('1e308 * 10 > 0', UNFIT),
        ('size(count) == 1', UNFIT),
        ('9223372036854775807 + count > 0', UNFIT), ('1 in count', UNFIT), ('count in task', UNFIT),
        ('distance(robot.position, [1, 2]) < 1', UNFIT), ('distance(tags, tags) < 1', UNFIT),
        ('abs(task) > 0', UNFIT), ('min(door_open, 1) > 0', UNFIT), ('task > 1 && missing', UNFIT),
        ('task + missing > 0', UNKNOWN), ('task > 1 || door_open', TRUE), ('task > 1 && false', FALSE),
        ('nothing > 1', UNFIT), ('nothing == 1', FALSE), ('tags == "clean"', FALSE),
        ('gripper == "a"', FALSE),
    ],
)  # fmt: skip
def test_what_the_state_does_not_say_is_neither(text: str, expected: Truth) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('', 'at 1: expected a value, got the end'),
        ('   ', 'at 4: expected a value, got the end'),
        ('battery >', 'at 10: expected a value, got the end'),
        ('battery > 0.3 gripper', "at 15: expected the end, got 'gripper'"),
        ('(battery > 1', r"at 13: expected '\)', got the end"),
        ('battery > 1)', r"at 12: expected the end, got '\)'"),
        ('a == 1 == 2', 'at 8: comparisons cannot be chained'),
        ('a = 1', "at 3: unexpected text '= 1'"),
        ('a & b', 'at 3:'),
        ('a ? b : c', 'at 3:'),
        ('"open', 'at 1:'),
        ('"a\nb" == c', 'at 1:'),
        ('a == "\\q"', r'at 6: unknown escape \\q'),
        ('a == "\\ud800"', 'at 6: lone surrogate'),
        ('caf\u00e9 == 1', 'at 4:'),
        ('1.2.3 > 1', 'at 1:'),
        ('1abc', 'at 1:'),
        ('99999999999999999999 > a', 'at 1: expected an integer of at most 64 bits'),
        ('9223372036854775808 > a', 'at 1: expected an integer'),
        ('1e999 > a', 'at 1: expected a finite number, got 1e999'),
        ('battery + 1', 'at 1: expected a condition, got arithmetic'),
        ('"text"', 'at 1: expected a condition, got a literal'),
        ('[1]', 'at 1: expected a condition, got a list'),
        ('size(a)', 'at 1: expected a condition, got the result of size'),
        ('1 && a', 'at 1: expected a condition, got a literal'),
        ('a && 1', 'at 6: expected a condition, got a literal'),
        ('(a > 1) + 1 > 0', 'at 1: expected a value, got a condition'),
        ('!a == b', 'at 1: expected a value, got a condition'),
        ('-(a > 1) > 0', 'at 2: expected a value, got a condition'),
        ('f(a) > 0', "at 1: unknown function 'f'; known: abs, distance, has"),
        ('a.f(b) > 0', r"at 4: expected the end, got '\('"),
        ('eval("1")', "at 1: unknown function 'eval'"),
        ('__import__("os")', "at 1: unknown function '__import__'"),
        ('matches(a, "(a+)+$")', "at 1: unknown function 'matches'"),
        ('skill("open_door")', "at 1: unknown function 'skill'"),
        ('has(1)', 'at 1: has takes a place in the state, got a literal'),
        ('has(a, b)', 'expected 1 arguments of has, got 2'),
        ('abs() > 1', 'expected 1 arguments of abs, got 0'),
        ('min(1) > 0', 'expected 2 arguments of min, got 1'),
        ('a[-1] > 0', "at 3: expected a name in quotes or an integer, got '-'"),
        ('a[1.0] > 0', "at 3: expected a name in quotes or an integer, got '1.0'"),
        ('a[b] > 0', "at 3: expected a name in quotes or an integer, got 'b'"),
        ('a. > 0', "at 4: expected a name, got '>'"),
        ('in == 1', "at 1: expected a value, got 'in'"),
        ('[1, 2', "at 6: expected ',', got the end"),
        ('a == [,]', "at 7: expected a value, got ','"),
        ('lambda: 0', "at 7: unexpected text ': 0'"),
        ('a; b', "at 2: unexpected text '; b'"),
        ('a@b', 'at 2:'),
        ('a == 1 \x00', 'at 8:'),
    ],
)
def test_a_malformed_predicate_is_rejected_at_its_position(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_predicate(text)


@pytest.mark.parametrize(
    'text', ['battery.__class__ == 1', 'task.upper == 1', 'gripper.keys == 1', 'tags.append == 1']
)
def test_names_of_python_objects_are_places_in_the_state_and_no_more(text: str) -> None:
    assert value(text) in {UNFIT, UNKNOWN}


@pytest.mark.parametrize(
    'text',
    [
        '(' * (MAX_DEPTH + 1) + 'a' + ')' * (MAX_DEPTH + 1),
        '!' * (MAX_DEPTH + 1) + 'a',
        '-' * (MAX_DEPTH + 1) + 'a > 0',
        '[' * (MAX_DEPTH + 2) + ']' * (MAX_DEPTH + 2) + ' == a',
        'abs(' * (MAX_DEPTH + 1) + 'a' + ')' * (MAX_DEPTH + 1) + ' > 0',
        '(' * 4000,
        '!' * 4000,
    ],
)
def test_too_deep_a_nesting_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f'nested deeper than {MAX_DEPTH}'):
        parse_predicate(text)


@pytest.mark.parametrize(
    'text',
    [
        ' && '.join(f'a{number} > 1' for number in range(MAX_PARTS)),
        '+'.join(['a'] * (MAX_PARTS + 1)) + ' > 0',
        f'a in [{", ".join(map(str, range(MAX_PARTS)))}]',
        'a' + '.b' * MAX_PARTS,
        'a' + '[0]' * MAX_PARTS,
    ],
)
def test_too_many_parts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f'more than {MAX_PARTS} parts|at most {MAX_BYTES} bytes'):
        parse_predicate(text)


def test_too_long_a_text_is_refused_unread() -> None:
    with pytest.raises(ValueError, match=f'at most {MAX_BYTES} bytes'):
        parse_predicate('a == "' + 'x' * MAX_BYTES + '"')


def test_the_largest_is_read_and_evaluated() -> None:
    depth = MAX_DEPTH - 1
    assert value('(' * depth + 'door_open' + ')' * depth) == TRUE
    assert value('+'.join(['count'] * 60) + ' == 180') == TRUE


def test_nothing_makes_reading_or_evaluating_run_away() -> None:
    hostile = [
        '"' + '\\\\' * 2000,
        'a' * 4000 + '(',
        '1' * 4000,
        ' ' * 4090 + '$',
        '*'.join(['big'] * 60) + ' > 0',
        '&&'.join(['a'] * 100) + '&',
        "'" + "a'" * 1500,
    ]
    for text in hostile:
        with contextlib.suppress(ValueError):
            assert value(text) == UNFIT
