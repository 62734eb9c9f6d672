"""Transitions: all of them, many times, under load, with what cannot be configured, and impossible ones."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from lifecycle_msgs.msg import State, Transition
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from ros.harness import NODE, NodeProcess, Talker, held_domain, spatial, wait_until
from support.effort import scaled
from vision_msgs.msg import Detection3D, Detection3DArray, ObjectHypothesisWithPose

from hylo_memory_ros.msg import ErrorCode
from hylo_memory_ros.srv import Query, Write

pytestmark = pytest.mark.ros
T = Transition
INPUT = {
    'inputs': ['front'],
    'input.front.topic': 'boxes',
    'input.front.type': 'vision_msgs/msg/Detection3DArray',
    'input.front.reliability': 'reliable',
}


def set_parameter(talker: Talker, name: str, value: Any) -> Any:
    request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
    return talker.call(SetParameters, f'{NODE}/set_parameters', request).results[0]


def detections(stamp_ns: int, count: int = 3) -> Detection3DArray:
    array = Detection3DArray()
    array.header.frame_id = 'map'
    array.header.stamp.sec, array.header.stamp.nanosec = divmod(stamp_ns, 10**9)
    for index in range(count):
        result = ObjectHypothesisWithPose()
        result.hypothesis.class_id, result.hypothesis.score = 'cup', 0.9
        result.pose.pose.position.x = 1.0 + 5.0 * index
        array.detections.append(Detection3D(header=array.header, results=[result]))
    return array


def test_every_transition_many_times_with_input_at_100_hz_and_writes_in_flight(
    ros_domain: int, tmp_path: Path
) -> None:
    with NodeProcess(tmp_path, ros_domain, INPUT) as process, Talker(ros_domain) as talker:
        publisher = talker.node.create_publisher(Detection3DArray, 'boxes', QoSProfile(depth=10))
        clock = talker.node.get_clock()
        talker.node.create_timer(0.01, lambda: publisher.publish(detections(clock.now().nanoseconds)))
        in_flight: list[Any] = []

        def send() -> None:
            client = talker.node.create_client(Write, f'{NODE}/write') if not in_flight else in_flight[0][0]
            if client.service_is_ready():
                in_flight.append(
                    (client, client.call_async(Write.Request(items=[spatial('k', len(in_flight))])))
                )

        talker.node.create_timer(0.02, send)
        family = psutil.Process(process.process.pid)
        measured = []
        cycles = scaled(50)
        for cycle in range(cycles):
            for transition in (
                T.TRANSITION_CONFIGURE,
                T.TRANSITION_ACTIVATE,
                T.TRANSITION_DEACTIVATE,
                T.TRANSITION_CLEANUP,
            ):
                assert talker.change_state(transition), (cycle, transition, process.log)
            if cycle in (cycles // 5, cycles - 1):
                services = talker.node.get_service_names_and_types_by_node('hylo_memory', '/')
                measured.append(
                    (family.num_threads(), family.memory_info().rss, len(services), family.num_fds())
                )
        answers = [future.result() for _, future in in_flight if future.done()]

        assert process.alive
        assert talker.state() == State.PRIMARY_STATE_UNCONFIGURED
        assert {answer.error_code for answer in answers} <= {ErrorCode.OK, ErrorCode.NOT_ACTIVE}
        (threads, rss, services, files), (threads_then, rss_then, services_then, files_then) = measured
        assert threads_then <= threads + 1
        assert services_then == services
        assert files_then <= files + 4
        assert rss_then - rss < 20_000_000
        talker.activate()
        assert talker.query().success
        assert process.ended() == 0
        assert 'Traceback' not in process.log, process.log


@pytest.fixture(scope='module')
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A node that is not configured, for the tests that leave it so."""
    folder = tmp_path_factory.mktemp('bare')
    with held_domain() as domain, NodeProcess(folder, domain, INPUT) as process, Talker(domain) as talker:
        yield SimpleNamespace(process=process, talker=talker, folder=folder, database=str(process.database))
        assert process.ended() == 0
        assert 'Traceback' not in process.log, process.log


@pytest.fixture
def unconfigured(bare: SimpleNamespace) -> Iterator[SimpleNamespace]:
    """The same, put back into its state after the test."""
    bare.said = len(bare.process.log)
    yield bare
    assert bare.process.alive, bare.process.log
    for transition in (T.TRANSITION_DEACTIVATE, T.TRANSITION_CLEANUP):
        bare.talker.change_state(transition)
    assert bare.talker.state() == State.PRIMARY_STATE_UNCONFIGURED
    for name, value in {**INPUT, 'database_path': bare.database, 'input.front.optional': False}.items():
        assert set_parameter(bare.talker, name, value).successful, name


def refused(node: SimpleNamespace) -> str:
    """Have configure fail; return what was logged about it."""
    assert not node.talker.change_state(T.TRANSITION_CONFIGURE)
    assert node.talker.state() == State.PRIMARY_STATE_UNCONFIGURED
    return node.process.log[node.said :]


