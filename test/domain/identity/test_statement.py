"""What makes two statements the same, and what does not."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from hylo_memory_ros.domain.identity import Statement, statement_of
from hylo_memory_ros.model import MemoryItem, Pose, TimeSpan

SCOPE = ('map_id',)
BASE: dict[str, Any] = {
    'kind': 'spatial',
    'key': 'mug',
    'label': 'cup',
    'content': 'red mug',
    'payload': {'size': 1},
    'entities': ('Ann',),
    'object_ids': ('O1',),
    'links': (('on', 'O2'),),
    'scope': {'map_id': 'hall', 'robot_id': 'r1'},
    'pose': Pose(frame_id='map', position=(1, 2, 3), orientation=(0, 0, 0, 1)),
    'extent': (0.1, 0.1, 0.2),
    'valid_from': 5,
}
OTHER: dict[str, Any] = {
    'kind': 'semantic',
    'key': 'jug',
    'label': 'jug',
    'content': 'blue mug',
    'payload': {'size': 1.0},
    'entities': ('Bob',),
    'object_ids': ('O3',),
    'links': (('under', 'O2'),),
    'scope': {'map_id': 'hall', 'robot_id': 'r2'},
    'pose': Pose(frame_id='odom', position=(1, 2, 3), orientation=(0, 0, 0, 1)),
    'extent': (0.1, 0.1, 0.3),
}
BESIDE: dict[str, Any] = {
    'confidence': 0.5,
    'source': 'camera@2',
    'evidence': ('bag://1',),
    'provenance': {'frame': 'camera'},
    'embeddings': {'clip@1': (1.0, 2.0)},
    'event_time': TimeSpan(start=1, end=2),
    'pose': Pose(
        frame_id='map', position=(1, 2, 3), orientation=(0, 0, 0, 1), stamp=7, covariance=[1.0] * 36
    ),
}


def stated(**fields: Any) -> Statement:
    return statement_of(MemoryItem(**{**BASE, **fields}), SCOPE)


@pytest.mark.parametrize('field', sorted(OTHER))
def test_every_field_of_content_changes_it(field: str) -> None:
    other = stated(**{field: OTHER[field]})
    assert other.content != stated().content
    assert other.element != stated().element
    assert other.id != stated().id


@pytest.mark.parametrize('field', sorted(BESIDE))
def test_what_stands_beside_the_content_changes_the_snapshot_alone(field: str) -> None:
    beside = stated(**{field: BESIDE[field]})
    assert (beside.content, beside.identity, beside.id) == (stated().content, stated().identity, stated().id)
    assert beside.element != stated().element


def test_a_stamp_of_zero_is_a_time() -> None:
    stamped = Pose(frame_id='map', position=(1, 2, 3), orientation=(0, 0, 0, 1), stamp=0)
    assert stated(pose=stamped).element != stated().element


def test_the_time_is_in_the_id_and_the_snapshot_but_not_in_the_content() -> None:
    later = stated(valid_from=6)
    assert later.content == stated().content
    assert (later.element != stated().element, later.id != stated().id) == (True, True)


def test_an_assumed_time_is_in_the_id_alone() -> None:
    assumed = [stated(valid_from=stamp, valid_from_assumed=True) for stamp in (5, 6)]
    assert assumed[0].element == assumed[1].element != stated(valid_from=5).element
    assert assumed[0].id != assumed[1].id


def test_the_identity_is_kind_key_and_the_scope_that_counts() -> None:
    same = stated(content='other', label='', pose=None, scope={'map_id': 'hall'})
    assert same.identity == stated().identity
    for fields in ({'kind': 'semantic'}, {'key': 'jug'}, {'scope': {'map_id': 'lab'}}):
        assert stated(**fields).identity != stated().identity
    item = MemoryItem(**BASE)
    assert statement_of(item, ('map_id', 'robot_id')).identity != statement_of(item, SCOPE).identity


def test_q_and_minus_q_are_one_rotation() -> None:
    turned = [
        Pose(frame_id='map', position=(1, 2, 3), orientation=[sign * part for part in (0.5, 0.5, 0.5, 0.5)])
        for sign in (1, -1)
    ]
    assert stated(pose=turned[0]) == stated(pose=turned[1])


def test_order_and_repetition_in_a_list_do_not_matter() -> None:
    assert stated(entities=('b', 'a', 'b')) == stated(entities=('a', 'b'))


def test_texts_of_equal_form_are_equal() -> None:
    assert stated(content='caf\u00e9').content == stated(content='cafe\u0301').content


def test_a_statement_without_key_is_an_identity_of_its_own() -> None:
    one, same, other = (stated(key=None, content=content) for content in ('a', 'a', 'b'))
    assert one == same
    assert one.identity != other.identity


def test_when_it_happened_belongs_to_a_statement_without_key() -> None:
    event = TimeSpan(start=1, end=2)
    assert stated(key=None, event_time=event).content != stated(key=None).content
    assert stated(key=None, valid_from=6).content != stated(key=None).content


def test_a_given_id_is_kept() -> None:
    assert stated(id='mine').id == 'mine'


def test_golden_digests() -> None:
    statement = stated()
    assert statement.content.hex() == 'd5244cee3f5360d6142552bd5a2da96ff4a60fcd430224b86f3a9f966c039727'
    assert statement.identity.hex() == '5618912abb73954fa500f1151f7c8f6ac603f62bf2d5af88a88f65a47f422f86'
    assert statement.element.hex() == 'f3ac51011e0f0587b8bb9638d40844a91d71180f419dd4a5d2d77cb11be87457'
    assert statement.id == 'spatial/108c881b07537a740058be59f89b562c'


def test_the_content_digest_is_that_of_a_text_anybody_can_write() -> None:
    text = (
        '{"content":"red mug","entities":["Ann"],"extent":[0.1,0.1,0.2],"key":"mug","kind":"spatial",'
        '"label":"cup","links":[["on","O2"]],"object_ids":["O1"],"payload":{"size":1},'
        '"pose":{"frame_id":"map","orientation":[0.0,0.0,0.0,1.0],"position":[1.0,2.0,3.0]},'
        '"scope":{"map_id":"hall","robot_id":"r1"}'
    )
    assert stated().content == sha256((text + '}').encode()).digest()
    element = text + ',"valid_from_ns":5000000000}{"confidence":1.0}'
    assert stated().element == sha256(element.encode()).digest()
