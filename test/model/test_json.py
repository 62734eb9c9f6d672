"""A payload is one JSON object, and a refusal names the path."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from hylo_memory_ros.model import MemoryItem, depth_of, parse_object

plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
objects = st.dictionaries(st.text(max_size=5), plain | st.lists(plain, max_size=3), max_size=4)


def payload(value: Any) -> Any:
    return MemoryItem(kind='semantic', payload=value).payload


@pytest.mark.parametrize(
    ('value', 'path'),
    [
        ({'d': float('nan')}, r'\$\.d'),
        ({'a': [1, float('inf')]}, r'\$\.a\[1\]'),
        ({'a': {'b': float('-inf')}}, r'\$\.a\.b'),
        ({'a': b'x'}, r'\$\.a'),
        ({'a': {1: 2}}, r'\$\.a'),
        ({'a': '\ud800'}, r'\$\.a'),
        ({'a': {1, 2}}, r'\$\.a'),
        ({'e\u0301': 1, '\u00e9': 2}, 'twice'),
        ({'a': 10**4300}, r'\$\.a'),
        ({'a': -(10**4300)}, r'\$\.a'),
        ([1], 'expected a JSON object'),
        ('{}', 'expected a JSON object'),
    ],
)
def test_what_is_no_json_is_refused_by_path(value: Any, path: str) -> None:
    with pytest.raises(ValidationError, match=path):
        payload(value)


def test_numbers_keep_every_digit() -> None:
    value = {
        'big': 2**53 + 1,
        'huge': 10**4300 - 1,
        'deep': -(10**4300) + 1,
        'half': 0.5,
        'whole': 1.0,
        'int': 1,
    }
    kept = payload(value)
    assert kept == value
    assert [type(kept[name]) for name in ('whole', 'int')] == [float, int]


def test_it_is_a_copy() -> None:
    given = {'a': [1]}
    kept = payload(given)
    given['a'].append(2)
    assert kept == {'a': [1]}


def test_a_cycle_or_an_abyss_is_refused() -> None:
    cycle: dict[str, Any] = {}
    cycle['a'] = cycle
    with pytest.raises(ValidationError, match='deeper'):
        payload(cycle)


@given(objects)
def test_sound_objects_are_kept(value: dict[str, Any]) -> None:
    assume(len({unicodedata.normalize('NFC', key) for key in value}) == len(value))
    assert parse_object(json.dumps(value)) == payload(value) == value


@pytest.mark.parametrize(
    ('text', 'path'),
    [
        ('{"d":NaN}', r'\$\.d'),
        ('{"a":[1,Infinity]}', r'\$\.a\[1\]'),
        ('{"a":{"b":-Infinity}}', r'\$\.a\.b'),
        ('{"a":1e999}', r'\$\.a'),
        ('{"a":{"b":1,"b":2}}', r'\$\.a\.b: the key appears twice'),
        ('{"a":[{"e\u0301":1,"\u00e9":2}]}', r'\$\.a\[0\]\.\S+: the key appears twice'),
        ('{"a":[' + '9' * 4301 + ']}', r'\$\.a\[0\]'),
        ('{"a":"\\ud800"}', r'\$\.a'),
    ],
)
def test_what_is_no_json_in_a_text_is_refused_by_path(text: str, path: str) -> None:
    with pytest.raises(ValueError, match='payload_json: ' + path):
        parse_object(text)


@pytest.mark.parametrize(
    'text',
    [
        '[1]',
        '{',
        '',
        'null',
    ],
)
def test_a_text_that_is_no_object_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(ValueError, match='payload_json'):
        parse_object(text)


def test_depth_is_counted_in_containers() -> None:
    assert [depth_of(value) for value in (1, {}, {'a': 1}, {'a': [1]}, {'a': [{}]})] == [0, 1, 1, 2, 3]
