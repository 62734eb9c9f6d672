"""Whatever is put into a field: a model is built, or pydantic's `ValidationError` says why not."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from support.effort import scaled

from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose, TimeSpan

SOUND: dict[type[BaseModel], dict[str, Any]] = {
    MemoryItem: {'kind': 'spatial'},
    MemoryQuery: {},
    Pose: {'frame_id': 'map', 'position': (0, 0, 0)},
    TimeSpan: {'start': 1},
}
SECONDS = {
    MemoryItem: ['valid_from'],
    MemoryQuery: ['as_of', 'known_at', 'time_range'],
    Pose: ['stamp'],
    TimeSpan: ['start', 'end'],
}
FIELDS = [(model, name) for model in SOUND for name in [*model.model_fields, *SECONDS[model], 'nonsense']]

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, 2**64, -(2**63) - 1, 10**400, -0.0, 1e154, 1e300, math.nan, math.inf, -math.inf]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(['\ud800', '\0', 'map', 'name@1', '', ' ', 'sim', 'x' * 2000]),
    st.binary(max_size=8),
    st.builds(object),
    st.just(Pose(frame_id='map', position=(1, 2, 3))),
)
anything = st.recursive(
    leaves,
    lambda part: st.one_of(
        st.lists(part, max_size=4),
        st.tuples(part, part),
        st.tuples(part, part, part),
        st.tuples(part, part, part, part),
        st.lists(st.floats(), min_size=36, max_size=36),
        st.dictionaries(
            st.one_of(
                st.text(max_size=4),
                st.sampled_from(['name@1', 'frame_id', 'position', 'start']),
                st.integers(),
            ),
            part,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=scaled(400), deadline=None)
@given(st.sampled_from(FIELDS), anything)
@example((MemoryQuery, 'time_range'), 5)
@example((MemoryQuery, 'time_range'), (1, 2, 3))
@example((MemoryQuery, 'time_range'), 'ab')
@example((MemoryQuery, 'embedding'), ('clip@1', 5))
@example((MemoryQuery, 'embedding'), ('clip@1', [None]))
@example((MemoryItem, 'embeddings'), {5: [1.0]})
@example((MemoryItem, 'embeddings'), {'clip@1': None})
@example((MemoryItem, 'embeddings'), {'clip@1': [10**400]})
@example((Pose, 'covariance'), 5)
@example((Pose, 'covariance'), [None] * 36)
@example((Pose, 'covariance'), [10**400] * 36)
@example((Pose, 'orientation'), (1e154, 1e154, 0.0, 0.0))
@example((Pose, 'position'), (10**400, 0, 0))
@example((MemoryItem, 'valid_from'), 10**400)
@example((MemoryItem, 'payload'), {'a': {1: 2}})
@example((MemoryItem, 'payload'), {'\ud800': 2})
def test_nothing_but_a_validation_error_is_raised(field: tuple[type[BaseModel], str], value: Any) -> None:
    model, name = field
    with suppress(ValidationError):
        model(**{**SOUND[model], name: value})


@pytest.mark.parametrize('radius', [-1.0, math.nan, math.inf, 'far', None])
def test_a_radius_is_finite_and_not_negative(radius: Any) -> None:
    with pytest.raises(ValidationError, match='near'):
        MemoryQuery(near=(Pose(frame_id='map', position=(0, 0, 0)), radius))


@pytest.mark.parametrize('k', [-1, 10_001, 1.5, None, '5 hits'])
def test_a_count_of_hits_is_bounded(k: Any) -> None:
    with pytest.raises(ValidationError, match='k'):
        MemoryQuery(k=k)


@pytest.mark.parametrize('name', ['as_of', 'known_at'])
@pytest.mark.parametrize('value', [-1, 2**31, math.nan, '5', True])
def test_a_time_asked_about_is_sound(name: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=name):
        MemoryQuery(**{name: value})
