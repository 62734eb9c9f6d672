"""Waiting for transforms: who is answered when, by which name, and at what cost."""

from __future__ import annotations

import math
from concurrent.futures import Future

import pytest

from hylo_memory_ros.errors import (
    DisconnectedFrameError,
    InvalidRequestError,
    NotNowError,
    TransformTooNewError,
    TransformTooOldError,
    UnknownFrameError,
)
from hylo_memory_ros.transforms import LATEST, PendingLookups, Transform, TransformBuffer

IDENTITY = (0.0, 0.0, 0.0, 1.0)


def s(seconds: float) -> int:
    """Return seconds as nanoseconds."""
    return round(seconds * 1e9)


class Steady:
    """A steady clock that moves when told."""

    def __init__(self) -> None:
        self.ns = s(5000.0)

    def __call__(self) -> int:
        return self.ns


class CountingBuffer(TransformBuffer):
    """A buffer that counts the questions it is asked."""

    lookups = 0

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        self.lookups += 1
        return super().lookup(target_frame, source_frame, stamp_ns)


class World:
    """A buffer holding map->base_link over [100, 110] s, 1 m/s along x, and a queue on it."""

    def __init__(self, **options: int) -> None:
        self.steady = Steady()
        self.tf = CountingBuffer()
        self.queue = PendingLookups(self.tf, timeout_s=0.5, steady_ns=self.steady, **options)
        self.tf.on_change(self.queue.poll)
        for second in range(100, 111):
            self.put(second)

    def put(self, at: float, child: str = 'base_link') -> None:
        self.tf.set_transform('map', child, s(at), (at - 100.0, 0.0, 0.0), IDENTITY)

    def ask(self, at: float, source: str = 'base_link', **options: float) -> Future[Transform]:
        return self.queue.submit('map', source, s(at), **options)

    def pass_time(self, seconds: float) -> None:
        self.steady.ns += s(seconds)
        self.queue.expire()


@pytest.fixture
def world() -> World:
    return World()


class TestAtOnce:
    def test_what_is_there(self, world: World) -> None:
        future = world.ask(105.0)
        assert future.done()
        assert future.result().translation == pytest.approx((5.0, 0.0, 0.0))
        assert len(world.queue) == 0

    @pytest.mark.parametrize('at', [99.9998, 50.0])
    def test_the_past_is_refused(self, world: World, at: float) -> None:
        future = world.ask(at)
        assert isinstance(future.exception(timeout=0), TransformTooOldError)

    def test_a_name_that_is_none_is_refused(self, world: World) -> None:
        assert isinstance(world.ask(105.0, source='//map').exception(timeout=0), InvalidRequestError)

    def test_without_time_to_wait_the_future_is_refused(self, world: World) -> None:
        assert isinstance(world.ask(110.035, timeout_s=0.0).exception(timeout=0), TransformTooNewError)
        assert len(world.queue) == 0


