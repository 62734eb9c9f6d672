"""The node talks over UDP alone, so that a client that is killed locks nobody out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ros.harness import NodeProcess, Talker

from hylo_memory_ros.ros.transport import LOOPBACK, choose_transport

pytestmark = pytest.mark.ros
HERE = Path(__file__).resolve().parent
UDP = {'FASTDDS_BUILTIN_TRANSPORTS': 'UDPv4'}


def environment(discovery: str, **more: str) -> dict[str, str]:
    """Return the environment of a user who has configured nothing but the range."""
    return {'FASTRTPS_DEFAULT_PROFILES_FILE': '', 'ROS_AUTOMATIC_DISCOVERY_RANGE': discovery, **more}


def maps_shared_memory(process: NodeProcess) -> bool:
    return '/dev/shm/fastrtps' in Path(f'/proc/{process.process.pid}/maps').read_text()


@pytest.mark.parametrize('discovery', ['LOCALHOST', 'SUBNET'])
def test_clients_that_are_killed_lock_nobody_out(ros_domain: int, tmp_path: Path, discovery: str) -> None:
    with NodeProcess(
        tmp_path, ros_domain, {'autostart': True}, environment=environment(discovery)
    ) as process:
        with Talker(ros_domain) as talker:
            talker.wait_active()
        clients = {
            **os.environ,
            **environment(discovery),
            'ROS_DOMAIN_ID': str(ros_domain),
            'PYTHONPATH': os.pathsep.join([str(HERE.parents[1]), str(HERE.parent)]),
        }
        subprocess.run(
            [sys.executable, str(HERE / 'vanishing_client.py'), '10'], env=clients, check=True, timeout=120
        )
        with Talker(ros_domain) as late:
            assert late.query().success
        assert not maps_shared_memory(process)
        assert process.ended() == 0


def test_shared_memory_by_choice(ros_domain: int, tmp_path: Path) -> None:
    chosen = environment('LOCALHOST', HYLO_MEMORY_TRANSPORT='shared_memory')
    with (
        NodeProcess(tmp_path, ros_domain, {'autostart': True}, environment=chosen) as process,
        Talker(ros_domain) as talker,
    ):
        talker.wait_active()
        assert maps_shared_memory(process)


def test_another_transport_is_refused(ros_domain: int, tmp_path: Path) -> None:
    wrong = environment('LOCALHOST', HYLO_MEMORY_TRANSPORT='carrier pigeon')
    with NodeProcess(tmp_path, ros_domain, environment=wrong) as process:
        assert process.process.wait(timeout=60) == 1
        assert "expected 'udp' or 'shared_memory', got 'carrier pigeon'" in process.log


@pytest.mark.parametrize(
    ('given', 'chosen'),
    [
        ({}, UDP),
        ({'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SYSTEM_DEFAULT'}, UDP),
        ({'RMW_IMPLEMENTATION': 'rmw_fastrtps_dynamic_cpp'}, UDP),
        ({'ROS_LOCALHOST_ONLY': '1'}, {'FASTRTPS_DEFAULT_PROFILES_FILE': str(LOOPBACK)}),
        ({'ROS_AUTOMATIC_DISCOVERY_RANGE': 'localhost'}, {'FASTRTPS_DEFAULT_PROFILES_FILE': str(LOOPBACK)}),
        ({'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST', 'ROS_STATIC_PEERS': '10.0.0.7'}, {}),
        ({'RMW_IMPLEMENTATION': 'rmw_cyclonedds_cpp'}, {}),
        ({'FASTDDS_BUILTIN_TRANSPORTS': 'LARGE_DATA'}, {}),
        ({'FASTRTPS_DEFAULT_PROFILES_FILE': '/etc/dds.xml'}, {}),
        ({'HYLO_MEMORY_TRANSPORT': 'shared_memory'}, {}),
    ],
)
def test_what_a_user_configured_stays(given: dict[str, str], chosen: dict[str, str]) -> None:
    variables = dict(given)
    choose_transport(variables)
    names = ('FASTDDS_BUILTIN_TRANSPORTS', 'FASTRTPS_DEFAULT_PROFILES_FILE')
    assert {name: variables[name] for name in names if variables.get(name) != given.get(name)} == chosen
