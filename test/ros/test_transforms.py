"""Transforms that come over DDS: names of topics, latching, hostile bytes, opening and closing."""

from __future__ import annotations

import importlib.util
import math
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from geometry_msgs.msg import TransformStamped
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from hylo_memory_ros.errors import TransformTooNewError, UnknownFrameError
from hylo_memory_ros.perception.ingestion.decoders import decode_transforms
from hylo_memory_ros.ros import qos
from hylo_memory_ros.ros.perception.transforms import (
    NodeTransforms,
    StandInTransformSource,
    Tf2TransformSource,
    transform_source,
)
from hylo_memory_ros.transforms import LATEST, PendingLookups

pytestmark = pytest.mark.ros

HAS_TF2 = importlib.util.find_spec('tf2_py') is not None
needs_tf2 = pytest.mark.skipif(not HAS_TF2, reason='tf2_py is not installed: the ROS wheels of PyPI lack tf2')


def s(seconds: float) -> int:
    """Return seconds as nanoseconds."""
    return round(seconds * 1e9)


def tf(parent: str, child: str, stamp_ns: int = 0, x: float = 0.0) -> TransformStamped:
    """Return a transform without rotation."""
    message = TransformStamped(child_frame_id=child)
    message.header.frame_id = parent
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
    message.transform.translation.x = x
    return message


