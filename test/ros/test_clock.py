"""Time comes from the node's clock: none before /clock, and back it may go without harm."""

import time
from pathlib import Path
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros.harness import NodeProcess, Talker, near, spatial
from ros.test_frames import transform
from rosgraph_msgs.msg import Clock
from tf2_msgs.msg import TFMessage

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.msg import ErrorCode, MemoryFilter
from hylo_memory_ros.ros.services import SERVICES
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.srv import Forget

pytestmark = pytest.mark.ros


def tick(publisher: Any, sec: float) -> None:
    msg = Clock()
    msg.clock.sec, msg.clock.nanosec = divmod(round(sec * 10**9), 10**9)
    publisher.publish(msg)


def file_of_now(path: Path) -> None:
    """Make the file of a node that ran by the time of day."""
    with MemoryService.open(f'sqlite:///{path}', clock=time.time_ns) as memory:
        memory.write([MemoryItem(kind='semantic', key='mug', content='red')])


def test_sim_time_from_nothing_to_a_looped_bag(ros_domain: int, tmp_path: Path) -> None:
    parameters = {'use_sim_time': True, 'tf_timeout_s': 0.3}
    with NodeProcess(tmp_path, ros_domain, parameters) as process, Talker(ros_domain) as talker:
        talker.activate()
        clock = talker.node.create_publisher(Clock, '/clock', QoSProfile(depth=10))
        tf = talker.node.create_publisher(TFMessage, '/tf', QoSProfile(depth=10))
        talker.spin_until(lambda: clock.get_subscription_count() and tf.get_subscription_count())

        early = talker.write(spatial('early'))
        assert (early.success, early.error_code) == (False, ErrorCode.CLOCK)
        assert 'clock is not started' in early.message
        assert talker.query(k=0).sequence == 0

        tick(clock, 100.0)
        talker.spin_until(lambda: talker.write(spatial('mug', 1.0)).success, 'clock')
        item = talker.query(filter=MemoryFilter(keys=['mug'])).hits[0].item
        assert (item.valid_from.sec, item.header.stamp.sec) == (100, 0)

        for sec in (100, 101):
            tf.publish(TFMessage(transforms=[transform('map', 'base_link', float(sec), x=float(sec))]))
        tick(clock, 101.0)
        talker.spin_until(lambda: talker.query(filter=near('base_link', 1.0)).center_used.point.x == 101.0)

        # The bag starts again.
        tick(clock, 50.0)
        process.wait_for_log('the clock jumped back by 51.000 s')
        assert talker.query(filter=MemoryFilter(keys=['mug'])).total == 1
        assert talker.query(filter=near('base_link', 1.0)).error_code == ErrorCode.FRAME_UNKNOWN
        for sec in (50, 51):
            tf.publish(TFMessage(transforms=[transform('map', 'base_link', float(sec), x=7.0)]))
        tick(clock, 51.0)
        talker.spin_until(lambda: talker.query(filter=near('base_link', 1.0)).center_used.point.x == 7.0)
        assert list(talker.write(spatial('mug', 1.0)).outcomes) == ['SKIP_DUP']
        for name, kind in SERVICES.items():
            assert talker.call(kind, name, kind.Request()).error_code != ErrorCode.INTERNAL, name
        assert process.ended() == 0
        assert 'Traceback' not in process.log


def test_a_small_step_back_changes_nothing(ros_domain: int, tmp_path: Path) -> None:
    """Two sources of /clock, or one that corrects itself: back by 85 microseconds, or by almost a second."""
    parameters = {'use_sim_time': True, 'tf_timeout_s': 0.3}
    with NodeProcess(tmp_path, ros_domain, parameters) as process, Talker(ros_domain) as talker:
        talker.activate()
        clock = talker.node.create_publisher(Clock, '/clock', QoSProfile(depth=10))
        tf = talker.node.create_publisher(TFMessage, '/tf', QoSProfile(depth=10))
        talker.spin_until(lambda: clock.get_subscription_count() and tf.get_subscription_count())

        told: list[DiagnosticArray] = []
        talker.node.create_subscription(DiagnosticArray, '/diagnostics', told.append, 10)

        def comes_to(sec: float) -> None:
            tick(clock, sec)
            talker.spin_until(
                lambda: told and told[-1].header.stamp.nanosec == round(sec % 1 * 10**9), f'{sec} s'
            )

        tick(clock, 100.0)
        talker.spin_until(lambda: talker.write(spatial('mug')).success, 'clock')
        tf.publish(TFMessage(transforms=[transform('map', 'base_link', 100.0, x=3.0)]))
        talker.spin_until(lambda: talker.query(filter=near('base_link', 1.0)).center_used.point.x == 3.0)
        comes_to(100.5)
        for sec in (100.499915, 99.500001):
            comes_to(sec)
            assert talker.query(filter=near('base_link', 1.0)).center_used.point.x == 3.0
        assert 'jumped back' not in process.log

        # Small steps add up: this one is 1 s behind the furthest time, and a new run.
        tick(clock, 99.5)
        process.wait_for_log('the clock jumped back by 1.000 s')
        assert talker.query(filter=near('base_link', 1.0)).error_code == ErrorCode.FRAME_UNKNOWN
        assert process.ended() == 0