def test_an_impossible_transition_is_answered_and_changes_nothing(unconfigured: SimpleNamespace) -> None:
    with contextlib.nullcontext(unconfigured.talker) as talker:
        for transition in (T.TRANSITION_CLEANUP, T.TRANSITION_ACTIVATE, T.TRANSITION_DEACTIVATE, 99, 0):
            assert not talker.change_state(transition)
        assert talker.state() == State.PRIMARY_STATE_UNCONFIGURED
        talker.activate()
        assert not talker.change_state(T.TRANSITION_ACTIVATE)
        assert not talker.change_state(T.TRANSITION_CONFIGURE)
        assert talker.state() == State.PRIMARY_STATE_ACTIVE
        assert talker.query().success


def test_services_say_that_they_are_not_active(unconfigured: SimpleNamespace) -> None:
    with contextlib.nullcontext(unconfigured.talker) as talker:
        assert set_parameter(talker, 'database_path', ':memory:').successful
        assert talker.change_state(T.TRANSITION_CONFIGURE)
        answer = talker.write(spatial('a'))
        assert (answer.success, answer.error_code) == (False, ErrorCode.NOT_ACTIVE)
        assert talker.change_state(T.TRANSITION_ACTIVATE)
        assert talker.write(spatial('a')).success
        assert talker.change_state(T.TRANSITION_DEACTIVATE)
        assert talker.query().error_code == ErrorCode.NOT_ACTIVE
        assert talker.change_state(T.TRANSITION_ACTIVATE)
        talker.wait_active()
        assert talker.query().total == 1
        assert talker.change_state(T.TRANSITION_DEACTIVATE)
        assert talker.change_state(T.TRANSITION_CLEANUP)
        talker.spin_until(lambda: not talker.client_is_ready('query'), 'end of the services')


def test_a_cleanup_leaves_no_request_without_an_answer(unconfigured: SimpleNamespace) -> None:
    with contextlib.nullcontext(unconfigured.talker) as talker:
        talker.activate()
        # Once answered, client and service have found each other.
        assert talker.write(spatial('first')).success
        client = talker.client(Write, f'{NODE}/write')
        # As many as a client keeps replies for: it was made with the usual depth of ten.
        asked = [client.call_async(Write.Request(items=[spatial(f'before/{n}')])) for n in range(5)]
        assert talker.change_state(T.TRANSITION_DEACTIVATE)
        asked += [client.call_async(Write.Request(items=[spatial(f'after/{n}')])) for n in range(5)]
        assert talker.change_state(T.TRANSITION_CLEANUP)
        talker.spin_until(lambda: all(one.done() for one in asked), 'every answer')
        assert {one.result().error_code for one in asked} <= {ErrorCode.OK, ErrorCode.NOT_ACTIVE}


def test_a_lifecycle_shutdown_ends_the_process_in_order(ros_domain: int, tmp_path: Path) -> None:
    with NodeProcess(tmp_path, ros_domain) as process, Talker(ros_domain) as talker:
        talker.activate()
        talker.write(spatial('a'))
        assert talker.change_state(T.TRANSITION_ACTIVE_SHUTDOWN)
        assert process.exit_code() == 0
        assert 'Traceback' not in process.log
        wal = Path(f'{process.database}-wal')
        assert not wal.exists() or wal.stat().st_size == 0


def test_memory_outlives_a_restart(ros_domain: int, tmp_path: Path) -> None:
    for expected in (0, 1):
        with NodeProcess(tmp_path, ros_domain, {'autostart': True}) as process, Talker(ros_domain) as talker:
            talker.wait_active()
            assert talker.query().total == expected, process.log
            assert talker.write(spatial('a', 1.0)).success
            assert process.ended() == 0


@pytest.mark.parametrize('case', ['folder', 'empty', 'half', 'foreign', 'text'])
def test_a_file_that_is_no_memory_fails_configure_and_stays_as_it_is(
    unconfigured: SimpleNamespace, tmp_path: Path, case: str
) -> None:
    path, talker = tmp_path / 'given', unconfigured.talker
    if case == 'folder':
        path.mkdir()
    elif case == 'empty':
        path.touch()
    elif case == 'text':
        path.write_text('not a database, but long enough to be one' * 100)
    else:
        connection = sqlite3.connect(path)
        connection.execute('create table t (a)')
        connection.close()
        if case == 'half':
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    before = None if case == 'folder' else path.read_bytes()
    assert set_parameter(talker, 'database_path', str(path)).successful

    assert str(path) in refused(unconfigured)

    assert (None if path.is_dir() else path.read_bytes()) == before
    assert set_parameter(talker, 'database_path', str(tmp_path / 'good.db')).successful
    talker.activate()
    assert talker.write(spatial('a')).success
    assert not set_parameter(talker, 'database_path', 'x').successful, 'it is in use'


def test_a_folder_that_cannot_be_made_fails_configure(unconfigured: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / 'file').touch()
    path = tmp_path / 'file' / 'below' / 'm.db'
    assert set_parameter(unconfigured.talker, 'database_path', str(path)).successful

    assert str(path) in refused(unconfigured)


