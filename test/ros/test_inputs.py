"""Perception over DDS: received as bytes, bounded, counted, committed in groups."""

import importlib
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped, TransformStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from ros.harness import NODE, NodeProcess, Talker, near, spatial
from ros.test_topics import LATCHED, heard
from tf2_msgs.msg import TFMessage
from vision_msgs.msg import Detection3D, Detection3DArray, ObjectHypothesisWithPose

from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.msg import MemoryFilter, MemoryStatus
from hylo_memory_ros.perception import InputSettings
from hylo_memory_ros.ros.perception.inputs import message_type
from hylo_memory_ros.srv import Flush, SetMap, Snapshot, Write

pytestmark = pytest.mark.ros
BOXES = 'vision_msgs/msg/Detection3DArray'
NOW = 1_700_000_000


@pytest.fixture(scope='module')
def parameters() -> dict[str, Any]:
    return {
        'inputs': ['front', 'dock'],
        'input.front.topic': 'boxes',
        'input.front.type': BOXES,
        'input.front.reliability': 'reliable',
        'input.dock.topic': 'dock',
        'input.dock.type': 'geometry_msgs/msg/PoseStamped',
        'input.dock.label': 'dock',
        'input.dock.reliability': 'reliable',
        'landmarks.confirm_n': 2,
    }


def source(**fields: Any) -> InputSettings:
    return InputSettings(**{'name': 'front', 'topic': 'boxes', 'type': BOXES, **fields})


def test_the_type_of_an_input_is_found_when_it_is_needed() -> None:
    assert message_type(source()) is Detection3DArray
    with pytest.raises(ConfigurationError, match=r"input\.front\.type: 'nav_msgs/msg/Path' is none of"):
        message_type(source(type='nav_msgs/msg/Path'))


def test_an_input_whose_package_is_missing_fails_or_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f'No module named {name!r}')

    monkeypatch.setattr(importlib, 'import_module', missing)

    with pytest.raises(ConfigurationError, match=r'install vision_msgs, or set input\.front\.optional'):
        message_type(source())
    assert message_type(source(optional=True)) is None


def array(sec: float, *things: tuple[str, float, float], frame: str = 'map') -> Detection3DArray:
    msg = Detection3DArray()
    msg.header.frame_id = frame
    msg.header.stamp.sec, msg.header.stamp.nanosec = divmod(round(sec * 10**9), 10**9)
    for label, x, y in things:
        result = ObjectHypothesisWithPose()
        result.hypothesis.class_id, result.hypothesis.score = label, 0.9
        result.pose.pose.position.x, result.pose.pose.position.y = x, y
        msg.detections.append(Detection3D(header=msg.header, results=[result]))
    return msg


def pose(sec: float, x: float) -> PoseStamped:
    msg = PoseStamped()
    msg.header.frame_id, msg.header.stamp.sec, msg.pose.position.x = 'map', int(sec), x
    return msg


@pytest.fixture(scope='module')
def senders(shared: SimpleNamespace) -> SimpleNamespace:
    node = shared.talker.node
    boxes = node.create_publisher(Detection3DArray, '/boxes', QoSProfile(depth=200))
    dock = node.create_publisher(PoseStamped, '/dock', QoSProfile(depth=200))
    tf = node.create_publisher(TFMessage, '/tf', QoSProfile(depth=10))
    shared.talker.spin_until(
        lambda: (
            boxes.get_subscription_count() and dock.get_subscription_count() and tf.get_subscription_count()
        )
    )
    return SimpleNamespace(
        boxes=boxes, dock=dock, tf=tf, statuses=heard(shared.talker, MemoryStatus, f'{NODE}/status', LATCHED)
    )


def counted(shared: SimpleNamespace, senders: SimpleNamespace, name: str, least: int) -> None:
    shared.talker.spin_until(
        lambda: senders.statuses and sum(getattr(senders.statuses[-1], name)) >= least,
        f'{least} {name}',
    )


