"""Clients that vanish, clients that crowd, and a client in a callback of its own node."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from rclpy.qos import QoSProfile
from ros.harness import NODE, Talker, spatial
from support.effort import scaled

from hylo_memory_ros.msg import ErrorCode, MemoryFilter, MemoryItem
from hylo_memory_ros.ros.transport import choose_transport
from hylo_memory_ros.srv import Query, Write

pytestmark = pytest.mark.ros
HERE = Path(__file__).resolve().parent


@pytest.fixture(scope='module')
def parameters() -> dict[str, Any]:
    return {'reply_limit_bytes': 67_108_864}


@pytest.fixture(scope='module')
def environment() -> dict[str, str]:
    return {'HYLO_MEMORY_TRANSPORT': 'shared_memory'}  # an answer of 10 MB takes long over UDP


def test_fifty_clients_that_vanish_before_the_reply(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    text = 'x' * 100_000
    for batch in range(10):
        assert talker.write(
            *(MemoryItem(kind='semantic', content=text + str(n), key=f'big{n}{batch}') for n in range(10))
        ).success
    environment = {
        **os.environ,
        'ROS_DOMAIN_ID': str(shared.domain),
        'PYTHONPATH': os.pathsep.join([str(HERE.parents[1]), str(HERE.parent)]),
    }
    # What is killed must not lock memory that it shares.
    choose_transport(environment)

    client = subprocess.Popen([sys.executable, str(HERE / 'vanishing_client.py'), '50'], env=environment)
    try:
        while client.poll() is None:
            # Behind ten answers of 10 MB that nobody takes.
            assert talker.call(Query, 'query', Query.Request(k=0)).success
    finally:
        client.kill()
        client.wait()
    assert client.returncode == 0
    assert shared.process.alive

    written = talker.query(k=0, filter=MemoryFilter(kinds=['spatial'])).total
    assert 0 < written <= 50
    found = talker.query(k=1, filter=MemoryFilter(kinds=['spatial'])).hits[0].item
    assert list(talker.write(spatial(found.key)).outcomes) == ['SKIP_DUP']


def test_a_crowd_is_answered_or_told_that_it_is_busy(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    client = talker.node.create_client(Write, f'{NODE}/write', qos_profile=QoSProfile(depth=500))
    talker.call_until_answered(client, Write.Request())
    futures = [
        client.call_async(Write.Request(items=[spatial(f'c{call}-{n}') for n in range(20)]))
        for call in range(100)
    ]

    talker.spin_until(lambda: all(future.done() for future in futures))

    codes = [future.result().error_code for future in futures]
    assert set(codes) <= {ErrorCode.OK, ErrorCode.BUSY}
    assert codes.count(ErrorCode.OK) > 0


def test_calls_from_a_callback_twice_in_a_row(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    client = talker.client(Query, f'{NODE}/query')
    answers: list[Any] = []

    def ask() -> None:
        client.call_async(Query.Request(k=0)).add_done_callback(
            lambda future: answers.append(future.result())
        )

    timer = talker.node.create_timer(0.05, ask)
    talker.spin_until(lambda: len(answers) >= 2)
    timer.cancel()

    assert all(answer.success for answer in answers)


def test_memory_stays_flat_over_many_calls(shared: SimpleNamespace) -> None:
    talker: Talker = shared.talker
    family = psutil.Process(shared.process.process.pid)
    chosen = MemoryFilter(kinds=['spatial'])
    for _ in range(scaled(300)):
        talker.query(k=3, filter=chosen)
    before, threads = family.memory_info().rss, family.num_threads()

    for _ in range(scaled(1500)):
        talker.query(k=3, filter=chosen)

    assert family.memory_info().rss - before < 5_000_000
    assert family.num_threads() == threads
