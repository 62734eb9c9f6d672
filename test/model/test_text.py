"""One validator serves every door for keys, names and frames."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose, normalize_frame, normalize_key

SOUND_KEYS = [
    'a',
    'a ',
    ' a',
    '*',
    'all',
    '%',
    '_',
    'cup_1',
    'cup%',
    'A',
    '\u00e9',
    'k' * 512,
    '\u4e2d' * 170,
]
BAD_KEYS = [
    '',
    ' ',
    '\t',
    '\n',
    ' \u3000',
    'a\0',
    'a\nb',
    'a\x7f',
    'k' * 513,
    'k' * 1000,
    '\u4e2d' * 171,
    '\ud800',
]


@pytest.mark.parametrize('key', SOUND_KEYS)
def test_a_sound_key_is_kept_as_it_is(key: str) -> None:
    assert normalize_key(key) == key
    assert MemoryItem(kind='semantic', key=key).key == MemoryQuery(key=key).key == key


@pytest.mark.parametrize('key', BAD_KEYS)
def test_a_bad_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match='key'):
        normalize_key(key)


@pytest.mark.parametrize(
    'make',
    [
        pytest.param(lambda key: MemoryItem(kind='semantic', key=key), id='key of an item'),
        pytest.param(lambda key: MemoryItem(kind='semantic', id=key), id='id of an item'),
        pytest.param(lambda key: MemoryItem(kind='semantic', entities=(key,)), id='entity'),
        pytest.param(lambda key: MemoryItem(kind='semantic', scope={key: 'x'}), id='scope'),
        pytest.param(lambda key: MemoryQuery(key=key), id='key of a query'),
        pytest.param(lambda key: MemoryQuery(keys=(key,)), id='keys'),
        pytest.param(lambda key: MemoryQuery(ids=(key,)), id='ids'),
        pytest.param(lambda key: MemoryQuery(object_ids=(key,)), id='object_ids'),
    ],
)
@pytest.mark.parametrize('key', BAD_KEYS)
def test_a_bad_key_is_refused_at_every_door(make: Callable[[str], object], key: str) -> None:
    with pytest.raises(ValidationError):
        make(key)


def test_one_letter_has_one_form() -> None:
    assert normalize_key('e\u0301') == '\u00e9'
    assert MemoryItem(kind='semantic', key='cafe\u0301').key == MemoryQuery(key='caf\u00e9').key


@pytest.mark.parametrize('content', ['cafe\u0301', '  two  spaces ', 'line\nline', ''])
def test_content_is_returned_as_given(content: str) -> None:
    assert MemoryItem(kind='semantic', content=content).content == content


@pytest.mark.parametrize('field', ['content', 'source', 'label'])
def test_what_is_no_text_is_refused(field: str) -> None:
    with pytest.raises(ValidationError):
        MemoryItem(kind='semantic', **{field: 'a\ud800'})


@pytest.mark.parametrize(
    ('given', 'stored'),
    [('map', 'map'), ('/map', 'map'), ('robot1/base_link', 'robot1/base_link'), ('tag36h11:0', 'tag36h11:0')],
)
def test_one_leading_slash_is_stripped(given: str, stored: str) -> None:
    assert normalize_frame(given) == Pose(frame_id=given, position=(0, 0, 0)).frame_id == stored


@pytest.mark.parametrize('frame', ['', '/', '//map', ' map ', 'map ', 'a b', '/ map', '\t', 'a\0'])
def test_what_is_no_frame_is_refused(frame: str) -> None:
    with pytest.raises(ValueError, match='frame_id'):
        normalize_frame(frame)
    with pytest.raises(ValidationError):
        Pose(frame_id=frame, position=(0, 0, 0))
