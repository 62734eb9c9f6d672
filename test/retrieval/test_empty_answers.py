"""Empty answers: counts that are counts, and sentences on what no stored item has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService


def at(x: float, frame: str = 'map') -> Pose:
    return Pose(frame_id=frame, position=(x, 0.0, 0.0))


def thing(key: str, x: float, label: str, frame: str = 'map', **fields: Any) -> MemoryItem:
    return MemoryItem(
        kind='spatial',
        key=key,
        label=label,
        content=f'red {label}',
        pose=at(x, frame),
        valid_from=1,
        **fields,
    )


@pytest.fixture
def memory() -> Iterator[MemoryService]:
    with MemoryService.open() as memory:
        memory.write([thing(f'mug {n}', 100.0 + n, 'mug') for n in range(119)] + [thing('jug', 0.0, 'jug')])
        yield memory


def near(x: float, radius: float, frame: str = 'map', **filters: Any) -> MemoryQuery:
    return MemoryQuery(near=(at(x, frame), radius), **filters)


def test_everything_outside_the_radius_is_counted(memory: MemoryService) -> None:
    assert memory.query(near(0.0, 1.0)).excluded == {'outside_radius': 119}
    assert memory.query(near(0.0, 1.0, labels=['mug'])).excluded == {'outside_radius': 119}
    assert memory.query(near(0.0, 1.0, key='mug 7')).excluded == {'outside_radius': 1}
    assert memory.query(near(0.0, 110.0, k=100)).excluded == {'outside_radius': 108}
    assert memory.query(near(0.0, 1e6, k=1000)).excluded == {}
    memory.forget(MemoryQuery(key='mug 7'))
    assert memory.query(near(0.0, 1.0)).excluded == {'outside_radius': 118}
    assert memory.query(near(0.0, 1.0)).nearest_excluded_m == 100.0


def test_many_outside_the_radius_are_counted_up_to_the_limit_of_totals() -> None:
    with MemoryService.open(config=MemoryConfig(max_items_per_write=20_000)) as memory:
        memory.write([thing(f'm{n}', 100.0 + n, 'mug') for n in range(1_500)])
        assert memory.query(near(0.0, 1.0)).excluded == {'outside_radius': 1_500}
        with_filter = memory.query(near(0.0, 1.0, labels=['mug']))
        assert 256 <= with_filter.excluded['outside_radius'] <= 1_500
        assert with_filter.nearest_excluded_m == 100.0


@pytest.mark.parametrize('x', [0.0, 5_000.0])
def test_another_frame_is_counted_wherever_its_numbers_lie(memory: MemoryService, x: float) -> None:
    result = memory.query(near(x, 1.0, 'base_link'))
    assert result.excluded == {'other_frame': 120}
    assert result.notes == ("no stored item of map '' has a place in frame 'base_link' (map exist)",)
    assert memory.query(near(x, 1.0, 'base_link', labels=['jug'])).excluded == {'other_frame': 1}
    memory.write([thing('cup', 3.0, 'cup', 'base_link')])
    result = memory.query(near(x, 1.0, 'base_link'))
    assert result.excluded == {'other_frame': 120, 'outside_radius': 1}
    assert result.notes == ()


def test_another_map_is_counted_wherever_its_numbers_lie(memory: MemoryService) -> None:
    result = memory.query(near(7e3, 1.0, scope={'map_id': 'hall'}))
    assert result.excluded == {'other_map': 120}


@pytest.mark.parametrize(
    ('filters', 'note'),
    [
        ({'labels': ['mugg']}, 'no stored item of label mugg (mug, jug exist)'),
        ({'labels': ['mugg', 'jugg']}, 'no stored item of label mugg or jugg (mug, jug exist)'),
        ({'text': 'where'}, 'no stored item has all of: where'),
        ({'text': 'where red mug'}, 'no stored item has all of: where, red, mug; none has: where'),
        ({'text': 'mug jug'}, 'no stored item has all of: mug, jug'),
        ({'key': 'mug 500'}, 'no stored item of key mug 500'),
        ({'keys': ['a', 'b']}, 'no stored item of key a or b'),
        ({'ids': ['spatial/0']}, 'no stored item of id spatial/0'),
        ({'entities': ['ann']}, 'no stored item of entity ann'),
        ({'object_ids': ['O1']}, 'no stored item of object O1'),
        ({'relation': ('on', 'O12')}, 'no stored item of link on O12'),
        ({'scope': {'robot_id': 'r2'}}, 'no stored item of scope robot_id r2'),
        ({'kinds': ['semantic']}, 'no stored item passes all of: kinds'),
        ({'labels': ['jug'], 'key': 'mug 1'}, 'no stored item passes all of: keys, labels'),
        ({'known_seq': 0}, 'nothing is stored that is believed at that sequence'),
    ],
    ids=str,
)
def test_what_no_item_has_is_said(memory: MemoryService, filters: dict[str, Any], note: str) -> None:
    result = memory.query(MemoryQuery(**filters))
    assert (result.total, result.notes) == (0, (note,))
    if 'passes all' not in note and 'known_seq' not in filters:
        assert memory.query(near(0.0, 1.0, **filters)).notes == (note,)


def test_of_many_labels_the_likely_ones_are_named() -> None:
    with MemoryService.open() as memory:
        memory.write([thing(f'k{n}', float(n), f'label{n:03}') for n in range(300)])
        (note,) = memory.query(MemoryQuery(labels=['labl299x', 'label0010'])).notes
        assert note.startswith('no stored item of label labl299x or label0010 (')
        assert 'label001' in note
        assert len(note) < 160


def test_an_answer_with_hits_or_with_a_reason_of_time_adds_no_sentence(memory: MemoryService) -> None:
    assert memory.query(MemoryQuery(labels=['mug', 'mugg'])).notes == ()
    memory.forget(MemoryQuery(labels=['jug']))
    gone = memory.query(MemoryQuery(labels=['jug']))
    assert (gone.excluded, gone.notes) == ({'forgotten': 1}, ())
    assert memory.query(MemoryQuery(kinds=['working'])).notes == ()
    assert memory.query(MemoryQuery(text='*** --')).notes == ()