class TestWaiting:
    def test_a_small_gap_is_answered_when_the_transform_arrives(self, world: World) -> None:
        future = world.ask(110.035)
        assert not future.done()
        world.pass_time(0.3)
        world.put(110.1)
        assert future.result(timeout=0).translation == pytest.approx((10.035, 0.0, 0.0))
        assert world.queue.expired == 0

    def test_never_with_the_latest_instead(self, world: World) -> None:
        future = world.ask(110.035)
        world.put(110.02)
        assert not future.done()

    @pytest.mark.parametrize(
        ('source', 'error'),
        [
            ('base_link', TransformTooNewError),
            ('gripper', UnknownFrameError),
            ('panda_link0', DisconnectedFrameError),
        ],
    )
    def test_each_refusal_has_its_own_name_within_the_timeout(
        self, world: World, source: str, error: type[Exception]
    ) -> None:
        world.tf.set_transform('world', 'panda_link0', s(105.0), (0.0, 0.0, 0.0), IDENTITY)
        future = world.ask(110.035, source)
        world.pass_time(0.49)
        assert not future.done()
        world.pass_time(0.01)
        refusal = future.exception(timeout=0)
        assert type(refusal) is error
        assert "'map'" in str(refusal)
        assert repr(source) in str(refusal)
        assert '(waited 0.500 s)' in str(refusal)
        assert world.queue.expired == 1

    def test_a_frame_that_appears_in_time_is_no_longer_unknown(self, world: World) -> None:
        future = world.ask(110.0, 'gripper')
        world.put(110.0, 'gripper')
        assert future.result(timeout=0).source_frame == 'gripper'

    def test_what_becomes_too_old_while_waiting_is_refused_by_the_next_message(self, world: World) -> None:
        future = world.ask(110.0, 'gripper')
        world.put(120.0, 'gripper')
        assert isinstance(future.exception(timeout=0), TransformTooOldError)

    def test_latest_waits_for_a_frame_that_is_unknown(self, world: World) -> None:
        future = world.queue.submit('map', 'gripper', LATEST)
        assert not future.done()
        world.put(111.0, 'gripper')
        assert future.result(timeout=0).stamp_ns == s(111.0)

    def test_a_transform_that_came_with_the_deadline_is_used(self, world: World) -> None:
        future = world.ask(110.5)
        world.tf.on_change(lambda: None)
        world.queue._source = other = TransformBuffer()
        for at in (110.0, 111.0):
            other.set_transform('map', 'base_link', s(at), (1.0, 0.0, 0.0), IDENTITY)
        world.pass_time(1.0)
        assert future.result(timeout=0).translation == (1.0, 0.0, 0.0)

    def test_a_question_may_have_its_own_time(self, world: World) -> None:
        short, long = world.ask(111.0, timeout_s=0.1), world.ask(111.0, timeout_s=2.0)
        assert world.queue.next_deadline_ns() == world.steady.ns + s(0.1)
        world.pass_time(0.1)
        assert (short.done(), long.done()) == (True, False)
        world.pass_time(1.9)
        assert long.done()
        assert world.queue.next_deadline_ns() is None


class TestStamps:
    """Work that must not depend on the speed of a replay."""

    def test_without_a_deadline_only_stamps_end_the_waiting(self, world: World) -> None:
        early, late = world.ask(111.0, timeout_s=math.inf), world.ask(115.0, timeout_s=math.inf)
        world.pass_time(1e6)
        assert not early.done()
        assert world.queue.expire_before(s(112.0)) == 1
        assert isinstance(early.exception(timeout=0), TransformTooNewError)
        assert not late.done()

    def test_answers_come_in_the_order_of_stamps(self, world: World) -> None:
        order: list[float] = []
        for at in (113.0, 111.0, 112.0):
            world.ask(at).add_done_callback(lambda future: order.append(future.result().stamp_ns / 1e9))
        world.put(120.0)
        assert order == [111.0, 112.0, 113.0]


class TestEnds:
    def test_finish_answers_what_it_can_and_says_why_it_refuses_the_rest(self, world: World) -> None:
        waiting = world.ask(200.0)
        assert world.queue.finish('the map was switched') == 1
        assert 'the map was switched' in str(waiting.exception(timeout=0))
        assert isinstance(waiting.exception(timeout=0), TransformTooNewError)
        assert len(world.queue) == 0
        assert world.queue.expired == 0

    def test_the_oldest_goes_when_there_is_no_room(self) -> None:
        world = World(capacity=2)
        first, second, third = (world.ask(at) for at in (120.0, 130.0, 140.0))
        assert isinstance(first.exception(timeout=0), NotNowError)
        assert '2 lookups already wait' in str(first.exception())
        assert world.queue.dropped == 1
        assert not second.done()
        assert not third.done()

    def test_a_cancelled_question_is_forgotten(self, world: World) -> None:
        future = world.ask(111.0)
        assert future.cancel()
        world.put(112.0)
        assert len(world.queue) == 0

    def test_a_callback_may_ask_again(self, world: World) -> None:
        again: list[Future[Transform]] = []
        world.ask(111.0).add_done_callback(lambda _: again.append(world.ask(111.5)))
        world.put(112.0)
        assert again[0].result(timeout=0).stamp_ns == s(111.5)


class TestCost:
    def test_a_message_costs_one_lookup_a_pair_however_many_wait(self, world: World) -> None:
        for index in range(500):
            world.ask(120.0 + index)
        world.tf.lookups = 0
        world.put(110.5)
        assert world.tf.lookups == 1

    def test_one_pair_does_not_hold_up_another(self, world: World) -> None:
        stuck = world.ask(111.0, 'gripper')
        future = world.ask(111.0)
        world.put(111.0)
        assert future.done()
        assert not stuck.done()
