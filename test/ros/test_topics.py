"""What the node tells of itself: events, status, markers, diagnostics, introspection."""

from types import SimpleNamespace
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros.harness import NODE, Talker, spatial
from service_msgs.msg import ServiceEventInfo
from visualization_msgs.msg import Marker, MarkerArray

from hylo_memory_ros.model import Hit, Pose
from hylo_memory_ros.model import MemoryItem as CoreItem
from hylo_memory_ros.msg import MemoryEvent, MemoryFilter, MemoryStatus
from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.ros.publishers import markers
from hylo_memory_ros.srv import Changes, Forget, Query

pytestmark = pytest.mark.ros
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@pytest.fixture(scope='module')
def parameters() -> dict[str, Any]:
    return {'service_introspection': 'metadata', 'map_id': 'floor'}


def heard(talker: Talker, kind: Any, topic: str, qos: Any = 1000) -> list[Any]:
    """Subscribe, wait for the publisher, and return the list that messages come into."""
    messages: list[Any] = []
    subscription = talker.node.create_subscription(kind, topic, messages.append, qos)
    talker.spin_until(lambda: talker.node.count_publishers(subscription.topic_name), topic)
    talker.spin_for(0.3)
    return messages


def test_events_tell_ids_and_have_no_gap(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    events = heard(talker, MemoryEvent, f'{NODE}/events')
    before = talker.query(k=0).sequence

    written = talker.write(spatial('a'), spatial('b'))
    talker.write(spatial('a', 1.0))
    talker.call(Forget, 'forget', filter=MemoryFilter(keys=['b']), actor='me')
    talker.spin_until(lambda: len(events) >= 3, 'events')

    assert [event.sequence for event in events] == [before + 1, before + 2, before + 3]
    assert list(events[0].ids) == list(written.ids)
    assert list(events[0].outcomes) == ['ADD', 'ADD']
    assert (events[2].op, events[2].actor) == ('forget', 'me')
    assert events[0].header.stamp.sec > 0
    feed = talker.call(Changes, 'changes', after_sequence=before).events
    assert [event.ids for event in feed] == [event.ids for event in events]
    assert {event.epoch for event in feed} == {event.epoch for event in events}


def test_the_status_is_latched_and_follows(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    sequence = talker.write(spatial('s')).sequence
    statuses = heard(talker, MemoryStatus, f'{NODE}/status', LATCHED)

    talker.spin_until(lambda: statuses and statuses[-1].sequence >= sequence, 'status')

    status = statuses[-1]
    assert (status.map_id, status.header.frame_id) == ('floor', 'map')
    assert status.mirror_sequence == status.sequence
    assert status.items >= 1
    count = len(statuses)
    talker.spin_for(0.8)
    assert len(statuses) == count, 'nothing changed, so nothing is published'


def test_markers_show_the_nearest_by_label(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    for n in range(4):
        talker.write(spatial(f'm{n}', 0.001 * n, label='cup' if n % 2 else 'mug'))
    shown = talker.query(k=0, filter=MemoryFilter(kinds=['spatial'])).total
    arrays = heard(talker, MarkerArray, f'{NODE}/markers', LATCHED)

    talker.spin_until(lambda: arrays, 'markers')

    found = arrays[-1].markers
    assert found[0].action == Marker.DELETEALL
    spheres = {m.ns: len(m.points) for m in found[1:] if m.type == Marker.SPHERE_LIST}
    assert sum(spheres.values()) == shown
    assert set(spheres) <= {'landmarks/cup', 'landmarks/mug', 'landmarks/unlabelled'}
    assert sum(m.type == Marker.TEXT_VIEW_FACING for m in found) == shown
    assert all(m.pose.orientation.w == 1.0 for m in found[1:])


def test_only_the_nearest_markers_carry_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers, 'NAMED', 2)
    places = [Pose(frame_id='map', position=(n, 0, 0)) for n in range(4)]
    hits = [Hit(CoreItem(kind='spatial', key=f'm{n}', pose=at), 1.0) for n, at in enumerate(places)]
    shown = markers.marker_array(hits, NodeConfig(), 0).markers
    assert [m.text for m in shown if m.type == Marker.TEXT_VIEW_FACING] == ['m0', 'm1']
    assert sum(len(m.points) for m in shown) == 4


def test_diagnostics_are_ok_and_count(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    arrays = heard(talker, DiagnosticArray, '/diagnostics')
    talker.spin_until(lambda: arrays, 'diagnostics')

    status = arrays[-1].status[0]

    assert status.level == DiagnosticStatus.OK, status
    assert status.name == 'hylo_memory: memory'
    values = {pair.key: pair.value for pair in status.values}
    assert values['mirror'] == 'loaded'
    assert int(values['requests']) > 0
    assert values['active'] == 'True'


def test_calls_can_be_watched(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    calls = heard(talker, Query.Event, f'{NODE}/query/_service_event')

    talker.query(k=0)

    talker.spin_until(lambda: len(calls) >= 2, 'service events')
    kinds = {call.info.event_type for call in calls}
    assert {ServiceEventInfo.REQUEST_RECEIVED, ServiceEventInfo.RESPONSE_SENT} <= kinds
    assert not calls[0].request, 'metadata only'
