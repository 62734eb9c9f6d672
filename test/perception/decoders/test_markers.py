"""Markers by the rules of RViz: what is added, what is deleted, and what is only drawn."""

import itertools
from typing import Any

import pytest

pytest.importorskip('rosbags', reason='rosbags is not installed')

from support.bags import NS, Types

from hylo_memory_ros.perception.ingestion.decoders import DECODERS, DecodedMessage

NOW = 1_700_000_000 * NS
TYPES = Types()
DELETE, DELETE_ALL = 2, 3


def reader() -> Any:
    read = DECODERS['visualization_msgs/msg/MarkerArray']()
    return lambda *markers: read(TYPES.cdr(TYPES.markers(*markers)), 'shapes')


def added(ns: str, number: int, at: int = NOW, frame: str = 'map', **fields: Any) -> Any:
    return TYPES.marker(at, frame, ns, number, **fields)


def gone(ns: str, number: int = 0, action: int = DELETE, at: int = 0) -> Any:
    return TYPES.marker(at, '', ns, number, action=action)


def names(reading: DecodedMessage) -> list[str]:
    return [name for one in reading.messages for name in one.detections.instances or ()]


def test_one_number_in_two_namespaces_is_two_things() -> None:
    assert names(reader()(added('a', 1), added('b', 1))) == ['a/1', 'b/1']


def test_the_later_of_two_in_one_array_counts() -> None:
    (one,) = reader()(added('a', 1, x=1.0), added('a', 1, x=5.0)).messages
    assert one.detections.positions.tolist() == [[5.0, 2.0, 0.5]]


@pytest.mark.parametrize('kind', [*range(13), -1, 99])
def test_what_has_a_place_is_a_thing_and_what_is_drawn_is_counted(kind: int) -> None:
    placed = kind in {0, 1, 2, 3, 10}
    reading = reader()(added('a', 1, kind=kind))
    assert names(reading) == (['a/1'] if placed else [])
    assert dict(reading.refused) == ({} if placed else {'marker_type': 1})


def test_an_arrow_between_two_points_has_no_place() -> None:
    reading = reader()(added('a', 1, kind=0, points=[TYPES.point(0, 0), TYPES.point(1, 0)]))
    assert dict(reading.refused) == {'marker_type': 1}


def test_the_scale_of_a_solid_is_its_size_and_that_of_a_mesh_is_not() -> None:
    scale = TYPES.new('geometry_msgs/Vector3', x=0.1, y=0.2, z=0.3)
    (one,) = reader()(added('a', 1, scale=scale), added('a', 2, kind=10, scale=scale)).messages
    assert one.detections.extents is not None
    assert one.detections.extents.tolist() == [[0.1, 0.2, 0.3], [0.0, 0.0, 0.0]]


def test_an_unknown_action_is_counted() -> None:
    assert dict(reader()(TYPES.marker(NOW, 'map', 'a', 1, action=9)).refused) == {'marker_action': 1}


def test_a_lifetime_says_nothing_about_the_thing() -> None:
    lifetime = TYPES.new('builtin_interfaces/Duration', sec=1)
    assert names(reader()(added('a', 1, lifetime=lifetime))) == ['a/1']


@pytest.mark.parametrize(
    'markers', [[gone('a', 1)], [gone('', action=DELETE_ALL)], [gone('a', action=DELETE_ALL)]]
)
def test_a_deletion_adds_nothing_and_needs_no_frame(markers: list[Any]) -> None:
    read = reader()
    read(added('a', 1))
    (one,) = read(*markers).messages
    assert len(one.detections) == 0
    assert one.deletion is not None
    assert one.deletion.covers('a/1')
    assert one.frame_id == ''


def test_without_a_namespace_everything_is_deleted_with_one_only_that() -> None:
    read = reader()
    read(added('a', 1), added('b', 1))
    everything, only_a = (read(gone(ns, action=DELETE_ALL)).messages[0].deletion for ns in ('', 'a'))
    assert [everything.covers(name) for name in ('a/1', 'b/1', '/1')] == [True, True, True]
    assert [only_a.covers(name) for name in ('a/1', 'b/1', 'ab/1', 'a/b/1')] == [True, False, False, False]


def test_a_namespace_may_hold_slashes() -> None:
    (one,) = reader()(gone('a/b', action=DELETE_ALL, at=NOW)).messages
    assert one.deletion is not None
    assert [one.deletion.covers(name) for name in ('a/b/1', 'a/1')] == [True, False]


def test_what_an_array_adds_after_deleting_all_stays() -> None:
    added_again, deletion = reader()(gone('', action=DELETE_ALL), added('a', 1)).messages
    assert list(added_again.detections.instances or ()) == ['a/1']
    assert deletion.deletion is not None
    assert not deletion.deletion.covers('a/1')
    assert deletion.deletion.covers('a/2')
    assert deletion.stamp_ns == NOW


def test_what_an_array_deletes_after_adding_is_gone() -> None:
    for last in (gone('a', 1), gone('a', action=DELETE_ALL), gone('', action=DELETE_ALL)):
        reading = reader()(added('a', 1), last)
        assert names(reading) == []


def test_a_deletion_without_a_stamp_comes_right_after_the_array_before_it() -> None:
    read = reader()
    assert read(gone('a', 1)).messages[0].stamp_ns == 0
    read(added('a', 1))
    first = read(gone('a', 1)).messages[0]
    again = read(gone('a', 1)).messages[0]
    assert first.stamp_ns == again.stamp_ns == NOW + 1
    assert read(gone('a', 1, at=NOW + 7)).messages[0].stamp_ns == NOW + 7
    read(added('a', 1, NOW - 50))
    assert read(gone('a', 1)).messages[0].stamp_ns == NOW - 49


def test_each_stamp_and_frame_is_a_message_that_the_ledger_can_tell_apart() -> None:
    things = added('a', 1), added('a', 2, frame='odom'), added('a', 3, NOW + 1)
    parts = reader()(gone('', action=DELETE_ALL, at=NOW), *things).messages
    assert len({one.order for one in parts}) == len(parts) == 4
    for one, other in itertools.combinations(parts, 2):
        assert (one.stamp_ns, one.digest) != (other.stamp_ns, other.digest)


def test_no_marker_is_no_message() -> None:
    assert reader()().messages == ()
