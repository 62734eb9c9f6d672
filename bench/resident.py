"""An hour of a robot's life in a minute: how much memory the node holds at its end, and after 5 minutes.

The node is the real one, in its own process, asked over DDS. Each simulated second sends what a second of a
busy robot would: a message of detections with its transform, a write of several kinds, a question; now and
then a prompt, feedback and an episode. Stamps are those of the hour that has just passed. The limits are
small enough that five minutes fill every one.

``HYLO_BENCH_HOUR_S`` makes the hour shorter.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from tf2_msgs.msg import TFMessage
from vision_msgs.msg import Detection3DArray

from bench import _detections
from bench._figure import at_most
from bench._node import NODE, MemoryProcess, domain, near
from hylo_memory_ros.msg import MemoryFilter, MemoryItem
from hylo_memory_ros.ros.convert.fields import stamp_msg
from hylo_memory_ros.srv import Episode, Feedback, Flush, Query, Render, Write

HOUR_S = int(os.environ.get('HYLO_BENCH_HOUR_S', '3600'))
EARLY_S = HOUR_S // 12
LOOP = 300
LIMITS = {
    'map_id': 'park',
    'inputs': ['trees'],
    'input.trees.topic': 'detections',
    'input.trees.type': 'vision_msgs/msg/Detection3DArray',
    'input.trees.gate_m': 1.0,
    'working_capacity': 64,
    'event_retention': 256,
    'request_retention': 256,
    'receipt_retention': 64,
    'retention.episodic.max_items': 150,
    'retention.semantic.max_items': 150,
    'retention.spatial.max_items': 400,
}


class Robot:
    """What one busy robot sends to its memory in each second of its time."""

    def __init__(self, node: MemoryProcess, start_ns: int) -> None:
        self._node, self._start_ns = node, start_ns
        self._random = np.random.default_rng(11)
        make = node.client.node.create_publisher
        self._tf, self._seen = make(TFMessage, 'tf', 100), make(Detection3DArray, 'detections', 10)
        self._poses = [_detections.transform(number / LOOP) for number in range(LOOP)]
        self._messages = [_detections.detections(number / LOOP, self._random) for number in range(LOOP)]
        self._receipt: Any = None
        self.refused: dict[str, int] = {}

    def connected(self) -> None:
        """Wait until the node hears what is published."""
        self._node.client.spin_until(
            lambda: self._tf.get_subscription_count() and self._seen.get_subscription_count(), 30.0, 'inputs'
        )

    def live(self, second: int) -> None:
        """Send what this second brings."""
        stamp_ns = self._start_ns + second * 10**9
        pose, seen = self._poses[second % LOOP], self._messages[second % LOOP]
        self._tf.publish(_detections.stamped(pose, _detections.TF_STAMP, stamp_ns))
        self._seen.publish(_detections.stamped(seen, _detections.DETECTIONS_STAMP, stamp_ns))
        if second % 60 == 0:
            self._call(Episode, 'episode', op='begin', id=f'e{second}', scope=['task_id=patrol'])
        request_id = f'r{second}'
        self._call(Write, 'write', items=list(self._items(second, stamp_ns)), request_id=request_id)
        answer = self._call(Query, 'query', request=self._question(second))
        if answer.receipt_id and answer.hits:
            self._receipt = answer
        if second % 10 == 5:
            self._call(Render, 'render', filter=MemoryFilter(kinds=['episodic', 'working']), k=20)
        if second % 10 == 9 and self._receipt is not None:
            first = self._receipt
            self._call(
                Feedback, 'feedback', receipt_id=first.receipt_id, ids=[first.hits[0].item.id],
                outcome='useful',
            )  # fmt: skip
        if second % 60 == 59:
            self._call(Episode, 'episode', op='end', id=f'e{second - 59}', outcome='success')
            self._call(Flush, 'flush', timeout_s=10.0)

    def _items(self, second: int, stamp_ns: int) -> Iterator[MemoryItem]:
        stamp, draw = stamp_msg(stamp_ns), self._random.integers
        yield MemoryItem(
            kind='episodic', content=f'at {second} s person {draw(1000)} asked the way to room {draw(200)}',
            event_start=stamp, valid_from=stamp,
        )  # fmt: skip
        yield MemoryItem(
            kind='semantic', key=f'door {draw(20)}', content=f'{draw(10)} people behind it',
            valid_from=stamp,
        )  # fmt: skip
        yield MemoryItem(kind='working', key=f'step {second}', content=f'go to waypoint {draw(500)}')
        item = MemoryItem(
            kind='spatial', key=f'cart {draw(60)}', content='cart', map_id='park', valid_from=stamp
        )
        item.header.frame_id = 'map'
        item.pose.position.x, item.pose.position.y = float(draw(36)), float(draw(36))
        yield item
        if second % 120 == 30:
            payload = {'params': {'speed': 0.2}, 'api_surface': 'hylo.tools@v1', 'status': 'proposed'}
            yield MemoryItem(
                kind='skill', key=f'skill {second}', content='dock', payload_json=json.dumps(payload)
            )

    def _question(self, second: int) -> Any:
        kinds = (
            lambda: near(float(self._random.integers(36)), float(self._random.integers(36)), 5.0),
            lambda: Query.Request(filter=MemoryFilter(text=f'room {second % 200}'), k=10),
            lambda: Query.Request(filter=MemoryFilter(keys=[f'door {second % 20}']), k=10),
            lambda: Query.Request(
                filter=MemoryFilter(kinds=['semantic'], as_of=stamp_msg(self._start_ns + second * 5 * 10**8)),
                k=20,
            ),
            lambda: Query.Request(filter=MemoryFilter(kinds=['episodic'], include_invalidated=True), k=20),
        )
        request = kinds[second % len(kinds)]()
        request.receipt = second % 3 == 0
        return request

    def _call(self, kind: Any, name: str, request: Any = None, **fields: Any) -> Any:
        answer = self._node.client.call(kind, f'{NODE}/{name}', request or kind.Request(**fields))
        if not answer.success:
            told = f'{name}: {answer.message}'[:160]
            self.refused[told] = self.refused.get(told, 0) + 1
        return answer


def hour() -> Iterator[dict[str, Any]]:
    """Resident memory of the node after an hour of mixed load within limits, over that after 5 minutes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        domain(),
        MemoryProcess(Path(folder) / 'memory.db', LIMITS) as node,
    ):
        diagnostics = node.client.hear(DiagnosticArray, '/diagnostics', 10)
        node.started()
        robot = Robot(node, time.time_ns() - (HOUR_S + 60) * 10**9)
        robot.connected()
        start = time.monotonic()
        resident = []
        for second in range(HOUR_S):
            robot.live(second)
            if (second + 1) % EARLY_S == 0:
                resident.append(node.resident_bytes()[0])
        lasted_s = time.monotonic() - start
        node.client.spin_for(1.5)
        status = diagnostics[-1].status[0]
        told = {pair.key: pair.value for pair in status.values}
    yield at_most(
        'resident_after_1_h_over_5_min', resident[-1] / resident[0], 1.1,
        resident_mb=[round(size / 1e6, 1) for size in resident], load_s=round(lasted_s, 1),
        fill={name: value for name, value in told.items() if name.startswith('fill')},
        refused=robot.refused, diagnostics=status.message,
    )  # fmt: skip


FIGURES = {'hour': hour}
