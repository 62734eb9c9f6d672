"""Poses and centres through tf: placed at their stamp, refused by name, never blocking."""

import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from geometry_msgs.msg import TransformStamped
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros.harness import NODE, NodeProcess, Talker, near, spatial
from tf2_msgs.msg import TFMessage

from hylo_memory_ros.msg import ErrorCode, MemoryFilter
from hylo_memory_ros.srv import Forget, Query, Write

pytestmark = pytest.mark.ros
NOW = 1_700_000_000


@pytest.fixture(scope='module')
def parameters() -> dict[str, Any]:
    # The stamps of these tests are not those of the clock.
    return {'tf_timeout_s': 1.5, 'tf_buffer_s': 10.0, 'tf_max_age_s': 0.0}


def transform(
    parent: str, child: str, sec: float, x: float = 0.0, y: float = 0.0, yaw: float = 0.0
) -> TransformStamped:
    msg = TransformStamped(child_frame_id=child)
    msg.header.frame_id = parent
    msg.header.stamp.sec, msg.header.stamp.nanosec = divmod(round(sec * 10**9), 10**9)
    msg.transform.translation.x, msg.transform.translation.y = x, y
    msg.transform.rotation.z, msg.transform.rotation.w = math.sin(yaw / 2), math.cos(yaw / 2)
    return msg


@pytest.fixture(scope='module')
def tf(shared: SimpleNamespace) -> Any:
    """The robot drives from x=0 at NOW to x=10 at NOW+10; a lamp hangs in a tree of its own."""
    talker: Talker = shared.talker
    static = talker.node.create_publisher(
        TFMessage, '/tf_static', QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    )
    moving = talker.node.create_publisher(TFMessage, '/tf', QoSProfile(depth=100))
    static.publish(
        TFMessage(transforms=[transform('base_link', 'camera', 0, y=1.0), transform('world', 'lamp', 0)])
    )
    talker.spin_until(lambda: moving.get_subscription_count() and static.get_subscription_count())

    def send(sec: float, x: float) -> None:
        moving.publish(TFMessage(transforms=[transform('map', 'base_link', sec, x=x)]))

    for second in range(11):
        send(NOW + second, float(second))
    talker.spin_until(lambda: talker.query(k=0, filter=near('camera', 1.0)).success, 'transform')
    return send


def stamped(key: str, sec: float, x: float, frame: str = 'camera') -> Any:
    item = spatial(key, x, frame=frame)
    item.header.stamp.sec, item.header.stamp.nanosec = divmod(round(sec * 10**9), 10**9)
    return item


def test_a_pose_is_placed_at_its_stamp_and_stays_there(shared: SimpleNamespace, tf: Any) -> None:
    assert shared.talker.write(stamped('box', NOW + 2.5, 1.0)).success

    found = shared.talker.query(filter=near('map', 0.01, 3.5, 1.0)).hits

    assert [hit.item.key for hit in found] == ['box']
    assert found[0].item.header.frame_id == 'map'
    assert (found[0].item.header.stamp.sec, found[0].item.header.stamp.nanosec) == (NOW + 2, 500_000_000)


def test_the_centre_of_a_question_follows_the_robot(shared: SimpleNamespace, tf: Any) -> None:
    shared.talker.write(stamped('ahead', NOW + 10, 0.5))

    latest = shared.talker.query(filter=near('base_link', 1.5))
    assert latest.success, latest.message
    assert 'ahead' in [hit.item.key for hit in latest.hits]
    assert (latest.center_used.header.frame_id, latest.center_used.point.x) == ('map', 10.0)

    then = near('base_link', 1.5)
    then.near.header.stamp.sec = NOW + 4
    answer = shared.talker.query(filter=then)
    assert answer.center_used.point.x == 4.0


def test_a_page_goes_on_where_the_first_was_asked(shared: SimpleNamespace, tf: Any) -> None:
    shared.talker.write(*(stamped(f'row{n}', NOW + 10, 0.01 * n) for n in range(6)))
    chosen = near('base_link', 5.0)
    first = shared.talker.query(k=2, filter=chosen)
    tf(NOW + 10.5, 40.0)
    shared.talker.spin_until(
        lambda: shared.talker.query(k=0, filter=chosen).center_used.point.x == 40.0, 'moved robot'
    )

    second = shared.talker.query(k=2, filter=chosen, cursor=first.cursor)

    assert second.success, second.message
    assert second.center_used.point.x == first.center_used.point.x
    assert not {hit.item.id for hit in first.hits} & {hit.item.id for hit in second.hits}
    tf(NOW + 11.0, 10.0)


def refusal(talker: Talker, item: Any) -> tuple[Any, float]:
    before, start = talker.query(k=0).sequence, time.monotonic()
    answer = talker.write(item)
    elapsed = time.monotonic() - start
    assert not answer.success
    assert talker.query(k=0).sequence == before
    return answer, elapsed


