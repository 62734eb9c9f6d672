"""The process ends within five seconds, in order, whenever it is told to."""

import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ros.harness import NODE, NodeProcess, Talker, spatial, wait_until

from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.srv import Write

pytestmark = pytest.mark.ros


def check_end(process: NodeProcess) -> None:
    """The log is free of traces, the database closed and sound, its log emptied, its lock free."""
    assert 'Traceback' not in process.log, process.log
    if not process.database.exists():
        return
    wal = Path(f'{process.database}-wal')
    assert not wal.exists() or wal.stat().st_size == 0
    connection = sqlite3.connect(process.database)
    assert connection.execute('pragma integrity_check').fetchone() == ('ok',)
    connection.close()


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_idle(ros_domain: int, tmp_path: Path, number: int) -> None:
    with NodeProcess(tmp_path, ros_domain, {'autostart': True}) as process:
        process.wait_for_log('active')
        assert process.ended(number) == 0
        check_end(process)


def test_two_signals_within_50_ms_while_writing(ros_domain: int, tmp_path: Path) -> None:
    with NodeProcess(tmp_path, ros_domain, {'autostart': True}) as process, Talker(ros_domain) as talker:
        talker.wait_active()
        client = talker.client(Write, f'{NODE}/write')
        futures = [
            client.call_async(Write.Request(items=[spatial(f'{call}-{n}') for n in range(50)]))
            for call in range(40)
        ]
        talker.spin_until(futures[0].done)
        process.process.send_signal(signal.SIGINT)
        time.sleep(0.03)  # what the test is about, not what it waits for
        assert process.ended() == 0
        check_end(process)
        acknowledged = {
            name
            for future in futures
            if future.done() and future.result().success
            for name in future.result().ids
        }
        with MemoryService.open(f'sqlite:///{process.database}', read_only=True) as memory:
            stored = {hit.item.id for hit in memory.query(MemoryQuery(k=10_000))}
        assert acknowledged
        assert acknowledged <= stored


def loaded(process: NodeProcess, name: str) -> bool:
    """Whether the process has a library of this name."""
    return name in Path(f'/proc/{process.process.pid}/maps').read_text()


STAGES: dict[str, Callable[[NodeProcess], bool]] = {
    'nothing': lambda process: True,
    'the interpreter': lambda process: loaded(process, 'python'),
    'rclpy': lambda process: loaded(process, '_rclpy'),
    'the database': lambda process: process.database.exists(),
    'the memory': lambda process: 'configured: ' in process.log,
}


@pytest.mark.parametrize('stage', STAGES)
def test_a_signal_during_the_start(ros_domain: int, tmp_path: Path, stage: str) -> None:
    with NodeProcess(tmp_path, ros_domain, {'autostart': True}) as process:
        wait_until(lambda: STAGES[stage](process), stage)
        code = process.ended(within_s=10.0)
        if 'memory_node' not in process.log and code != 0:
            # The interpreter itself had not come to our first line yet.
            assert code in (-signal.SIGINT, 1, 130)
        else:
            assert code == 0
            check_end(process)


def test_an_unconfigured_node_ends_too(ros_domain: int, tmp_path: Path) -> None:
    with NodeProcess(tmp_path, ros_domain) as process, Talker(ros_domain) as talker:
        talker.state()
        assert process.ended() == 0
        check_end(process)
        assert not process.database.exists()


def test_the_lock_of_an_ended_node_is_free(ros_domain: int, tmp_path: Path) -> None:
    for _ in range(2):
        with NodeProcess(tmp_path, ros_domain, {'autostart': True}) as process:
            process.wait_for_log('active')
            assert process.ended() == 0
    assert process.database.exists()