class Ros:
    """A robot's side and ours, each a node, spun by one executor when waited for."""

    def __init__(self, domain: int, kind: Any = 'stand_in', *, namespace: str = '', **options: Any) -> None:
        self.context = Context()
        self.context.init(domain_id=domain)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.robot = Node('robot', context=self.context, namespace=namespace)
        self.node = Node('ours', context=self.context, namespace=namespace, **options)
        self.executor.add_node(self.robot)
        self.executor.add_node(self.node)
        self.kind = kind
        self.source: NodeTransforms = transform_source(self.node, kind=kind)

    def publisher(self, topic: str, *, static: bool = False, kind: Any = TFMessage) -> Publisher:
        made = self.robot.create_publisher(kind, topic, qos.TF_STATIC if static else qos.TF)
        if not static:
            self.until(made.get_subscription_count)
        return made

    def until(self, condition: Callable[[], Any], timeout_s: float = 90.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, 'what was waited for did not come'
            self.executor.spin_once(timeout_sec=0.05)

    def knows(self, *frames: str) -> Callable[[], bool]:
        return lambda: set(frames) <= set(self.source.frames())

    def close(self) -> None:
        self.source.close()
        self.executor.shutdown()
        self.robot.destroy_node()
        self.node.destroy_node()
        self.context.shutdown()


@pytest.fixture(params=['stand_in', *(['tf2'] if HAS_TF2 else [])])
def ros(request: pytest.FixtureRequest, ros_domain: int) -> Iterator[Ros]:
    made = Ros(ros_domain, request.param)
    yield made
    made.close()


def test_both_topics_are_heard_and_static_ones_also_late(ros: Ros) -> None:
    ros.source.close()
    static = ros.publisher('tf_static', static=True)
    static.publish(TFMessage(transforms=[tf('base_link', 'camera', x=0.2), tf('base_link', 'lidar')]))
    ros.source = transform_source(ros.node, kind=ros.kind)
    ros.until(ros.knows('camera', 'lidar'))
    moving = ros.publisher('tf')
    moving.publish(TFMessage(transforms=[tf('map', 'base_link', s(1.0), 1.0)]))
    moving.publish(TFMessage(transforms=[tf('map', 'base_link', s(2.0), 2.0)]))
    ros.until(lambda: ros.knows('map')() and ros.source.lookup('map', 'base_link', LATEST).stamp_ns == s(2.0))
    assert ros.source.lookup('map', 'camera', s(1.5)).translation == pytest.approx((1.7, 0.0, 0.0))


@needs_tf2
def test_tf2_is_taken_where_it_is_installed(ros_domain: int) -> None:
    ros = Ros(ros_domain, 'auto')
    assert isinstance(ros.source, Tf2TransformSource)
    # What tf2_ros.Buffer would leave behind when a lifecycle node is cleaned up.
    assert not [name for name, _ in ros.node.get_service_names_and_types() if 'tf2_frames' in name]
    ros.close()


@pytest.mark.skipif(HAS_TF2, reason='tf2 is installed here')
def test_without_tf2_the_stand_in_serves(ros_domain: int) -> None:
    ros = Ros(ros_domain, 'auto')
    assert type(ros.source) is StandInTransformSource
    with pytest.raises(ImportError):
        transform_source(ros.node, kind='tf2')
    ros.close()


def test_a_static_transform_that_is_not_latched_is_heard(ros: Ros) -> None:
    """A bag may offer tf_static as volatile."""
    volatile = ros.robot.create_publisher(TFMessage, 'tf_static', qos.TF_STATIC_VOLATILE)
    ros.until(volatile.get_subscription_count)
    volatile.publish(TFMessage(transforms=[tf('base_link', 'camera', x=0.2)]))
    ros.until(ros.knows('camera'))
    assert ros.source.lookup('base_link', 'camera', s(5.0)).translation == (0.2, 0.0, 0.0)
    assert ros.source.incompatible == ''


def test_a_publisher_of_tf_that_is_not_heard_is_named(ros: Ros) -> None:
    profile = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    ros.robot.create_publisher(TFMessage, 'tf', profile)
    ros.until(lambda: ros.source.incompatible)
    assert 'RELIABILITY' in ros.source.incompatible


class TestNames:
    def test_the_topics_lie_in_the_namespace(self, ros_domain: int) -> None:
        ros = Ros(ros_domain, namespace='/robot1')
        assert _topics(ros.node) == {'/robot1/tf', '/robot1/tf_static'}
        with pytest.raises(
            UnknownFrameError, match=r'among 0 frames received on /robot1/tf and /robot1/tf_static'
        ):
            ros.source.lookup('map', 'base_link', s(1.0))
        ros.publisher('/robot1/tf').publish(TFMessage(transforms=[tf('map', 'base_link', s(1.0))]))
        ros.until(ros.knows('map'))
        ros.close()

    def test_a_launch_file_may_remap_them(self, ros_domain: int) -> None:
        remap = ['--ros-args', '-r', 'tf:=/tf', '-r', 'tf_static:=/tf_static']
        ros = Ros(ros_domain, namespace='/robot1', cli_args=remap)
        assert _topics(ros.node) == {'/tf', '/tf_static'}
        ros.close()


class TestHostileMessages:
    def test_bytes_that_are_no_message_are_counted_and_the_next_one_is_taken(self, ros: Ros) -> None:
        good = serialize_message(TFMessage(transforms=[tf('map', 'base_link', s(1.0))]))
        publisher = ros.publisher('tf')
        publisher.publish(good[:40])
        publisher.publish(b'\x00\x01\x00\x00\xff\xff\xff\xff')
        publisher.publish(good.replace(b'base_link', b'base\xff\xfeink'))
        publisher.publish(good)
        ros.until(ros.knows('map'))
        assert dict(ros.source.refused) == {'malformed': 3}
        assert ros.source.frames() == ('base_link', 'map')

    def test_another_type_under_the_name_is_not_heard(self, ros: Ros) -> None:
        with Context() as elsewhere:  # within a participant, a topic has one type
            stranger = Node('stranger', context=elsewhere)
            stranger.create_publisher(String, 'tf', qos.TF).publish(String(data='x' * 500))
            ros.publisher('tf').publish(TFMessage(transforms=[tf('map', 'base_link', s(1.0))]))
            ros.until(ros.knows('map'))
            stranger.destroy_node()
        assert dict(ros.source.refused) == {}

    def test_one_bad_transform_does_not_spoil_its_message(self, ros: Ros) -> None:
        bad = [tf('map', 'b', s(1.0), math.nan), tf('', 'c', s(1.0)), tf('map', 'map', s(1.0))]
        bad[0].transform.rotation.w = 1.0
        ros.publisher('tf').publish(TFMessage(transforms=[*bad, tf('map', 'base_link', s(1.0))]))
        ros.until(ros.knows('base_link'))
        assert dict(ros.source.refused) == {'translation': 1, 'frame_id': 1, 'self_transform': 1}


class TestWaiting:
    def test_a_question_is_answered_when_the_transform_arrives(self, ros: Ros) -> None:
        queue = PendingLookups(ros.source, timeout_s=10.0)
        ros.source.on_change(queue.poll)
        publisher = ros.publisher('tf')
        publisher.publish(TFMessage(transforms=[tf('map', 'base_link', s(110.0), 1.0)]))
        ros.until(ros.knows('map'))
        future = queue.submit('map', 'base_link', s(110.035))
        assert not future.done()
        publisher.publish(TFMessage(transforms=[tf('map', 'base_link', s(110.1), 2.0)]))
        ros.until(future.done)
        assert future.result().translation == pytest.approx((1.35, 0.0, 0.0))

    def test_or_refused_by_name_when_its_time_is_over(self, ros: Ros) -> None:
        queue = PendingLookups(ros.source, timeout_s=0.2)
        publisher = ros.publisher('tf')
        publisher.publish(TFMessage(transforms=[tf('map', 'base_link', s(110.0), 1.0)]))
        ros.until(ros.knows('map'))
        late, unknown = queue.submit('map', 'base_link', s(110.035)), queue.submit('map', 'arm', s(110.0))
        asked = time.monotonic()
        ros.until(lambda: queue.expire() and not len(queue))
        assert time.monotonic() - asked > 0.1
        assert isinstance(late.exception(), TransformTooNewError)
        assert isinstance(unknown.exception(), UnknownFrameError)


def test_a_clock_that_jumps_back_does_no_harm(ros_domain: int) -> None:
    """ros2/geometry2#710: tf2's own buffer raised in the executor on any change of the clock."""
    sim_time = [Parameter('use_sim_time', value=True)]
    ros = Ros(ros_domain, 'auto', parameter_overrides=sim_time)
    clock, publisher = ros.publisher('/clock', kind=Clock), ros.publisher('tf')
    answers = []
    for _ in range(2):
        for second in (50.0, 100.0):
            message = Clock()
            message.clock.sec = int(second)
            clock.publish(message)
            ros.until(partial(_is_now, ros.node, s(second)))
            publisher.publish(TFMessage(transforms=[tf('map', 'base_link', s(second), second)]))
            ros.until(partial(_is_newest, ros.source, s(second)))
        answers.append(ros.source.lookup('map', 'base_link', s(100.0)))
        ros.source.clear()
    assert answers[0] == answers[1]
    assert dict(ros.source.refused) == {}
    ros.close()


def test_opening_and_closing_leaves_nothing_behind(ros: Ros) -> None:
    ros.source.close()
    before = len(list(ros.node.subscriptions))
    publisher = ros.robot.create_publisher(TFMessage, 'tf', qos.TF)
    for index in range(50):
        ros.source = transform_source(ros.node, kind=ros.kind)
        publisher.publish(TFMessage(transforms=[tf('map', 'base_link', s(1.0 + index))]))
        ros.executor.spin_once(timeout_sec=0.01)
        ros.source.close()
        ros.source.close()
        ros.executor.spin_once(timeout_sec=0.0)
    assert len(list(ros.node.subscriptions)) == before


class TestReading:
    MESSAGE = TFMessage(
        transforms=[tf('map', 'a', s(1.5), 1.0), tf('a', 'bcdef', 1_553_575_413_247_045_598, 2.0)]
    )

    def test_reads_what_rclpy_wrote(self) -> None:
        first, second = decode_transforms(serialize_message(self.MESSAGE))
        assert (first.parent, first.child, first.stamp_ns) == ('map', 'a', s(1.5))
        assert (second.parent, second.child, second.stamp_ns) == ('a', 'bcdef', 1_553_575_413_247_045_598)
        assert (tuple(second.translation), tuple(second.rotation)) == ((2.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
        assert decode_transforms(serialize_message(TFMessage())) == []

    @pytest.mark.parametrize('length', range(20))
    def test_every_alignment(self, length: int) -> None:
        message = TFMessage(transforms=[tf('p' * length, 'c' * (19 - length), s(2.0), 3.0)] * 2)
        for found in decode_transforms(serialize_message(message)):
            assert (found.parent, found.child) == ('p' * length, 'c' * (19 - length))
            assert tuple(found.translation) == (3.0, 0.0, 0.0)

    def test_big_endian(self) -> None:
        data = struct.pack('>IiII4sI4x', 1, 7, 5, 4, b'map\0', 1)[:-3]
        data += bytes(-len(data) % 8) + struct.pack('>7d', 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0)
        (found,) = decode_transforms(b'\x00\x00\x00\x00' + data)
        assert (found.parent, found.child, found.stamp_ns) == ('map', '', 7 * 10**9 + 5)
        assert tuple(found.translation) == (1.0, 2.0, 3.0)

    def test_nanoseconds_beyond_a_second_are_refused(self) -> None:
        data = bytearray(serialize_message(TFMessage(transforms=[tf('map', 'base_link', s(1.0))])))
        struct.pack_into('<I', data, 12, 10**9)
        (found,) = decode_transforms(bytes(data))
        assert found.stamp_ns == -1

    def test_any_cut_and_any_flipped_byte_is_refused_or_read_but_never_more(self) -> None:
        whole = serialize_message(self.MESSAGE)
        for end in range(len(whole)):
            with pytest.raises(ValueError, match=r'.'):
                decode_transforms(whole[:end])
        for place in range(len(whole)):
            changed = bytearray(whole)
            changed[place] ^= 0xFF
            try:
                assert len(decode_transforms(bytes(changed))) <= 2
            except ValueError:
                continue


def _is_now(node: Node, stamp_ns: int) -> bool:
    return bool(node.get_clock().now().nanoseconds == stamp_ns)


def _is_newest(source: NodeTransforms, stamp_ns: int) -> bool:
    return bool(source.frames()) and source.lookup('map', 'base_link', LATEST).stamp_ns == stamp_ns


def _topics(node: Node) -> set[str]:
    return {subscription.topic_name for subscription in node.subscriptions if 'tf' in subscription.topic_name}
