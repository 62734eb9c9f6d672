"""What the node keeps within limits: working memory and its evictions, fill levels, battery, shutdown."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from ros.harness import NODE, NodeProcess, Talker, held_domain, spatial
from sensor_msgs.msg import BatteryState

from hylo_memory_ros.errors import ConfigurationError
from hylo_memory_ros.msg import ErrorCode, MemoryEvent, MemoryFilter, MemoryItem
from hylo_memory_ros.parameters import ParameterFile
from hylo_memory_ros.ros.convert.fields import stamp_msg
from hylo_memory_ros.srv import Changes, Forget

pytestmark = pytest.mark.ros
WORKING = MemoryFilter(kinds=['working'])
DAY_S = 1_600_000_000


@pytest.fixture(scope='module')
def parameters() -> dict[str, Any]:
    return {
        'working_capacity': 4,
        'map_id': 'floor',
        'retention.spatial.max_items': 10,
        'retention.episodic.max_items': 40,
        'battery_topic': 'battery',
        'consolidate_below_battery': 0.2,
    }


def goal(key: str, content: str = 'x') -> MemoryItem:
    return MemoryItem(kind='working', key=key, content=content)


def event(number: int) -> MemoryItem:
    stamp = stamp_msg((DAY_S + number) * 10**9)
    return MemoryItem(kind='episodic', content=f'visit {number}', event_start=stamp, valid_from=stamp)


def keys(talker: Talker, filter: MemoryFilter = WORKING, **fields: Any) -> set[str]:
    return {hit.item.key for hit in talker.query(100, filter, **fields).hits}


def heard(talker: Talker, kind: Any, topic: str) -> list[Any]:
    messages: list[Any] = []
    subscription = talker.node.create_subscription(kind, topic, messages.append, 1000)
    talker.spin_until(lambda: talker.node.count_publishers(subscription.topic_name), topic)
    talker.spin_for(0.3)
    return messages


def diagnosed(talker: Talker, arrays: list[Any], condition: Callable[[str, dict[str, str]], bool]) -> Any:
    """Wait for diagnostics of which something is true; return the status."""

    def met() -> Any:
        status = arrays[-1].status[0] if arrays else None
        if status and condition(status.message, {pair.key: pair.value for pair in status.values}):
            return status
        return None

    return talker.spin_until(met, 'such diagnostics')


def test_evictions_are_events_at_the_sequence_that_was_read_and_not_in_the_feed(
    shared: SimpleNamespace,
) -> None:
    talker: Talker = shared.talker
    events = heard(talker, MemoryEvent, f'{NODE}/events')
    sequence = talker.write(spatial('here')).sequence
    ids = [talker.write(goal(f'g{n}')).ids[0] for n in range(8)]
    talker.spin_until(lambda: len(events) >= 5, 'evictions')
    assert [(told.op, told.sequence, list(told.ids)) for told in events[1:]] == [
        ('evict', sequence, [ids[n]]) for n in range(4)
    ]
    assert (list(events[1].keys), list(events[1].outcomes)) == (['g0'], ['EVICT'])
    assert events[1].header.stamp.sec > 0
    assert keys(talker) == {'g4', 'g5', 'g6', 'g7'}
    assert list(talker.call(Changes, 'changes', after_sequence=sequence).events) == []


def test_evictions_that_are_too_many_for_a_message_come_in_several(tmp_path: Path, ros_domain: int) -> None:
    parameters = {'working_capacity': 64, 'reply_limit_bytes': 4096}
    with NodeProcess(tmp_path, ros_domain, parameters), Talker(ros_domain) as talker:
        talker.activate()
        events = heard(talker, MemoryEvent, f'{NODE}/events')
        names = [f'{n:03} {"k" * 400}' for n in range(128)]
        for half in (names[:64], names[64:]):
            assert talker.write(*(goal(name) for name in half)).success
        told = talker.spin_until(lambda: sum(len(event.keys) for event in events) >= 64 and events)
        assert [key for event in told for key in event.keys] == names[:64]


def test_an_item_that_is_too_large_is_refused_with_its_size(shared: SimpleNamespace) -> None:
    answer = shared.talker.write(spatial('beside'), goal('large', 'x' * 66_000))
    assert (answer.success, answer.error_code) == (False, ErrorCode.TOO_LARGE)
    assert answer.message.startswith('items[1]: 66')
    assert 'working_item_bytes 65536' in answer.message
    assert not keys(shared.talker, MemoryFilter(keys=['beside', 'large']))


def test_a_question_about_the_past_is_told_that_there_is_no_history(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    talker.write(goal('now'))
    past = talker.query(10, MemoryFilter(kinds=['working'], as_of=stamp_msg(DAY_S * 10**9)))
    assert past.message.startswith('working memory keeps no history')
    assert (len(past.hits), past.excluded_reasons) == (0, ['not_yet_valid'])
    before = talker.query(10, MemoryFilter(kinds=['working'], known_at=stamp_msg(DAY_S * 10**9)))
    assert before.message.startswith('working memory keeps no history')
    assert before.excluded_reasons == ['working_keeps_no_history']
    assert talker.query(10, WORKING).message == ''


def test_it_survives_deactivate_and_not_cleanup(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    talker.call(Forget, 'forget', filter=WORKING)
    talker.write(goal('kept'))
    assert talker.change_state(Transition.TRANSITION_DEACTIVATE)
    assert talker.write(goal('refused')).error_code == ErrorCode.NOT_ACTIVE
    assert talker.change_state(Transition.TRANSITION_ACTIVATE)
    assert keys(talker) == {'kept'}
    assert talker.change_state(Transition.TRANSITION_DEACTIVATE)
    assert talker.change_state(Transition.TRANSITION_CLEANUP)
    talker.activate()
    assert keys(talker) == set()


def test_what_holds_is_never_dropped_and_a_limit_is_warned_of_before_it_is_reached(
    shared: SimpleNamespace,
) -> None:
    talker: Talker = shared.talker
    arrays = heard(talker, DiagnosticArray, '/diagnostics')
    talker.call(Forget, 'forget', filter=MemoryFilter(kinds=['spatial']))
    held = int(
        {
            pair.key: pair.value
            for pair in diagnosed(talker, arrays, lambda _, values: 'fill spatial' in values).values
        }['fill spatial'].split()[0]
    )
    talker.write(*[spatial(f'p{n}', n) for n in range(9 - held)])
    status = diagnosed(talker, arrays, lambda message, _: 'spatial: 9 of 10 items (90 %)' in message)
    assert status.level == DiagnosticStatus.WARN
    talker.write(*[spatial(f'q{n}', n) for n in range(20)])
    status = diagnosed(talker, arrays, lambda message, _: 'nothing that holds is dropped' in message)
    assert status.level == DiagnosticStatus.WARN
    assert talker.query(0, MemoryFilter(kinds=['spatial'])).total >= 20
    shared.process.wait_for_log('nothing that holds is dropped')


def test_over_a_limit_events_are_condensed_and_nothing_is_lost(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    arrays = heard(talker, DiagnosticArray, '/diagnostics')
    sequence = talker.write(*[event(number) for number in range(60)]).sequence
    status = diagnosed(
        talker,
        arrays,
        lambda _, values: values.get('last consolidation', '').startswith('episodic over a limit'),
    )
    held = {pair.key: pair.value for pair in status.values}['fill episodic']
    assert int(held.split()[0]) <= 28
    assert talker.query(0, MemoryFilter(kinds=['episodic'], known_seq=sequence)).total == 60


def test_a_low_battery_consolidates_once_in_a_discharge(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    arrays = heard(talker, DiagnosticArray, '/diagnostics')
    battery = talker.node.create_publisher(BatteryState, 'battery', 10)
    talker.spin_until(battery.get_subscription_count, 'subscription')
    talker.write(*[event(number) for number in range(100, 112)])
    for part in (float('nan'), 80.0, -1.0, 0.9, 0.21):
        battery.publish(BatteryState(percentage=part))
    shared.process.wait_for_log('percentage 80 is not between 0 and 1')
    talker.spin_for(0.5)
    assert 'low battery' not in shared.process.log
    battery.publish(BatteryState(percentage=0.2))
    diagnosed(
        talker, arrays, lambda _, values: values.get('last consolidation', '').startswith('low battery')
    )
    talker.write(*[event(number) for number in range(200, 212)])
    for _ in range(3):
        battery.publish(BatteryState(percentage=0.1))
    talker.spin_for(0.5)
    assert shared.process.log.count('consolidated (low battery') == 1


def held_in(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT statements FROM held WHERE kind = 'episodic'").fetchone()[0])


@pytest.mark.parametrize('asked', [False, True])
def test_a_shutdown_consolidates_only_if_asked_and_ends_in_time(tmp_path: Path, asked: bool) -> None:
    limits = {'retention.episodic.max_items': 100, 'consolidate_at_shutdown': asked}
    with held_domain() as domain, NodeProcess(tmp_path, domain, limits) as process, Talker(domain) as talker:
        talker.activate()
        assert talker.write(*[event(number) for number in range(90)]).success
        assert process.ended() == 0
        assert 'Traceback' not in process.log
        assert (held_in(process.database) <= 70) is asked


def test_a_schedule_consolidates_before_a_limit_is_reached(tmp_path: Path) -> None:
    limits = {'retention.episodic.max_items': 100, 'consolidate_interval_s': 0.5}
    with held_domain() as domain, NodeProcess(tmp_path, domain, limits) as process, Talker(domain) as talker:
        talker.activate()
        assert talker.write(*[event(number) for number in range(90)]).success
        process.wait_for_log('consolidated (schedule: episodic from 90 to ')
        assert process.ended() == 0


@pytest.mark.parametrize(
    ('wrong', 'told'),
    [
        ({'retention.episodic.max_items': -1}, 'retention.episodic.max_items: -1 is not an integer >= 0'),
        ({'retention.spatial.max_bytes': 1.5}, 'retention.spatial.max_bytes: 1.5 is not an integer >= 0'),
        ({'retention.semantic.max_age_s': -1}, 'retention.semantic.max_age_s: -1 is not a number >= 0'),
        ({'working_capacity': 0}, 'working_capacity: 0 is not an integer >= 1'),
        ({'working_limit_bytes': 10}, 'working_item_bytes: 65536 is more than working_limit_bytes 10'),
        (
            {'consolidate_below_battery': 20.0},
            'consolidate_below_battery: 20.0 is not a number >= 0 and <= 1',
        ),
        ({'consolidate_at_shutdown': True}, 'consolidate_at_shutdown: True, but there is no retention limit'),
        ({'consolidate_interval_s': 5.0}, 'consolidate_interval_s: 5.0, but there is no retention limit'),
        (
            {'consolidate_below_battery': 0.2, 'retention.semantic.max_items': 5},
            'consolidate_below_battery: 0.2, but battery_topic names none',
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_configure_by_name(wrong: dict[str, Any], told: str) -> None:
    given = ParameterFile('/hylo_memory')
    for name, value in wrong.items():
        given.values[name] = value
    with pytest.raises(ConfigurationError) as refused:
        given.configuration()
    assert told in str(refused.value)