def test_where_the_robot_was_is_not_taken_for_where_it_is(ros_domain: int, tmp_path: Path) -> None:
    parameters = {'use_sim_time': True, 'tf_timeout_s': 0.3, 'tf_max_age_s': 5.0}
    with NodeProcess(tmp_path, ros_domain, parameters) as process, Talker(ros_domain) as talker:
        talker.activate()
        clock = talker.node.create_publisher(Clock, '/clock', QoSProfile(depth=10))
        tf = talker.node.create_publisher(TFMessage, '/tf', QoSProfile(depth=10))
        latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        static = talker.node.create_publisher(TFMessage, '/tf_static', latched)
        talker.spin_until(lambda: clock.get_subscription_count() and tf.get_subscription_count())
        static.publish(TFMessage(transforms=[transform('map', 'dock', 0.0, x=1.0)]))
        tf.publish(TFMessage(transforms=[transform('map', 'base_link', 100.0, x=3.0)]))
        tick(clock, 105.0)
        talker.spin_until(lambda: talker.query(filter=near('base_link', 1.0)).center_used.point.x == 3.0)
        talker.spin_until(lambda: talker.write(spatial('mug', 3.0)).success, 'clock')

        tick(clock, 108.2)
        late = talker.spin_until(
            lambda: next((a for a in [talker.query(filter=near('base_link', 1.0))] if not a.success), None)
        )

        assert late.error_code == ErrorCode.TRANSFORM_TOO_NEW
        assert (
            "the newest transform from 'base_link' to 'map' is of 100.000 s, 8.200 s before" in late.message
        )
        assert 'tf_max_age_s 5' in late.message
        here = near('base_link', 1.0)
        assert talker.call(Forget, 'forget', filter=here).error_code == ErrorCode.TRANSFORM_TOO_NEW
        # A place that is meant by its stamp, and one that does not move, are as sure as ever.
        here.near.header.stamp.sec = 100
        assert talker.query(filter=here).total == 1
        assert talker.query(filter=near('dock', 0.1)).success
        assert process.ended() == 0


def test_a_file_opens_before_the_clock_has_started(ros_domain: int, tmp_path: Path) -> None:
    file_of_now(tmp_path / 'memory.db')
    parameters = {'autostart': True, 'use_sim_time': True}
    with NodeProcess(tmp_path, ros_domain, parameters), Talker(ros_domain) as talker:
        talker.wait_active()
        assert talker.query(filter=MemoryFilter(keys=['mug'])).total == 1


def test_a_clock_that_starts_far_behind_the_file_is_told_of(ros_domain: int, tmp_path: Path) -> None:
    file_of_now(tmp_path / 'memory.db')
    parameters = {'autostart': True, 'use_sim_time': True}
    with NodeProcess(tmp_path, ros_domain, parameters) as process, Talker(ros_domain) as talker:
        talker.wait_active()
        told: list[DiagnosticArray] = []
        talker.node.create_subscription(DiagnosticArray, '/diagnostics', told.append, 10)
        clock = talker.node.create_publisher(Clock, '/clock', QoSProfile(depth=10))
        talker.spin_until(lambda: told and clock.get_subscription_count())
        said = 'more than max_clock_step_back_s 3600'
        assert said not in process.log

        tick(clock, 100.0)

        status = talker.spin_until(
            lambda: next((one for array in told for one in array.status if said in one.message), None)
        )
        assert status.level == DiagnosticStatus.WARN
        talker.spin_for(0.5)
        assert process.log.count(said) == 1


def test_a_stamp_before_the_first_valid_one_is_refused(ros_domain: int, tmp_path: Path) -> None:
    parameters = {'autostart': True, 'min_valid_stamp_s': 1577836800}
    with NodeProcess(tmp_path, ros_domain, parameters), Talker(ros_domain) as talker:
        talker.wait_active()
        item = spatial('old')
        item.header.stamp.sec = 1000

        refused = talker.write(item)

        assert refused.error_code == ErrorCode.CLOCK
        assert 'min_valid_stamp' in refused.message or '1577836800' in refused.message
