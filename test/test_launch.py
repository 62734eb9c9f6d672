"""The launch file starts the node, brings it up, and ends it; where launch is installed."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

launch_pytest = pytest.importorskip(
    'launch_pytest',
    reason='launch is not installed here: there are no wheels of it (a ROS installation has it)',
)

from launch.actions import IncludeLaunchDescription  # noqa: E402
from launch.launch_description_sources import (  # noqa: E402
    PythonLaunchDescriptionSource,
    get_launch_description_from_python_launch_file,
)
from launch_pytest.actions import ReadyToTest  # noqa: E402
from lifecycle_msgs.msg import State  # noqa: E402
from ros.harness import Talker, near  # noqa: E402

from hylo_memory_ros.msg import MemoryItem  # noqa: E402
from hylo_memory_ros.srv import Query, Write  # noqa: E402
from launch import LaunchDescription  # noqa: E402

pytestmark = [
    pytest.mark.ros,
    # launch_pytest asks for one before there is one, which Python 3.12 warns of.
    pytest.mark.filterwarnings('ignore:There is no current event loop:DeprecationWarning'),
]
ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / 'launch' / 'memory.launch.py'


def included(**arguments: str) -> LaunchDescription:
    source = PythonLaunchDescriptionSource(str(FILE))
    return LaunchDescription(
        [IncludeLaunchDescription(source, launch_arguments=arguments.items()), ReadyToTest()]
    )


@launch_pytest.fixture
def in_a_namespace(ros_domain: int, tmp_path: Path) -> LaunchDescription:
    return included(namespace='robot1', database_path=str(tmp_path / 'm.db'), map_id='lab', log_level='warn')


@launch_pytest.fixture
def left_to_a_manager(ros_domain: int, tmp_path: Path) -> LaunchDescription:
    return included(autostart='false', database_path=str(tmp_path / 'm.db'))


@launch_pytest.fixture
def in_sim_time(ros_domain: int, tmp_path: Path) -> LaunchDescription:
    return included(use_sim_time='true', database_path=str(tmp_path / 'm.db'))


@pytest.mark.launch(fixture=in_a_namespace)
def test_the_node_is_brought_up_in_its_namespace(ros_domain: int) -> None:
    with Talker(ros_domain) as talker:
        talker.spin_until(lambda: talker.state('/robot1/hylo_memory') == State.PRIMARY_STATE_ACTIVE)
        item = MemoryItem(kind='spatial', key='mug', label='mug')
        item.header.frame_id = 'map'
        assert talker.call(Write, '/robot1/hylo_memory/write', items=[item]).success
        answer = talker.call(Query, '/robot1/hylo_memory/query', filter=near('map', 1.0))
        assert answer.hits[0].item.map_id == 'lab'


@pytest.mark.launch(fixture=left_to_a_manager)
def test_without_autostart_the_node_waits_for_a_manager(ros_domain: int) -> None:
    with Talker(ros_domain) as talker:
        assert talker.state() == State.PRIMARY_STATE_UNCONFIGURED
        talker.spin_for(1.0)
        assert talker.state() == State.PRIMARY_STATE_UNCONFIGURED
        talker.activate()


@pytest.mark.launch(fixture=in_sim_time)
def test_sim_time_accepts_stamps_of_any_year(ros_domain: int) -> None:
    with Talker(ros_domain) as talker:
        talker.wait_active()
        item = MemoryItem(kind='spatial', key='mug')
        item.header.frame_id, item.header.stamp.sec = 'map', 100
        answer = talker.write(item)
        assert answer.success, answer.message


def test_every_argument_has_a_description() -> None:
    description = get_launch_description_from_python_launch_file(str(FILE))
    arguments = {argument.name: argument for argument in description.get_launch_arguments()}

    assert set(arguments) == {
        'namespace', 'params_file', 'use_sim_time', 'autostart', 'log_level', 'transport', 'database_path',
        'map_id',
    }  # fmt: skip
    assert all(len(argument.description) > 20 for argument in arguments.values())


@pytest.mark.skipif(shutil.which('ros2') is None, reason='ros2 is not installed')
def test_a_parameter_file_that_is_not_there_is_refused() -> None:
    command = ['ros2', 'launch', str(FILE), 'params_file:=/none.yaml']
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode != 0
    assert "params_file: there is no file '/none.yaml'" in answer.stdout + answer.stderr


@pytest.fixture
def launched(ros_domain: int, tmp_path: Path) -> Iterator[Any]:
    """`ros2 launch` as a process, as users run it."""
    if shutil.which('ros2') is None:
        pytest.skip('ros2 is not installed')
    log = tmp_path / 'launch.log'
    with log.open('w') as out:
        process = subprocess.Popen(
            ['ros2', 'launch', str(FILE), f'database_path:={tmp_path / "m.db"}'],
            stdout=out, stderr=subprocess.STDOUT, env={**os.environ, 'ROS_LOG_DIR': str(tmp_path)},
        )  # fmt: skip
    process.text = log.read_text
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=15)


def test_typed_by_hand_it_starts_answers_and_ends(launched: Any, ros_domain: int, tmp_path: Path) -> None:
    with Talker(ros_domain) as talker:
        talker.wait_active()
    request = '{filter: {labels: [mug], near: {header: {frame_id: map}}, radius_m: 2.0}}'

    answer = subprocess.run(
        ['ros2', 'service', 'call', '/hylo_memory/query', 'hylo_memory_ros/srv/Query', request],
        capture_output=True, text=True, timeout=30, check=True,
    ).stdout  # fmt: skip

    assert 'success=True' in answer
    launched.send_signal(signal.SIGINT)
    launched.wait(timeout=10)
    assert 'process has finished cleanly' in launched.text(), launched.text()
    assert 'Traceback' not in launched.text()
    wal = tmp_path / 'm.db-wal'
    assert not wal.exists() or wal.stat().st_size == 0