@pytest.mark.skipif(os.geteuid() == 0, reason='root may write into any folder')
def test_a_read_only_folder_fails_configure(unconfigured: SimpleNamespace, tmp_path: Path) -> None:
    folder = tmp_path / 'locked'
    folder.mkdir(mode=0o555)
    assert set_parameter(unconfigured.talker, 'database_path', str(folder / 'm.db')).successful

    assert str(folder) in refused(unconfigured)


def test_a_skill_directory_that_cannot_be_made_fails_configure(unconfigured: SimpleNamespace) -> None:
    assert set_parameter(unconfigured.talker, 'skill_directory', '/dev/null/skills').successful

    assert 'skill_directory: /dev/null/skills cannot be written' in refused(unconfigured)
    assert set_parameter(unconfigured.talker, 'skill_directory', '').successful


def test_an_autostart_that_fails_says_how_to_go_on(ros_domain: int, tmp_path: Path) -> None:
    parameters = {
        'autostart': True, 'retention.episodic.max_items': 5, 'consolidate_below_battery': 0.2,
        'battery_topic': 'bad topic!',
    }  # fmt: skip
    with NodeProcess(tmp_path, ros_domain, parameters) as process, Talker(ros_domain) as talker:
        process.wait_for_log("configure failed: battery_topic: 'bad topic!' is not the name of a topic")
        (line,) = (line for line in process.log.splitlines() if 'configure failed' in line)
        assert f'fix it (ros2 param set {NODE} ...), then: ros2 lifecycle set {NODE} configure' in line
        assert 'Traceback' not in process.log
        assert set_parameter(talker, 'battery_topic', 'battery').successful
        talker.activate()


@pytest.mark.parametrize('optional', [False, True])
def test_an_input_of_a_type_that_nothing_reads(unconfigured: SimpleNamespace, optional: bool) -> None:
    for name, value in {
        'input.front.type': 'visin_msgs/msg/Detection3DArray',
        'input.front.optional': optional,
    }.items():
        assert set_parameter(unconfigured.talker, name, value).successful

    assert "input.front.type: 'visin_msgs/msg/Detection3DArray'" in refused(unconfigured)


def test_wrong_types_in_a_file_fail_configure_by_name_and_can_be_mended(
    ros_domain: int, tmp_path: Path
) -> None:
    text = f"""
/**:
  ros__parameters:
    database_path: {tmp_path / 'memory.db'}
    tf_timeout_s: "0.5"
    commit_interval_s: -0.1
    consolidate_interval_s: .nan
    status_interval_s: .inf
    receipt_retention: 1.5
    identity_scope: [0, 0]
    consolidate_below_battery: 0
"""
    with NodeProcess(tmp_path, ros_domain, yaml_text=text) as process, Talker(ros_domain) as talker:
        assert not talker.change_state(T.TRANSITION_CONFIGURE)
        for said in (
            "tf_timeout_s: '0.5' is not a number",
            'commit_interval_s: -0.1 is not a number > 0',
            'consolidate_interval_s: nan is not a number',
            'status_interval_s: inf is not a number',
            'receipt_retention: 1.5 is not an integer',
            'identity_scope: [0, 0] is not a list of strings',
        ):
            assert said in process.log, process.log
        assert 'consolidate_below_battery' not in process.log
        assert 'Traceback' not in process.log
        for name, value in {
            'tf_timeout_s': 0.5, 'commit_interval_s': 1, 'consolidate_interval_s': 0.0,
            'status_interval_s': 0.2, 'receipt_retention': 2, 'identity_scope': ['map_id'],
        }.items():  # fmt: skip
            assert set_parameter(talker, name, value).successful, name
        talker.activate()


def test_a_file_that_is_no_yaml_ends_the_process_with_a_sentence(ros_domain: int, tmp_path: Path) -> None:
    with NodeProcess(
        tmp_path, ros_domain, yaml_text='/**:\n  ros__parameters:\n    a: [0, 0.5]\n'
    ) as process:
        assert process.exit_code(20.0) == 1
        assert 'node.yaml' in process.log
        assert 'Traceback' not in process.log


def test_two_nodes_on_one_file_the_second_fails_and_names_the_first(ros_domain: int, tmp_path: Path) -> None:
    second_arguments = ('-r', '__node:=second')
    with (
        NodeProcess(tmp_path, ros_domain) as first,
        NodeProcess(tmp_path, ros_domain, name='second', arguments=second_arguments) as second,
        Talker(ros_domain) as talker,
    ):
        talker.activate()
        assert not talker.change_state(T.TRANSITION_CONFIGURE, node='/second')
        assert str(first.process.pid) in second.log
        assert str(first.database) in second.log
        names = {name for name, _ in talker.node.get_service_names_and_types()}
        assert '/second/query' not in names, 'a node that failed to configure must not answer'
        assert talker.write(spatial('a')).success

        first.process.kill()
        first.process.wait()
        # The lock of a killed node is stale, and is taken over.
        assert talker.change_state(T.TRANSITION_CONFIGURE, node='/second')
        assert talker.change_state(T.TRANSITION_ACTIVATE, node='/second')
        wait_until(lambda: 'active' in second.log)
        assert talker.call(Query, '/second/query', Query.Request()).total == 1
