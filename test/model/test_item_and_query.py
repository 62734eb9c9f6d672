"""Items and queries: frozen, strict, and consistent in themselves."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from hylo_memory_ros.model import MemoryItem, MemoryKind, MemoryQuery, Pose
from hylo_memory_ros.storage.query.filters import selects_items

HERE = Pose(frame_id='map', position=(1, 2, 3))


def test_an_item_is_frozen_and_knows_its_fields() -> None:
    item = MemoryItem(kind=MemoryKind.SPATIAL)
    with pytest.raises(ValidationError):
        item.content = 'x'  # type: ignore[misc]
    with pytest.raises(ValidationError, match='extra'):
        MemoryItem(kind='spatial', colour='red')


def test_the_defaults_are_those_of_the_interface() -> None:
    item = MemoryItem(kind='spatial')
    assert (item.confidence, item.source, item.entities, item.scope, item.payload) == (1.0, '', (), {}, {})


@pytest.mark.parametrize('confidence', [-0.1, 1.1, math.nan])
def test_confidence_is_a_probability(confidence: float) -> None:
    with pytest.raises(ValidationError, match='confidence'):
        MemoryItem(kind='spatial', confidence=confidence)


@pytest.mark.parametrize('vector', [[], [0.0, 0.0], [1e-13, 0], [math.nan, 1], [math.inf], [1e39]])
def test_a_vector_has_a_direction(vector: list[float]) -> None:
    with pytest.raises(ValidationError, match='vector'):
        MemoryItem(kind='spatial', embeddings={'clip@1': vector})


def test_a_vector_is_kept_in_float32_and_named() -> None:
    kept = MemoryItem(kind='spatial', embeddings={'clip@1': [0.1, 1]}).embeddings['clip@1']
    assert kept == MemoryItem(kind='spatial', embeddings={'clip@1': kept}).embeddings['clip@1']
    assert kept[0] != 0.1
    with pytest.raises(ValidationError, match='name@version'):
        MemoryItem(kind='spatial', embeddings={'clip': [1.0]})


def test_a_record_built_of_what_is_known_equals_a_validated_one() -> None:
    item = MemoryItem(kind='spatial', key='mug', pose=HERE, scope={'map_id': 'hall'})
    trusted = MemoryItem.trusted(dict(item.__dict__))
    assert trusted == item
    assert trusted.model_dump() == item.model_dump()
    assert trusted.model_copy(update={'label': 'cup'}).label == 'cup'


@pytest.mark.parametrize(
    'fields',
    [
        {'key': 'a', 'keys': ('b',)},
        {'known_at': 1, 'known_seq': 1},
        {'any_map': True, 'scope': {'map_id': 'hall'}},
        {'near': (HERE, -0.1)},
        {'near': (HERE, math.nan)},
        {'near': (HERE, math.inf)},
        {'k': -1},
        {'k': 10_001},
        {'known_seq': -1},
        {'min_confidence': 1.5},
        {'kinds': ['dream']},
    ],
)
def test_a_query_that_contradicts_itself_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MemoryQuery(**fields)


@pytest.mark.parametrize(
    ('fields', 'narrows'),
    [
        ({}, False),
        ({'k': 3, 'as_of': 5, 'known_seq': 2, 'include_invalidated': True, 'any_map': True}, False),
        ({'scope': {}}, False),
        ({'key': 'a'}, True),
        ({'text': ''}, True),
        ({'near': (HERE, 0.0)}, True),
        ({'kinds': ['spatial']}, True),
        ({'min_confidence': 0.0}, False),
        ({'min_confidence': 5e-324}, True),
        ({'kinds': ['spatial', 'semantic', 'episodic', 'skill']}, True),
        ({'kinds': list(MemoryKind)}, False),
        ({'kinds': []}, False),
        ({'time_range': (None, None)}, False),
        ({'time_range': (0, None)}, True),
        ({'time_range': (None, 0)}, True),
        ({'entities': (), 'labels': (), 'ids': (), 'keys': (), 'object_ids': ()}, False),
        ({'horizontal': True, 'depth': 3, 'text_space': None}, False),
        ({'min_existence': 0.0, 'min_helpfulness': 0.0, 'min_score': 0.0}, False),
        ({'skill_status': ['proposed']}, False),
    ],
)
def test_a_query_knows_whether_anything_narrows_it_down(fields: dict[str, Any], narrows: bool) -> None:
    assert selects_items(MemoryQuery(**fields)) is narrows
