"""`~/episode` over DDS: what happens inside carries it, its end is remembered, a kill leaves it open."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.msg import Transition
from rclpy.qos import QoSProfile
from ros.harness import NODE, NodeProcess, Talker, spatial
from ros.test_inputs import pose
from ros.test_topics import LATCHED, heard
from rosgraph_msgs.msg import Clock

from hylo_memory_ros.msg import ErrorCode, MemoryEvent, MemoryFilter, MemoryItem, MemoryStatus
from hylo_memory_ros.srv import Changes, Episode, History, Purge, Receipt, Snapshot

pytestmark = pytest.mark.ros


@pytest.fixture(scope='module')
def parameters() -> dict[str, Any]:
    return {
        'publish_retrievals': True,
        'inputs': ['dock'],
        'input.dock.topic': 'dock',
        'input.dock.type': 'geometry_msgs/msg/PoseStamped',
        'input.dock.label': 'dock',
        'input.dock.reliability': 'reliable',
        'landmarks.confirm_n': 1,
        'landmarks.reorder_window_s': 0.0,
        'commit_interval_s': 60.0,
        'min_valid_stamp_s': 0.0,
    }


@pytest.fixture
def talker(shared: SimpleNamespace) -> Any:
    """No test leaves an episode open to the next."""
    yield shared.talker
    end(shared.talker, outcome='left open')


def begin(talker: Talker, id: str = '', **fields: Any) -> Any:
    return talker.call(Episode, 'episode', op=Episode.Request.BEGIN, id=id, **fields)


def end(talker: Talker, id: str = '', outcome: str = '', **fields: Any) -> Any:
    return talker.call(Episode, 'episode', op=Episode.Request.END, id=id, outcome=outcome, **fields)


def asked(talker: Talker, options: dict[str, Any], **fields: Any) -> list[str]:
    answer = talker.query(100, filter=MemoryFilter(options_json=json.dumps(options), **fields))
    assert answer.success, answer.message
    return [hit.item.key or hit.item.content for hit in answer.hits]


def test_who_asks_is_told_in_the_feed(talker: Talker) -> None:
    events = heard(talker, MemoryEvent, f'{NODE}/events')
    assert begin(talker, 'whose', actor='mission').success
    assert talker.write(spatial('whose-cup', 1.0, content='a cup'), actor='planner').success
    assert end(talker, 'whose', 'success', actor='operator').success
    talker.spin_until(lambda: {event.actor for event in events} >= {'mission', 'planner', 'operator'})


def test_from_begin_to_end(talker: Talker) -> None:
    events = heard(talker, MemoryEvent, f'{NODE}/events')
    before = talker.query(k=0).sequence
    begun = begin(talker, 'fetch-1', scope=['task_id=fetch', 'robot_id=r1'], note='bring the cup')
    assert (begun.success, begun.id, begun.message) == (True, 'fetch-1', '')
    assert talker.write(spatial('fetch-cup', 1.0, content='a cup')).success
    answer = talker.query(filter=MemoryFilter(keys=['fetch-cup']), receipt=True, explain=True)
    assert json.loads(answer.hits[0].details_json)['episode'] == 'fetch-1'
    ended = end(talker, 'fetch-1', 'success', note='it was on the table')
    assert (ended.success, ended.id) == (True, 'fetch-1')
    assert ended.message.endswith(f'remembered at sequence {before + 3}')

    retrieval = ('retrieval', 'fetch-1', answer.receipt_id)
    talker.spin_until(
        lambda: retrieval in {(event.op, event.episode, event.receipt_id) for event in events},
        'retrieval',
    )
    feed = talker.call(Changes, 'changes', after_sequence=before).events
    assert [(event.op, event.episode) for event in feed] == [
        ('begin_episode', 'fetch-1'), ('write', 'fetch-1'), ('end_episode', 'fetch-1'),
    ]  # fmt: skip
    receipt = talker.call(Receipt, 'receipt', id=answer.receipt_id).receipt_json
    assert json.loads(receipt)['episode'] == 'fetch-1'

    (version,) = talker.call(History, 'history', key='fetch-cup').versions
    assert json.loads(version.hit.details_json) == {'episode': 'fetch-1'}
    (hit,) = talker.query(filter=MemoryFilter(keys=['episode/fetch-1']), include=['payload']).hits
    assert hit.item.kind == MemoryItem.EPISODIC
    assert set(hit.item.scope) == {'task_id=fetch', 'robot_id=r1', 'episode_id=fetch-1'}
    payload = json.loads(hit.item.payload_json)
    assert (payload['outcome'], payload['counts'], payload['retrievals']) == ('success', {'ADD': 1}, 1)
    assert 'bring the cup it was on the table' in hit.item.content


def test_it_is_asked_for_by_name_outcome_and_time(talker: Talker) -> None:
    for name, outcome in (('one', 'landed'), ('two', 'crashed'), ('three', 'landed')):
        assert begin(talker, name).success
        assert talker.write(spatial(f'seen-{name}', 5.0)).success
        assert end(talker, outcome=outcome).success
    assert set(asked(talker, {'episode': 'two'}, kinds=['spatial'])) == {'seen-two'}
    assert set(asked(talker, {'outcome': 'landed'}, kinds=['spatial'])) == {'seen-one', 'seen-three'}
    assert asked(talker, {'outcome': 'landed', 'episode': 'two'}) == []
    (hit,) = talker.query(filter=MemoryFilter(keys=['episode/two'])).hits
    window = {'time_start': hit.item.event_start, 'time_end': hit.item.event_end}
    assert asked(talker, {}, kinds=['episodic'], labels=['episode'], **window) == ['episode/two']
    before = talker.call(Changes, 'changes', after_sequence=hit.sequence - 2).events[0].sequence
    assert asked(talker, {'outcome': 'crashed'}, known_seq=before) == []


@pytest.mark.parametrize(
    ('fields', 'code', 'named'),
    [
        ({'op': 'pause'}, ErrorCode.INVALID_FIELD, "op: 'pause'"),
        ({'op': ''}, ErrorCode.INVALID_FIELD, "op: ''"),
        ({'op': 'end', 'outcome': 'x'}, ErrorCode.INVALID_FIELD, 'end_episode: none is open'),
        ({'op': 'end', 'id': 'nobody', 'outcome': 'x'}, ErrorCode.NOT_FOUND, 'id: there is no episode'),
        ({'op': 'end', 'id': 'over', 'outcome': 'x'}, ErrorCode.INVALID_FIELD, "id: 'over' has ended before"),
        ({'op': 'end', 'outcome': ''}, ErrorCode.INVALID_FIELD, "outcome: '' is blank"),
        ({'op': 'end', 'outcome': 'x', 'scope': ['a=b']}, ErrorCode.INVALID_FIELD, "scope: ['a=b']"),
        ({'op': 'begin', 'id': 'over'}, ErrorCode.INVALID_FIELD, "id: 'over' was the name"),
        ({'op': 'begin', 'id': 'a\nb'}, ErrorCode.INVALID_FIELD, 'id: '),
        ({'op': 'begin', 'id': ' '}, ErrorCode.INVALID_FIELD, 'id: '),
        ({'op': 'begin', 'id': 'x' * 257}, ErrorCode.INVALID_FIELD, 'id: '),
        ({'op': 'begin', 'id': 'a\N{REPLACEMENT CHARACTER}'}, ErrorCode.INVALID_FIELD, 'id: '),
        ({'op': 'begin', 'note': 'x' * 16385}, ErrorCode.TOO_LARGE, 'note: 16385'),
        ({'op': 'begin', 'outcome': 'won'}, ErrorCode.INVALID_FIELD, "outcome: 'won'"),
        ({'op': 'begin', 'scope': ['task']}, ErrorCode.INVALID_FIELD, 'scope[0]'),
        ({'op': 'begin', 'scope': ['a=b', 'a=c']}, ErrorCode.INVALID_FIELD, "scope: 'a' is both"),
        ({'op': 'begin', 'scope': ['=c']}, ErrorCode.INVALID_FIELD, 'scope: '),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(
    talker: Talker, fields: dict[str, Any], code: int, named: str
) -> None:
    if begin(talker, 'over').success:
        end(talker, outcome='success')
    before = talker.query(k=0).sequence
    answer = talker.call(Episode, 'episode', **fields)
    assert (answer.success, answer.error_code, answer.id) == (False, code, ''), answer.message
    assert answer.message.startswith(named)
    assert talker.query(k=0).sequence == before


def test_at_most_one_is_open(talker: Talker) -> None:
    first = begin(talker)
    assert first.id.startswith('episode-')
    second = begin(talker, 'second')
    assert (second.success, second.error_code) == (False, ErrorCode.INVALID_FIELD)
    assert f"'{first.id}' is open" in second.message
    assert end(talker, 'second', 'x').error_code == ErrorCode.NOT_FOUND
    assert end(talker, first.id, 'success').success


def test_an_option_that_names_no_episode_is_refused(talker: Talker) -> None:
    for options in ('{"episode": " "}', '{"outcome": ""}', '{"episode": 1}', '{"outcome": null}'):
        answer = talker.query(filter=MemoryFilter(options_json=options))
        assert (answer.success, answer.error_code) == (False, ErrorCode.INVALID_FIELD), answer.message
        assert answer.message.startswith('filter.options_json')


def test_what_perception_saw_counts_to_the_side_on_which_it_came(talker: Talker) -> None:
    """The node commits it by itself only every minute here."""
    dock = talker.node.create_publisher(PoseStamped, '/dock', QoSProfile(depth=20))
    statuses = heard(talker, MemoryStatus, f'{NODE}/status', LATCHED)
    talker.spin_until(dock.get_subscription_count, 'subscription')

    def seen(x: float) -> None:
        first = round(1000 + 100 * x)
        for second in range(first, first + 4):
            dock.publish(pose(second, x))
        last_ns = (first + 3) * 10**9
        talker.spin_until(lambda: statuses and statuses[-1].watermark_ns[0] >= last_ns, 'watermark')

    def docks(**options: Any) -> list[float]:
        asked = MemoryFilter(labels=['dock'], options_json=json.dumps(options))
        return sorted(round(hit.item.pose.position.x) for hit in talker.query(filter=asked).hits)

    seen(1.0)
    assert begin(talker, 'watch').success
    seen(11.0)
    assert end(talker, 'watch', 'success').success
    assert (docks(), docks(episode='watch')) == ([1, 11], [11])


def test_a_purge_takes_what_an_episode_kept_of_it(talker: Talker, shared: SimpleNamespace) -> None:
    assert begin(talker, 'visit', note='zebrafield').success
    assert talker.write(spatial('zebrafield', 1.0, content='zebrafield lives here')).success
    assert end(talker, outcome='success').success
    # The item, the key event about it, and the summary, which repeats a note that names it.
    assert talker.call(Purge, 'purge', filter=MemoryFilter(keys=['zebrafield'])).count == 3
    talker.call(Snapshot, 'snapshot')
    left = [path.name for path in shared.folder.glob('memory.db*') if b'zebrafield' in path.read_bytes()]
    assert left == []


def test_an_open_one_outlives_a_kill_and_a_cleanup(ros_domain: int, tmp_path: Path) -> None:
    with Talker(ros_domain) as talker, NodeProcess(tmp_path, ros_domain) as first:
        talker.activate()
        assert begin(talker, 'long', scope=['task_id=t']).success
        first.process.kill()
        first.process.wait()
    with NodeProcess(tmp_path, ros_domain, name='again') as again, Talker(ros_domain) as talker:
        again.wait_for_log('hylo_memory')
        talker.activate()
        assert "'long' is open" in begin(talker, 'next').message
        assert talker.change_state(Transition.TRANSITION_DEACTIVATE)
        refused = end(talker, outcome='x')
        assert (refused.success, refused.error_code) == (False, ErrorCode.NOT_ACTIVE)
        assert talker.change_state(Transition.TRANSITION_CLEANUP)
        talker.activate()
        assert talker.write(spatial('after', 1.0)).success
        assert end(talker, 'long', 'success').success
        assert set(asked(talker, {'outcome': 'success'}, kinds=['spatial'])) == {'after'}
        assert again.ended() == 0, again.log


def test_by_parameter_it_was_interrupted_and_none_begins_before_the_clock(
    ros_domain: int, tmp_path: Path
) -> None:
    parameters = {'episode_at_restart': 'interrupt', 'use_sim_time': True, 'min_valid_stamp_s': 0.0}
    with NodeProcess(tmp_path, ros_domain, parameters) as process, Talker(ros_domain) as talker:
        talker.activate()
        refused = begin(talker, 'early')
        assert (refused.success, refused.error_code) == (False, ErrorCode.CLOCK)
        publisher = talker.node.create_publisher(Clock, '/clock', QoSProfile(depth=10))
        talker.spin_until(publisher.get_subscription_count, 'clock')

        def tick(sec: int) -> None:
            msg = Clock()
            msg.clock.sec = sec
            publisher.publish(msg)

        def begins() -> bool:
            # Sent again each time: the publisher may be matched before the node's subscription is.
            tick(100)
            return begin(talker, 'run').success

        talker.spin_until(begins, 'clock')
        assert talker.change_state(Transition.TRANSITION_DEACTIVATE)
        assert talker.change_state(Transition.TRANSITION_CLEANUP)
        talker.activate()
        assert set(asked(talker, {'outcome': 'interrupted'})) == {'episode/run'}
        tick(150)
        assert begin(talker, 'next').success
        assert process.ended() == 0, process.log