def test_what_is_seen_often_enough_is_remembered(shared: SimpleNamespace, senders: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    for n in range(4):
        senders.boxes.publish(array(NOW + n, ('cup', 1.0, 2.0), ('plate', 5.0, 2.0)))
        senders.dock.publish(pose(NOW + n, -3.0))
    talker.spin_until(lambda: senders.statuses and min(senders.statuses[-1].watermark_ns) > 0, 'watermark')

    flushed = talker.call(Flush, 'flush')

    assert (flushed.success, flushed.pending) == (True, 0)
    talker.spin_until(lambda: talker.query(filter=MemoryFilter(labels=['cup'])).total == 1, 'cup')
    hit = talker.query(filter=near('map', 0.1, 1.0, 2.0)).hits[0]
    assert (hit.item.label, hit.item.kind) == ('cup', 'spatial')
    assert talker.query(filter=MemoryFilter(labels=['dock'])).hits[0].item.pose.position.x == -3.0
    assert talker.call(Snapshot, 'snapshot').complete


def test_bytes_that_are_no_message_are_refused_and_counted(
    shared: SimpleNamespace, senders: SimpleNamespace
) -> None:
    talker: Talker = shared.talker
    good = serialize_message(array(NOW + 10, ('cup', 1.0, 2.0)))
    bad = [b'', b'garbage!' * 10, good[: len(good) // 2], good.replace(b'cup\0', b'c\x80\x81\0')]
    before = sum(senders.statuses[-1].refused)

    for data in bad[1:]:
        senders.boxes.publish(data)

    counted(shared, senders, 'refused', before + 3)
    assert talker.query(k=0).success
    assert shared.process.alive


def test_garbage_on_tf_and_clock_harms_nobody(shared: SimpleNamespace, senders: SimpleNamespace) -> None:
    for _ in range(5):
        senders.tf.publish(b'\0\1\0\0garbage')
    shared.talker.spin_for(0.3)

    assert shared.talker.query(k=0).success


def test_a_zero_stamp_is_no_observation(shared: SimpleNamespace, senders: SimpleNamespace) -> None:
    before = sum(senders.statuses[-1].refused) + sum(senders.statuses[-1].dropped)
    senders.boxes.publish(array(0, ('ghost', 9.0, 9.0)))
    shared.talker.spin_until(
        lambda: sum(senders.statuses[-1].refused) + sum(senders.statuses[-1].dropped) > before, 'count'
    )

    assert shared.talker.query(filter=MemoryFilter(labels=['ghost'])).total == 0


def test_a_switch_of_the_map_begins_anew(shared: SimpleNamespace, senders: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    assert talker.call(SetMap, 'set_map', map_id='upstairs', create=True).success
    for n in range(4):
        senders.boxes.publish(array(NOW + 100 + n, ('lamp', 1.0, 2.0)))
        senders.dock.publish(pose(NOW + 100 + n, -3.0))
    talker.spin_until(lambda: min(senders.statuses[-1].watermark_ns) > (NOW + 100) * 10**9, 'watermark')
    assert talker.call(Flush, 'flush').pending == 0

    lamp = talker.query(filter=MemoryFilter(labels=['lamp'])).hits[0].item

    assert lamp.map_id == 'upstairs'


def test_overload_drops_the_oldest_before_decoding_and_counts(ros_domain: int, tmp_path: Path) -> None:
    parameters = {
        'inputs': ['front'], 'input.front.topic': 'boxes', 'input.front.type': BOXES, 'autostart': True,
        'input.front.reliability': 'reliable', 'input.front.depth': 2,
    }  # fmt: skip
    with NodeProcess(tmp_path, ros_domain, parameters) as process, Talker(ros_domain) as talker:
        talker.wait_active()
        boxes = talker.node.create_publisher(Detection3DArray, '/boxes', QoSProfile(depth=500))
        talker.spin_until(boxes.get_subscription_count)
        statuses = heard(talker, MemoryStatus, f'{NODE}/status', LATCHED)
        message = serialize_message(array(NOW, *(('cup', float(n), 0.0) for n in range(200))))
        stamps = itertools.count(NOW)
        # The one thread that writes is busy, so that nothing is decoded meanwhile.
        writing = talker.client(Write, f'{NODE}/write').call_async(
            Write.Request(items=[spatial(f'busy{n}') for n in range(3000)])
        )

        def overloaded() -> bool:
            boxes.publish(message[:4] + next(stamps).to_bytes(4, 'little') + message[8:])
            return bool(statuses) and sum(statuses[-1].dropped) > 0

        talker.spin_until(overloaded, 'drops')
        talker.spin_until(writing.done, 'write')

        assert not talker.call(Snapshot, 'snapshot').complete
        assert talker.write(spatial('a')).success
        assert process.ended() == 0


def test_detections_that_wait_longer_than_the_transform_buffer_are_placed(
    ros_domain: int, tmp_path: Path
) -> None:
    """Transforms are received by one thread, and detections processed by another, which is busy."""
    seconds = 90
    parameters = {
        'inputs': ['front'], 'input.front.topic': 'boxes', 'input.front.type': BOXES, 'autostart': True,
        'input.front.reliability': 'reliable', 'input.front.depth': 200, 'tf_buffer_s': 30.0,
        'tf_max_age_s': 0.0,
    }  # fmt: skip
    with NodeProcess(tmp_path, ros_domain, parameters) as process, Talker(ros_domain) as talker:
        talker.wait_active()
        boxes = talker.node.create_publisher(Detection3DArray, '/boxes', QoSProfile(depth=200))
        transforms = talker.node.create_publisher(TFMessage, '/tf', QoSProfile(depth=200))
        talker.spin_until(lambda: boxes.get_subscription_count() and transforms.get_subscription_count())
        statuses = heard(talker, MemoryStatus, f'{NODE}/status', LATCHED)

        def position() -> float:
            answer = talker.query(filter=near('base_link', 1.0), k=0)
            return answer.center_used.point.x if answer.success else -1.0

        writing = talker.client(Write, f'{NODE}/write').call_async(
            Write.Request(items=[spatial(f'busy{n}') for n in range(3000)])
        )
        for n in range(seconds):
            transforms.publish(moved(NOW + n, float(n)))
            boxes.publish(array(NOW + n, ('cup', 20.0 - n, 2.0), frame='base_link'))
            if n % 30 == 29:
                talker.spin_until(lambda: position() == n, f'the transform of {n} s')  # noqa: B023
        assert not writing.done()
        talker.spin_until(writing.done, 'write')
        talker.spin_until(lambda: talker.call(Flush, 'flush').pending == 0, 'flush')

        talker.spin_until(
            lambda: statuses[-1].watermark_ns[0] >= (NOW + seconds - 1) * 10**9, 'all detections'
        )
        assert (sum(statuses[-1].dropped), sum(statuses[-1].late)) == (0, 0)
        hit = talker.query(filter=MemoryFilter(labels=['cup'])).hits[0]
        assert (hit.item.pose.position.x, hit.item.pose.position.y) == (20.0, 2.0)
        assert process.ended() == 0


def moved(sec: int, x: float) -> TFMessage:
    transform = TransformStamped(child_frame_id='base_link')
    transform.header.frame_id, transform.header.stamp.sec = 'map', sec
    transform.transform.translation.x = x
    return TFMessage(transforms=[transform])


def test_an_unknown_camera_frame_is_named_with_the_frame_it_should_lead_to(
    ros_domain: int, tmp_path: Path
) -> None:
    parameters = {
        'inputs': ['things'], 'input.things.topic': 'boxes', 'input.things.type': BOXES, 'autostart': True,
        'input.things.reliability': 'reliable', 'landmarks.pending_max_age_s': 1.0,
    }  # fmt: skip
    with NodeProcess(tmp_path, ros_domain, parameters) as process, Talker(ros_domain) as talker:
        talker.wait_active()
        boxes = talker.node.create_publisher(Detection3DArray, '/boxes', QoSProfile(depth=200))
        talker.spin_until(boxes.get_subscription_count)
        told: list[DiagnosticArray] = []
        talker.node.create_subscription(DiagnosticArray, '/diagnostics', told.append, 10)
        for n in range(5):
            boxes.publish(array(NOW + n, ('cup', 1.0, 2.0), frame='camera_optical'))

        status = talker.spin_until(
            lambda: next(
                (one for every in told for one in every.status if 'camera_optical' in one.message), None
            )
        )

        assert status.level == DiagnosticStatus.WARN
        assert "; no transform from 'camera_optical' to 'map' at " in status.message
        assert {value.key: value.value for value in status.values}['input things'].startswith(
            'dropped frame_unknown '
        )
        process.wait_for_log(
            "input things: 1 dropped so far (frame_unknown): no transform from 'camera_optical' to 'map' at "
        )

        # A simulator that was restarted beside the node.
        boxes.publish(array(NOW - 1000, ('cup', 1.0, 2.0)))
        status = talker.spin_until(
            lambda: next(
                (one for every in told for one in every.status if 'new database' in one.message), None
            )
        )
        assert status.level == DiagnosticStatus.ERROR
        assert 'input things: its messages are of ' in status.message


def test_a_publisher_that_does_not_match_is_told_of(ros_domain: int, tmp_path: Path) -> None:
    parameters = {
        'inputs': ['front'], 'input.front.topic': 'boxes', 'input.front.type': BOXES, 'autostart': True,
        'input.front.reliability': 'reliable',
    }  # fmt: skip
    with NodeProcess(tmp_path, ros_domain, parameters) as process, Talker(ros_domain) as talker:
        talker.wait_active()
        qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        talker.node.create_publisher(Detection3DArray, '/boxes', qos)
        diagnostics = heard(talker, DiagnosticArray, '/diagnostics')

        talker.spin_until(
            lambda: diagnostics and 'input front' in diagnostics[-1].status[0].message, 'diagnostic'
        )

        process.wait_for_log('input.front.reliability')
