"""The topic on which localization says how sure it is, before perception is taken from a node."""

from types import SimpleNamespace
from typing import Any

import pytest
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros.harness import NODE
from ros.test_topics import LATCHED, heard

from hylo_memory_ros.msg import MemoryStatus
from hylo_memory_ros.srv import Flush

pytestmark = pytest.mark.ros

GOOD_ENOUGH = 'localization is good enough'


@pytest.fixture(scope='module')
def parameters() -> dict[str, Any]:
    return {
        'localization_topic': 'amcl_pose',
        'landmarks.localized_within_m': 0.5,
        'inputs': ['dock'],
        'input.dock.topic': 'dock',
        'input.dock.type': 'geometry_msgs/msg/PoseStamped',
        'input.dock.label': 'dock',
        'input.dock.reliability': 'reliable',
    }


def report(sec: int, variance: float, frame_id: str = 'map') -> PoseWithCovarianceStamped:
    message = PoseWithCovarianceStamped()
    message.header.frame_id, message.header.stamp.sec = frame_id, sec
    message.pose.covariance[0] = message.pose.covariance[7] = variance
    message.pose.covariance[35] = 0.01
    return message


def dock(sec: int) -> PoseStamped:
    message = PoseStamped()
    message.header.frame_id, message.header.stamp.sec, message.pose.position.x = 'map', sec, 1.0
    return message


@pytest.mark.parametrize('durability', [DurabilityPolicy.TRANSIENT_LOCAL, DurabilityPolicy.VOLATILE])
def test_what_comes_before_localization_is_good_enough_is_dropped(
    shared: SimpleNamespace, durability: DurabilityPolicy
) -> None:
    talker, node = shared.talker, shared.talker.node
    start = 1000 if durability is DurabilityPolicy.TRANSIENT_LOCAL else 2000
    reports = node.create_publisher(
        PoseWithCovarianceStamped, '/amcl_pose', QoSProfile(depth=10, durability=durability)
    )
    docks = node.create_publisher(PoseStamped, '/dock', QoSProfile(depth=50))
    statuses = heard(talker, MemoryStatus, f'{NODE}/status', LATCHED)
    talker.spin_until(
        lambda: reports.get_subscription_count() and docks.get_subscription_count() and statuses
    )
    before, told = statuses[-1].dropped[0], shared.process.log.count(GOOD_ENOUGH)
    reports.publish(report(start, 25.0))
    reports.publish(report(start + 5, 0.01, frame_id='odom'))
    reports.publish(report(start + 10, 0.01))
    talker.spin_until(lambda: shared.process.log.count(GOOD_ENOUGH) > told)
    for sec in range(start + 1, start + 21):
        docks.publish(dock(sec))
    talker.spin_until(lambda: statuses[-1].watermark_ns[0] >= (start + 19) * 10**9)
    assert talker.call(Flush, 'flush').success
    talker.spin_until(lambda: statuses[-1].dropped[0] > before)
    assert statuses[-1].dropped[0] - before == 9
    assert 'not_localized' in shared.process.log
    reports.publish(report(start + 30, 25.0))
    node.destroy_publisher(reports)
    node.destroy_publisher(docks)
