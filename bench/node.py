"""The node over DDS, as its own process: asking, starting with a large file, receiving detections.

``HYLO_BENCH_CALLS``, ``HYLO_BENCH_ITEMS`` and ``HYLO_BENCH_SECONDS`` make it shorter.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rclpy.serialization import serialize_message

from bench import _bare
from bench._figure import at_most, medians, ratio, seconds
from bench._node import NODE, QUERY, MemoryProcess, domain, near, process
from bench.store import AREA_M, LARGE, RADIUS_M, _disk, landmarks, large_file
from hylo_memory_ros.msg import MemoryStatus
from hylo_memory_ros.ros import qos
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.srv import Flush, Query

ASKED = 10_000
# Some 28 of ten thousand landmarks in a square kilometre lie this near, so that ten are always found.
AROUND_M = 30.0
CALLS = int(os.environ.get('HYLO_BENCH_CALLS', '600'))
PACED_CALLS = 200
WATCHED_S = float(os.environ.get('HYLO_BENCH_SECONDS', '60'))
TREES = {
    'map_id': 'park',
    'inputs': ['trees'],
    'input.trees.topic': 'detections',
    'input.trees.type': 'vision_msgs/msg/Detection3DArray',
    'input.trees.gate_m': 1.0,
}


def query() -> Iterator[dict[str, Any]]:
    """Asking the node for ten hits of ten thousand, against a service that has them ready."""
    with tempfile.TemporaryDirectory() as folder, domain():
        database = Path(folder) / 'memory.db'
        with MemoryService.open(f'sqlite:///{database}') as memory:
            memory.write(landmarks(ASKED), durable=False)
        with MemoryProcess(database, {'map_id': 'park'}) as node:
            node.started()
            known = serialize_message(node.query(near(AREA_M / 2, AREA_M / 2, AROUND_M)))
            with process('-m', 'bench._bare', log=Path(folder) / 'bare.log') as bare:
                bare.stdin.write(known)
                bare.stdin.close()
                yield _asked(node)


def _asked(node: MemoryProcess) -> dict[str, Any]:
    margin = AROUND_M
    centres = np.random.default_rng(3).uniform(margin, AREA_M - margin, (CALLS + 50, 2)).tolist()
    requests = [near(x, y, AROUND_M) for x, y in centres]
    short = 0

    def ours(number: int) -> None:
        nonlocal short
        short += len(node.query(requests[number]).hits) < 10

    def bare(number: int) -> None:
        assert len(node.client.call(Query, _bare.SERVICE, requests[number]).hits) == 10

    medians(50, ours, bare)
    both = medians(CALLS, ours, bare)
    return at_most(
        'node_query_10_of_10000_over_bare_service', ratio(both), 2.0,
        node_ms=round(both[0] * 1e3, 3), bare_ms=round(both[1] * 1e3, 3), calls=CALLS, shorter_answers=short,
    )  # fmt: skip


def large() -> Iterator[dict[str, Any]]:
    """Starting with a large file: how soon there is a reply, and the mirror; how much memory that takes."""
    with tempfile.TemporaryDirectory() as folder, domain():
        database = Path(folder) / 'memory.db'
        filled_s = seconds(lambda: large_file(database))
        with MemoryProcess(database, {'map_id': 'park'}) as node:
            configure_s = seconds(lambda: node.transition('configure', 600.0))
            node.client.ready(Query, QUERY)
            start = time.perf_counter()
            node.transition('activate')
            first = node.query(near(AREA_M / 2, AREA_M / 2, RADIUS_M))
            reply_s = time.perf_counter() - start
            node.loaded()
            loaded_s = time.perf_counter() - start
            answer = node.query(near(AREA_M / 2, AREA_M / 2, RADIUS_M))
            resident, peak = node.resident_bytes()
        about = {'items': LARGE, 'first_reply': first.message or 'hits', 'hits': len(answer.hits)}
        yield at_most('node_large_activate_to_first_reply_s', reply_s, 2.0, **about)
        yield at_most(
            'node_large_activate_to_mirror_loaded_s', loaded_s, 10.0,
            configure_with_quick_check_s=round(configure_s, 2), filled_s=round(filled_s, 1),
        )  # fmt: skip
        yield at_most('node_large_resident_gb', resident / 1e9, 1.0, peak_gb=round(peak / 1e9, 3))


def detections() -> Iterator[dict[str, Any]]:
    """Receiving 100 detections 30 times a second: share of a core, queries, losses, bytes written."""
    with tempfile.TemporaryDirectory() as folder, domain():
        database = Path(folder) / 'memory.db'
        with MemoryProcess(database, TREES) as node:
            status = node.client.hear(MemoryStatus, f'{NODE}/status', qos.LATCHED)
            node.started()
            with process('-m', 'bench._detections', log=Path(folder) / 'robot.log') as robot:
                node.client.spin_until(lambda: status and status[-1].landmarks == 100, 60.0, '100 landmarks')
                node.client.spin_for(5.0)
                disk = _disk(database.parent)
                share, robot_share, written = _watched(node, robot, database)
                busy_s = _slowest_but_few(node)
            sent = int((Path(folder) / 'robot.log').read_text().split('sent ')[1])
            pending = node.client.call(Flush, f'{NODE}/flush', Flush.Request()).pending
            node.client.spin_for(1.0)
            idle_s = _slowest_but_few(node)
            lost = status[-1].dropped[0] + status[-1].late[0]
        with MemoryService.open(f'sqlite:///{database}', read_only=True) as memory, memory.read() as view:
            consumed = sum(1 for _ in view.ledger.observations()) / 100
    yield at_most(
        'node_detections_100_at_30_hz_share_of_a_core', share, 0.6, sender_share=round(robot_share, 3)
    )
    yield at_most(
        'node_detections_query_p95_over_idle', busy_s / idle_s, 4.0,
        busy_ms=round(busy_s * 1e3, 2), idle_ms=round(idle_s * 1e3, 2),
    )  # fmt: skip
    yield at_most(
        'node_detections_lost', max(lost, sent - consumed), 0,
        sent=sent, consumed=consumed, dropped_and_late=lost, pending=pending,
    )  # fmt: skip
    yield at_most('node_detections_mb_written_per_hour', written / 1e6, 100.0, watched_s=WATCHED_S, disk=disk)


def _slowest_but_few(node: MemoryProcess) -> float:
    """Return the time that 95 of 100 queries of ten landmarks do not exceed, ten of them a second."""
    request = near(18.0, 18.0, AROUND_M)
    times = []
    for _ in range(PACED_CALLS):
        times.append(seconds(lambda: node.query(request)))
        node.client.spin_for(0.1)
    return float(np.percentile(times, 95))


def _watched(node: MemoryProcess, robot: psutil.Popen, database: Path) -> tuple[float, float, float]:
    """Return the share of a core that node and robot use, and the bytes that the node writes in an hour."""
    # The log begins empty and is moved into the file at the end, so that both ways of a page are counted.
    _checkpoint(database)
    start = time.monotonic()
    before = [_spent_s(node.process), _spent_s(robot), node.process.io_counters().write_bytes]
    node.client.spin_for(WATCHED_S)
    after = [_spent_s(node.process), _spent_s(robot), node.process.io_counters().write_bytes]
    spent_s, robot_s, written = (b - a for a, b in zip(before, after, strict=True))
    lasted_s = time.monotonic() - start
    return spent_s / lasted_s, robot_s / lasted_s, (written + _checkpoint(database)) * 3600 / lasted_s


def _checkpoint(database: Path) -> int:
    """Move the write-ahead log into the file, in this process; return how many bytes that wrote."""
    before = psutil.Process().io_counters().write_bytes
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute('PRAGMA busy_timeout = 5000')
        busy, _, _ = connection.execute('PRAGMA wal_checkpoint(RESTART)').fetchone()
        assert not busy
    return int(psutil.Process().io_counters().write_bytes - before)


def _spent_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


FIGURES = {'detections': detections, 'large': large, 'query': query}