def test_an_unknown_frame_is_refused_by_name(shared: SimpleNamespace, tf: Any) -> None:
    answer, _ = refusal(shared.talker, stamped('x', NOW + 5, 0.0, frame='nowhere'))

    assert answer.error_code == ErrorCode.FRAME_UNKNOWN
    assert 'nowhere' in answer.message
    assert 'items[0]' in answer.message


def test_a_frame_of_another_tree_is_refused_by_both_names(shared: SimpleNamespace, tf: Any) -> None:
    answer, _ = refusal(shared.talker, stamped('x', NOW + 5, 0.0, frame='lamp'))

    assert answer.error_code == ErrorCode.FRAME_DISCONNECTED
    assert 'lamp' in answer.message
    assert 'map' in answer.message


def test_the_past_never_arrives_and_is_refused_at_once(shared: SimpleNamespace, tf: Any) -> None:
    answer, elapsed = refusal(shared.talker, stamped('x', NOW - 0.0002, 0.0))

    assert answer.error_code == ErrorCode.TRANSFORM_TOO_OLD
    assert elapsed < 1.0


def test_the_future_is_waited_for_and_then_refused_as_retryable(shared: SimpleNamespace, tf: Any) -> None:
    answer, elapsed = refusal(shared.talker, stamped('x', NOW + 11.035, 0.0))

    assert answer.error_code == ErrorCode.TRANSFORM_TOO_NEW
    assert elapsed > 1.4


def test_waiting_blocks_nobody_and_ends_when_the_transform_comes(shared: SimpleNamespace, tf: Any) -> None:
    talker: Talker = shared.talker
    write = talker.client(Write, f'{NODE}/write').call_async(
        Write.Request(items=[stamped('soon', NOW + 12, 0.0)])
    )
    assert talker.query(k=0).success
    assert talker.write(spatial('other', 77.0)).success
    assert not write.done()

    tf(NOW + 12.5, 20.0)

    talker.spin_until(write.done)
    assert write.result().success, write.result().message
    x = talker.query(filter=MemoryFilter(keys=['soon'])).hits[0].item.pose.position.x
    assert x == pytest.approx(10.0 + 10.0 * 1.0 / 1.5)


def test_a_zero_stamp_asks_for_now_not_for_the_latest(shared: SimpleNamespace, tf: Any) -> None:
    # Wall time lies years after these transforms.
    answer, _ = refusal(shared.talker, spatial('x', frame='camera'))

    assert answer.error_code == ErrorCode.TRANSFORM_TOO_NEW


def test_working_memory_keeps_the_frame_as_given(shared: SimpleNamespace, tf: Any) -> None:
    item = spatial('hint', frame='nowhere')
    item.kind = item.WORKING

    assert shared.talker.write(item).success


def test_forget_is_asked_around_the_robot_too(shared: SimpleNamespace, tf: Any) -> None:
    shared.talker.write(stamped('doomed', NOW + 12, 0.0))
    centre = near('camera', 0.01, keys=['doomed'])
    centre.near.header.stamp.sec = NOW + 12

    answer = shared.talker.call(Forget, 'forget', filter=centre)

    assert (answer.success, answer.count) == (True, 1), answer.message


def test_where_frames_are_kept_a_pose_answers_in_its_own_only(ros_domain: int, tmp_path: Path) -> None:
    parameters = {'untransformable': 'keep_frame', 'tf_timeout_s': 0.05, 'autostart': True}
    with NodeProcess(tmp_path, ros_domain, parameters), Talker(ros_domain) as talker:
        talker.wait_active()
        assert talker.write(stamped('far', NOW, 1.0, frame='elsewhere')).success

        assert talker.query(filter=near('elsewhere', 0.1, 1.0)).total == 1
        asked = talker.query(filter=near('map', 0.1, 1.0))
        assert (asked.total, list(asked.excluded_reasons)) == (0, ['other_frame'])
        item = talker.query(filter=MemoryFilter(keys=['far'])).hits[0].item
        assert (item.header.frame_id, item.pose.position.x) == ('elsewhere', 1.0)


def test_many_waiting_requests_are_all_answered(shared: SimpleNamespace, tf: Any) -> None:
    talker: Talker = shared.talker
    # With the usual depth of 10 a client loses replies that come all at once.
    client = talker.node.create_client(Query, f'{NODE}/query', qos_profile=QoSProfile(depth=100))
    talker.call_until_answered(client, Query.Request(k=0))
    futures = [client.call_async(Query.Request(filter=near('nowhere', 1.0))) for _ in range(50)]

    talker.spin_until(lambda: all(future.done() for future in futures))

    assert {future.result().error_code for future in futures} == {ErrorCode.FRAME_UNKNOWN}
