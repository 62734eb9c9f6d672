"""The watermark, and what waits behind it."""

from __future__ import annotations

import pytest
from perception.pieces import NS, START_NS, Standing, a_message

from hylo_memory_ros.errors import TransformTooOldError
from hylo_memory_ros.perception import Message
from hylo_memory_ros.perception.ingestion.watermark import Backlog, Watermark
from hylo_memory_ros.transforms import Transform


def a_mark(**newest_ns: int) -> Watermark:
    return Watermark(['a', 'b'], window_ns=5, silence_ns=50, newest_ns=newest_ns)


def test_it_is_the_smallest_newest_stamp_less_the_window() -> None:
    mark = a_mark()
    mark.observe('a', 100)
    mark.observe('b', 104)
    assert mark.value_ns == 95
    mark.observe('a', 120)
    assert mark.value_ns == 99
    assert (mark.of('a'), mark.of('b'), mark.furthest_ns) == (115, 99, 120)


def test_it_never_goes_back() -> None:
    mark = a_mark()
    mark.observe('a', 100)
    mark.observe('b', 100)
    mark.observe('a', 20)
    assert mark.value_ns == 95


def test_one_that_was_never_heard_holds_it_for_the_silence() -> None:
    mark = a_mark()
    mark.observe('a', 100)
    mark.observe('a', 150)
    assert mark.value_ns == 0
    mark.observe('a', 151)
    assert mark.value_ns == 146


def test_a_silent_one_is_left_out_until_its_next_message() -> None:
    mark = a_mark()
    mark.observe('a', 100)
    mark.observe('b', 100)
    mark.observe('a', 150)
    assert mark.value_ns == 95
    mark.observe('a', 151)
    assert mark.value_ns == 146
    mark.observe('b', 149)
    mark.observe('a', 170)
    assert mark.value_ns == 146
    mark.observe('b', 170)
    assert mark.value_ns == 165


def test_a_lift_ends_at_the_newest_stamp() -> None:
    mark = a_mark()
    mark.observe('a', 100)
    mark.advance_to(98)
    assert (mark.value_ns, mark.of('a'), mark.of('b')) == (98, 98, 0)
    mark.advance_to(10**18)
    assert (mark.value_ns, mark.of('a')) == (100, 100)
    mark.advance_to(7)
    assert mark.value_ns == 100


def test_what_was_consumed_is_behind_it() -> None:
    mark = a_mark(a=100, b=90)
    assert mark.value_ns == 100
    mark.observe('a', 107)
    assert mark.value_ns == 100


def test_a_replay_after_a_restart_is_not_held_by_one_that_was_never_heard() -> None:
    mark = Watermark(['a', 'b', 'c'], 5, 50, {'a': 100, 'b': 100})
    mark.observe('a', 1)
    mark.observe('a', 120)
    mark.observe('b', 120)
    assert mark.value_ns == 115


def test_the_order_is_stamp_input_digest() -> None:
    backlog = Backlog(lambda message: (message, Transform((0.0, 0.0, 0.0)), None))
    given = [
        a_message(2.0, [(1, 1, 1)], source='a'),
        a_message(1.0, [(1, 1, 1)], source='b'),
        a_message(1.0, [(1, 1, 2)], source='a'),
        a_message(1.0, [(1, 1, 1)], source='a'),
    ]
    for message in given:
        backlog.push(message)
    assert given[0] in backlog
    assert backlog.count('a') == 3
    assert backlog.count_until(START_NS + NS) == 3
    taken = []
    while first := backlog.first():
        taken.append(first.message.order)
        backlog.remove(first)
    assert taken == sorted(message.order for message in given)
    assert given[0] not in backlog
    assert len(backlog) == 0


def test_one_lookup_for_each_answer_and_one_for_each_frame_that_is_waited_for() -> None:
    robot = Standing(known_until_ns=START_NS + 5 * NS)

    def lookup(message: Message) -> tuple[Message, Transform, None]:
        return message, robot.lookup('map', message.frame_id, message.stamp_ns), None

    backlog = Backlog(lookup)
    for second in range(10, 0, -1):
        backlog.push(a_message(second, []))
    assert backlog.resolve() == []
    assert robot.lookups == 6
    backlog.resolve()
    assert robot.lookups == 7
    robot.known_until_ns = None
    backlog.resolve()
    assert robot.lookups == 12
    backlog.resolve()
    assert robot.lookups == 12


def test_what_is_older_than_all_transforms_is_told_at_once() -> None:
    def lookup(message: Message) -> tuple[Message, Transform, None]:
        raise TransformTooOldError('too old')

    backlog = Backlog(lookup)
    backlog.push(a_message(1.0, []))
    (lost,) = backlog.resolve()
    backlog.remove(lost)
    assert backlog.first() is None
    assert isinstance(lost.refusal, TransformTooOldError)


def test_another_failure_of_the_source_is_not_hidden() -> None:
    def lookup(message: Message) -> tuple[Message, Transform, None]:
        raise RuntimeError('broken')

    backlog = Backlog(lookup)
    backlog.push(a_message(1.0, []))
    with pytest.raises(RuntimeError, match='broken'):
        backlog.resolve()
