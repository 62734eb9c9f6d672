"""One suite for every source of transforms: the stand-in, the stand-in fed by topics, and tf2.

Right values follow tf2's meaning of time. A source that cannot be built here is skipped with the
reason, so that the same suite is whole on a robot.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Protocol

import pytest

from hylo_memory_ros.errors import (
    DisconnectedFrameError,
    FrameError,
    InvalidRequestError,
    TransformTooNewError,
    TransformTooOldError,
    UnknownFrameError,
)
from hylo_memory_ros.transforms import LATEST, TransformBuffer, TransformSource

HALF = math.sqrt(0.5)
IDENTITY = (0.0, 0.0, 0.0, 1.0)
QUARTER_TURN = (0.0, 0.0, HALF, HALF)
KEEP_S = 30.0


def s(seconds: float) -> int:
    """Return seconds as nanoseconds."""
    return round(seconds * 1e9)


class Fed(Protocol):
    """A source under test, and the way to feed it."""

    @property
    def source(self) -> TransformSource: ...

    def put(
        self,
        parent: str,
        child: str,
        stamp_ns: int,
        translation: tuple[float, float, float],
        rotation: tuple[float, float, float, float] = IDENTITY,
        *,
        static: bool = False,
    ) -> None: ...


class FedByHand:
    """The stand-in, without ROS."""

    def __init__(self) -> None:
        self.source = TransformBuffer(keep_s=KEEP_S)

    def put(self, parent, child, stamp_ns, translation, rotation=IDENTITY, *, static=False):  # type: ignore[no-untyped-def]
        self.source.set_transform(parent, child, stamp_ns, translation, rotation, static=static)


class FedByMessages:
    """An adapter of the ROS side, given the bytes that arrive on `tf` and `tf_static`."""

    def __init__(self, node: Any, kind: Literal['tf2', 'stand_in']) -> None:
        from hylo_memory_ros.ros.perception.transforms import transform_source

        self.source = transform_source(node, keep_s=KEEP_S, kind=kind)

    def put(self, parent, child, stamp_ns, translation, rotation=IDENTITY, *, static=False):  # type: ignore[no-untyped-def]
        from geometry_msgs.msg import TransformStamped
        from rclpy.serialization import serialize_message
        from tf2_msgs.msg import TFMessage

        message = TransformStamped(child_frame_id=child)
        message.header.frame_id = parent
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
        offset, turn = message.transform.translation, message.transform.rotation
        offset.x, offset.y, offset.z = map(float, translation)
        turn.x, turn.y, turn.z, turn.w = map(float, rotation)
        self.source.take(serialize_message(TFMessage(transforms=[message])), static=static)


@pytest.fixture(scope='module')
def node() -> Iterator[Any]:
    """Return a node that nobody hears: the suite hands it messages itself."""
    from rclpy.context import Context
    from rclpy.node import Node

    context = Context()
    with pytest.MonkeyPatch.context() as environment, warnings.catch_warnings():
        environment.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'OFF')
        # The generators of the wheels bring an old lark, which imports a deprecated module.
        warnings.simplefilter('ignore', DeprecationWarning)
        context.init()
        made = Node('transform_source_suite', context=context)
    yield made
    made.destroy_node()
    context.shutdown()


# One test says that something is absent, instead of every test of the suite.
HAS_ROS = all(importlib.util.find_spec(name) for name in ('rclpy', 'tf2_msgs'))
HAS_TF2 = HAS_ROS and importlib.util.find_spec('tf2_py') is not None
KINDS = ['by_hand', *(['stand_in'] if HAS_ROS else []), *(['tf2'] if HAS_TF2 else [])]


@pytest.mark.skipif(not HAS_ROS, reason='rclpy or tf2_msgs is not installed: no ROS here')
def test_the_stand_in_passes_this_suite_fed_by_messages(node: Any) -> None:
    source = FedByMessages(node, 'stand_in').source
    assert isinstance(source, TransformBuffer)
    source.close()


@pytest.mark.skipif(not HAS_TF2, reason='tf2_py is not installed: the ROS wheels of PyPI lack tf2')
def test_tf2_passes_this_suite_too(node: Any) -> None:
    from hylo_memory_ros.ros.perception.transforms import Tf2TransformSource

    source = FedByMessages(node, 'tf2').source
    assert isinstance(source, Tf2TransformSource)
    source.close()


@pytest.fixture(params=KINDS)
def fed(request: pytest.FixtureRequest) -> Iterator[Fed]:
    if request.param == 'by_hand':
        yield FedByHand()
        return
    by_messages = FedByMessages(request.getfixturevalue('node'), request.param)
    yield by_messages
    by_messages.source.close()


def _drive(fed: Fed, start: float = 100.0, end: float = 110.0, step: float = 0.5) -> None:
    """Feed map->odom->base_link->camera: 1 m/s along x, the camera 0.2 m above, looking left."""
    fed.put('base_link', 'camera', 0, (0.0, 0.0, 0.2), QUARTER_TURN, static=True)
    for index in range(round((end - start) / step) + 1):
        stamp = s(start) + index * s(step)
        fed.put('map', 'odom', stamp, (0.0, 10.0, 0.0))
        fed.put('odom', 'base_link', stamp, (index * step, 0.0, 0.0))


class TestValues:
    def test_a_chain_at_a_sample(self, fed: Fed) -> None:
        _drive(fed)
        found = fed.source.lookup('map', 'camera', s(105.0))
        assert found.translation == pytest.approx((5.0, 10.0, 0.2))
        assert found.position((1.0, 0.0, 0.0)) == pytest.approx((5.0, 11.0, 0.2))
        assert (found.target_frame, found.source_frame, found.stamp_ns) == ('map', 'camera', s(105.0))

    def test_between_samples_it_is_interpolated(self, fed: Fed) -> None:
        fed.put('map', 'base_link', s(1.0), (0.0, 0.0, 0.0))
        fed.put('map', 'base_link', s(2.0), (4.0, 0.0, 0.0), QUARTER_TURN)
        found = fed.source.lookup('map', 'base_link', s(1.25))
        assert found.translation == pytest.approx((1.0, 0.0, 0.0))
        angle = math.pi / 8
        assert found.orientation(IDENTITY) == pytest.approx(
            (0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2))
        )

    def test_up_down_and_across_a_tree(self, fed: Fed) -> None:
        _drive(fed)
        fed.put('base_link', 'lidar', 0, (0.3, 0.0, 0.0), static=True)
        assert fed.source.lookup('camera', 'map', s(105.0)).position((5.0, 11.0, 0.2)) == pytest.approx(
            (1.0, 0.0, 0.0)
        )
        across = fed.source.lookup('lidar', 'camera', s(105.0))
        assert across.translation == pytest.approx((-0.3, 0.0, 0.2))

    def test_siblings_below_a_common_parent_do_not_need_the_links_above_it(self, fed: Fed) -> None:
        _drive(fed)
        fed.put('base_link', 'lidar', 0, (0.3, 0.0, 0.0), static=True)
        assert fed.source.lookup('lidar', 'camera', s(500.0)).translation == pytest.approx((-0.3, 0.0, 0.2))

    def test_a_stamp_is_exact_to_the_nanosecond(self, fed: Fed) -> None:
        stamp = 1_553_575_413_247_045_598
        fed.put('map', 'base_link', stamp, (1.0, 0.0, 0.0))
        fed.put('map', 'base_link', stamp + 2, (3.0, 0.0, 0.0))
        found = fed.source.lookup('map', 'base_link', stamp + 1)
        assert found.translation == pytest.approx((2.0, 0.0, 0.0))
        assert found.stamp_ns == stamp + 1

    @pytest.mark.parametrize('stamp_ns', [LATEST, s(5.0)])
    def test_a_frame_is_at_itself_even_if_nobody_named_it(self, fed: Fed, stamp_ns: int) -> None:
        found = fed.source.lookup('map', '/map', stamp_ns)
        assert (found.translation, found.rotation) == ((0.0, 0.0, 0.0), IDENTITY)
        assert (found.target_frame, found.source_frame, found.stamp_ns) == ('map', 'map', stamp_ns)

    def test_what_was_written_in_base_link_is_where_the_robot_was_then(self, fed: Fed) -> None:
        fed.put('map', 'base_link', s(10.0), (0.0, 0.0, 0.0))
        fed.put('map', 'base_link', s(20.0), (5.0, 0.0, 0.0))
        assert fed.source.lookup('map', 'base_link', s(10.0)).position((1.0, 0.0, 0.0)) == (1.0, 0.0, 0.0)

    def test_coordinates_far_from_the_origin_keep_their_precision(self, fed: Fed) -> None:
        fed.put('utm', 'map', 0, (3_948_996.1, 551_234.7, 12.0), static=True)
        fed.put('map', 'base_link', s(1.0), (0.25, 0.0, 0.0))
        fed.put('base_link', 'camera', 0, (0.125, 0.0, 0.0), static=True)
        assert fed.source.lookup('utm', 'camera', s(1.0)).translation[0] == pytest.approx(
            3_948_996.475, abs=1e-9
        )


class TestTime:
    """The buffer holds [100.0, 110.0]."""

    @pytest.mark.parametrize(('stamp', 'x'), [(100.0, 0.0), (110.0, 10.0)])
    def test_both_edges_are_inside(self, fed: Fed, stamp: float, x: float) -> None:
        _drive(fed)
        assert fed.source.lookup('map', 'base_link', s(stamp)).translation == pytest.approx((x, 10.0, 0.0))

    @pytest.mark.parametrize('stamp_ns', [s(110.035), s(110.0) + 1])
    def test_after_the_newest_is_too_new(self, fed: Fed, stamp_ns: int) -> None:
        _drive(fed)
        with pytest.raises(TransformTooNewError) as caught:
            fed.source.lookup('map', 'base_link', stamp_ns)
        _names_everything(caught.value, 'map', 'base_link', stamp_ns, '[100.000000000 s, 110.000000000 s]')
        assert caught.value.details['newest_ns'] == s(110.0)

    @pytest.mark.parametrize('stamp_ns', [s(99.9998), s(50.0), s(100.0) - 1])
    def test_before_the_oldest_is_too_old(self, fed: Fed, stamp_ns: int) -> None:
        _drive(fed)
        with pytest.raises(TransformTooOldError) as caught:
            fed.source.lookup('map', 'base_link', stamp_ns)
        _names_everything(caught.value, 'map', 'base_link', stamp_ns, '[100.000000000 s, 110.000000000 s]')
        assert caught.value.details['oldest_ns'] == s(100.0)

    def test_zero_is_the_latest_common_time_and_says_which(self, fed: Fed) -> None:
        _drive(fed)
        fed.put('odom', 'base_link', s(111.0), (11.0, 0.0, 0.0))
        found = fed.source.lookup('map', 'camera', LATEST)
        assert found.translation == pytest.approx((10.0, 10.0, 0.2))
        assert found.stamp_ns == s(110.0)

    def test_zero_over_static_links_only(self, fed: Fed) -> None:
        _drive(fed)
        found = fed.source.lookup('base_link', 'camera', LATEST)
        assert found.translation == pytest.approx((0.0, 0.0, 0.2))
        assert found.stamp_ns == 0

    def test_zero_waits_while_the_links_share_no_time(self, fed: Fed) -> None:
        fed.put('map', 'odom', s(100.5), (0.0, 0.0, 0.0))
        fed.put('odom', 'base_link', s(100.0), (1.0, 0.0, 0.0))
        with pytest.raises(TransformTooNewError, match='share no time'):
            fed.source.lookup('map', 'base_link', LATEST)

    def test_a_single_sample_holds_at_its_own_stamp_only(self, fed: Fed) -> None:
        fed.put('map', 'base_link', s(5.0), (1.0, 0.0, 0.0))
        assert fed.source.lookup('map', 'base_link', s(5.0)).translation == (1.0, 0.0, 0.0)
        assert fed.source.lookup('map', 'base_link', LATEST).stamp_ns == s(5.0)
        with pytest.raises(TransformTooOldError):
            fed.source.lookup('map', 'base_link', s(5.0) - 1)
        with pytest.raises(TransformTooNewError):
            fed.source.lookup('map', 'base_link', s(5.0) + 1)

    @pytest.mark.parametrize('stamp_ns', [1, s(1.7e9)])
    @pytest.mark.parametrize('published_ns', [0, s(77.0), -s(1.0)])
    def test_a_static_transform_holds_always(self, fed: Fed, stamp_ns: int, published_ns: int) -> None:
        fed.put('base_link', 'camera', published_ns, (0.0, 0.0, 0.2), static=True)
        assert fed.source.lookup('base_link', 'camera', stamp_ns).translation == (0.0, 0.0, 0.2)

    def test_samples_older_than_the_buffer_are_gone(self, fed: Fed) -> None:
        for second in range(100, 141):
            fed.put('map', 'base_link', s(second), (float(second), 0.0, 0.0))
        with pytest.raises(TransformTooOldError):
            fed.source.lookup('map', 'base_link', s(105.0))
        assert fed.source.lookup('map', 'base_link', s(110.0)).translation == (110.0, 0.0, 0.0)

    def test_samples_that_waiting_work_needs_stay(self, fed: Fed) -> None:
        waiting: list[int] = []
        release = fed.source.retain(lambda: min(waiting, default=None))  # type: ignore[attr-defined]

        def put(first: int, last: int) -> None:
            for second in range(first, last + 1):
                fed.put('map', 'base_link', s(second), (float(second), 0.0, 0.0))

        put(100, 140)
        waiting += [s(120.5), s(112.0)]
        put(141, 200)
        with pytest.raises(TransformTooOldError):
            fed.source.lookup('map', 'base_link', s(111.5))
        assert fed.source.lookup('map', 'base_link', s(112.0)).translation == (112.0, 0.0, 0.0)
        waiting.remove(s(112.0))
        put(201, 202)
        with pytest.raises(TransformTooOldError):
            fed.source.lookup('map', 'base_link', s(119.5))
        # What lies between two samples needs the one before it.
        assert fed.source.lookup('map', 'base_link', s(120.5)).translation == (120.5, 0.0, 0.0)
        release()
        put(203, 204)
        with pytest.raises(TransformTooOldError):
            fed.source.lookup('map', 'base_link', s(172.5))
        assert fed.source.lookup('map', 'base_link', s(173.0)).translation == (173.0, 0.0, 0.0)

    def test_but_not_longer_than_declared(self, fed: Fed) -> None:
        fed.source.retain(lambda: s(100.0))  # type: ignore[attr-defined]
        for second in range(100, 100 + 10 * round(KEEP_S) + 8):
            fed.put('map', 'base_link', s(second), (float(second), 0.0, 0.0))
        with pytest.raises(TransformTooOldError):
            fed.source.lookup('map', 'base_link', s(105.0))
        assert fed.source.lookup('map', 'base_link', s(106.0)).translation == (106.0, 0.0, 0.0)

    def test_the_buffer_is_measured_by_each_frame_on_its_own(self, fed: Fed) -> None:
        fed.put('map', 'slow', s(1.0), (1.0, 0.0, 0.0))
        for second in range(2, 100):
            fed.put('map', 'fast', s(second), (0.0, 0.0, 0.0))
        assert fed.source.lookup('map', 'slow', s(1.0)).translation == (1.0, 0.0, 0.0)

    def test_samples_may_come_in_any_order(self, fed: Fed) -> None:
        for second in (3, 1, 2):
            fed.put('map', 'base_link', s(second), (second * second, 0.0, 0.0))
        assert fed.source.lookup('map', 'base_link', s(1.5)).translation == pytest.approx((2.5, 0.0, 0.0))
        assert fed.source.lookup('map', 'base_link', LATEST).stamp_ns == s(3.0)

    def test_of_two_samples_with_one_stamp_the_later_one_counts(self, fed: Fed) -> None:
        fed.put('map', 'base_link', s(1.0), (1.0, 0.0, 0.0))
        for x in (2.0, 2.0, 3.0):
            fed.put('map', 'base_link', s(2.0), (x, 0.0, 0.0))
        assert fed.source.lookup('map', 'base_link', s(2.0)).translation == (3.0, 0.0, 0.0)
        assert dict(fed.source.refused) == {}


class TestTrees:
    def test_an_unknown_frame_is_named(self, fed: Fed) -> None:
        _drive(fed)
        with pytest.raises(UnknownFrameError) as caught:
            fed.source.lookup('map', 'gripper', s(105.0))
        _names_everything(caught.value, 'map', 'gripper', s(105.0), "'gripper' is unknown")

    @pytest.mark.parametrize('stamp_ns', [s(1.0), s(9.0), LATEST])
    def test_two_trees_are_not_connected(self, fed: Fed, stamp_ns: int) -> None:
        fed.put('map', 'odom', s(1.0), (0.0, 0.0, 0.0))
        fed.put('world', 'panda_link0', s(1.0), (0.0, 0.0, 0.0))
        with pytest.raises(DisconnectedFrameError) as caught:
            fed.source.lookup('map', 'panda_link0', stamp_ns)
        assert 'not connected' in str(caught.value)
        assert "'world'" in str(caught.value)

    @pytest.mark.parametrize('name', ['//map', '/', '', ' map ', 'ma\tp'])
    def test_a_name_that_is_none_is_refused(self, fed: Fed, name: str) -> None:
        _drive(fed)
        with pytest.raises(InvalidRequestError, match='target_frame: '):
            fed.source.lookup(name, 'base_link', s(105.0))
        with pytest.raises(InvalidRequestError, match='source_frame: '):
            fed.source.lookup('base_link', name, s(105.0))

    def test_one_leading_slash_makes_no_difference(self, fed: Fed) -> None:
        fed.put('/map', '/base_link', s(1.0), (1.0, 2.0, 0.0))
        assert fed.source.lookup('map', '/base_link', s(1.0)).translation == (1.0, 2.0, 0.0)
        assert fed.source.frames() == ('base_link', 'map')

    def test_a_negative_stamp_is_refused(self, fed: Fed) -> None:
        with pytest.raises(InvalidRequestError, match='stamp_ns: -1'):
            fed.source.lookup('map', 'base_link', -1)

    def test_a_child_may_be_handed_to_another_parent(self, fed: Fed) -> None:
        fed.put('map', 'table', 0, (10.0, 0.0, 0.0), static=True)
        fed.put('map', 'hand', 0, (20.0, 0.0, 0.0), static=True)
        fed.put('table', 'mug', s(1.0), (1.0, 0.0, 0.0))
        fed.put('table', 'mug', s(2.0), (1.0, 0.0, 0.0))
        fed.put('hand', 'mug', s(3.0), (0.0, 0.0, 0.0))
        fed.put('hand', 'mug', s(4.0), (2.0, 0.0, 0.0))
        x = {at: fed.source.lookup('map', 'mug', s(at)).translation[0] for at in (1.5, 2.5, 3.0, 3.5)}
        assert x == pytest.approx({1.5: 11.0, 2.5: 11.0, 3.0: 20.0, 3.5: 21.0})

    def test_a_transform_may_become_static_and_back(self, fed: Fed) -> None:
        fed.put('map', 'odom', s(1.0), (1.0, 0.0, 0.0))
        fed.put('map', 'odom', 0, (2.0, 0.0, 0.0), static=True)
        assert fed.source.lookup('map', 'odom', s(50.0)).translation == (2.0, 0.0, 0.0)
        fed.put('map', 'odom', s(60.0), (3.0, 0.0, 0.0))
        with pytest.raises(TransformTooOldError):
            fed.source.lookup('map', 'odom', s(50.0))


class TestRefusedInput:
    @pytest.mark.parametrize(
        ('reason', 'put'),
        [
            ('frame_id', ('', 'base_link', s(5.0), (0.0, 0.0, 0.0))),
            ('frame_id', ('//map', 'base_link', s(5.0), (0.0, 0.0, 0.0))),
            ('frame_id', ('map', ' base_link', s(5.0), (0.0, 0.0, 0.0))),
            ('self_transform', ('map', '/map', s(5.0), (0.0, 0.0, 0.0))),
            ('translation', ('map', 'base_link', s(5.0), (math.nan, 0.0, 0.0))),
            ('translation', ('map', 'base_link', s(5.0), (0.0, math.inf, 0.0))),
            ('quaternion', ('map', 'base_link', s(5.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))),
            ('quaternion', ('map', 'base_link', s(5.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, math.nan))),
            ('quaternion', ('map', 'base_link', s(5.0), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0))),
            ('stamp', ('map', 'base_link', -s(5.0), (0.0, 0.0, 0.0))),
        ],
    )
    def test_is_counted_and_changes_nothing(self, fed: Fed, reason: str, put: tuple) -> None:  # type: ignore[type-arg]
        fed.put('map', 'base_link', s(4.0), (1.0, 0.0, 0.0))
        fed.put('map', 'base_link', s(6.0), (1.0, 0.0, 0.0))
        fed.put(*put)
        assert dict(fed.source.refused) == {reason: 1}
        assert fed.source.lookup('map', 'base_link', s(5.0)).translation == (1.0, 0.0, 0.0)
        assert fed.source.frames() == ('base_link', 'map')

    def test_data_older_than_the_buffer(self, fed: Fed) -> None:
        fed.put('map', 'base_link', s(100.0), (1.0, 0.0, 0.0))
        fed.put('map', 'base_link', s(70.0) - 1, (9.0, 0.0, 0.0))
        fed.put('map', 'base_link', s(70.0), (0.0, 0.0, 0.0))
        assert dict(fed.source.refused) == {'old_data': 1}
        assert fed.source.lookup('map', 'base_link', s(85.0)).translation == pytest.approx((0.5, 0.0, 0.0))

    def test_a_link_that_would_close_a_loop(self, fed: Fed) -> None:
        fed.put('a', 'b', s(1.0), (1.0, 0.0, 0.0))
        fed.put('b', 'c', s(1.0), (1.0, 0.0, 0.0))
        fed.put('c', 'a', s(1.0), (1.0, 0.0, 0.0))
        assert dict(fed.source.refused) == {'loop': 1}
        assert fed.source.lookup('a', 'c', s(1.0)).translation == (2.0, 0.0, 0.0)

    def test_a_quaternion_nearly_of_unit_length_is_scaled(self, fed: Fed) -> None:
        fed.put('map', 'odom', s(1.0), (0.0, 0.0, 0.0), (0.0, 0.0, HALF * 1.004, HALF * 1.004))
        fed.put('odom', 'base_link', s(1.0), (100.0, 0.0, 0.0))
        assert fed.source.lookup('map', 'base_link', s(1.0)).translation == pytest.approx(
            (0.0, 100.0, 0.0), abs=1e-9
        )


class TestClear:
    def test_forgets_what_changes_and_keeps_what_is_static(self, fed: Fed) -> None:
        _drive(fed)
        fed.source.clear()
        assert fed.source.frames() == ('base_link', 'camera')
        assert fed.source.lookup('base_link', 'camera', s(3.0)).translation == pytest.approx((0.0, 0.0, 0.2))
        with pytest.raises(UnknownFrameError):
            fed.source.lookup('map', 'base_link', s(105.0))

    def test_a_second_loop_of_a_bag_is_taken_like_the_first(self, fed: Fed) -> None:
        _drive(fed, start=100.0, end=150.0)
        first = fed.source.lookup('map', 'camera', s(150.0))
        fed.source.clear()
        _drive(fed, start=100.0, end=150.0)
        assert dict(fed.source.refused) == {}
        assert fed.source.lookup('map', 'camera', s(150.0)) == first
        fed.source.clear()
        _drive(fed, start=100.0, end=100.0)
        assert fed.source.lookup('map', 'camera', s(100.0)).translation == pytest.approx((0.0, 10.0, 0.2))


class TestOnChange:
    def test_calls_back_when_transforms_came_and_not_after_removal(self, fed: Fed) -> None:
        seen: list[str] = []
        remove = fed.source.on_change(lambda: seen.append('change'))
        fed.put('map', 'base_link', s(1.0), (0.0, 0.0, 0.0))
        fed.put('map', 'base_link', s(1.0), (math.nan, 0.0, 0.0))
        assert seen == ['change']
        remove()
        remove()
        fed.put('map', 'base_link', s(2.0), (0.0, 0.0, 0.0))
        assert seen == ['change']

    def test_a_callback_may_ask(self, fed: Fed) -> None:
        seen: list[float] = []
        lookup = fed.source.lookup
        fed.source.on_change(lambda: seen.append(lookup('map', 'base_link', LATEST).translation[0]))
        fed.put('map', 'base_link', s(1.0), (7.0, 0.0, 0.0))
        assert seen == [7.0]


def test_threads_may_ask_while_transforms_arrive(fed: Fed) -> None:
    fed.put('map', 'base_link', s(1.0), (1.0, 0.0, 0.0))

    def ask() -> set[float]:
        return {fed.source.lookup('map', 'base_link', LATEST).translation[0] % 1.0 for _ in range(2000)}

    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(ask) for _ in range(2)]
        for index in range(2000):
            fed.put('map', 'base_link', s(1.0 + index * 0.01), (float(index), 0.0, 0.0))
        assert [found.result() for found in asked] == [{0.0}, {0.0}]


def test_it_is_a_transform_source(fed: Fed) -> None:
    assert isinstance(fed.source, TransformSource)


def _names_everything(error: FrameError, target: str, source: str, stamp_ns: int, rule: str) -> None:
    message = str(error)
    for part in (repr(target), repr(source), f'{stamp_ns // 10**9}.{stamp_ns % 10**9:09d}', rule):
        assert part in message
    assert error.details['target_frame'] == target
    assert error.details['source_frame'] == source
    assert error.details['stamp_ns'] == stamp_ns
