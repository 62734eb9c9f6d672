"""A thousand malformed messages leave the node alive, with an error count of a thousand."""

import random
from pathlib import Path
from typing import Any

import pytest
from apriltag_msgs.msg import AprilTagDetection, AprilTagDetectionArray
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseArray
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import serialize_message
from ros.harness import NODE, NodeProcess, Talker
from ros.test_inputs import BOXES, NOW, array
from ros.test_topics import LATCHED, heard
from vision_msgs.msg import Detection3DArray
from visualization_msgs.msg import Marker, MarkerArray

from hylo_memory_ros.msg import MemoryFilter, MemoryStatus
from hylo_memory_ros.srv import Flush

pytestmark = pytest.mark.ros
KINDS = {
    'boxes': (Detection3DArray, BOXES),
    'shapes': (MarkerArray, 'visualization_msgs/msg/MarkerArray'),
    'tags': (AprilTagDetectionArray, 'apriltag_msgs/msg/AprilTagDetectionArray'),
    'poses': (PoseArray, 'geometry_msgs/msg/PoseArray'),
}
PARAMETERS: dict[str, Any] = {
    'autostart': True,
    'inputs': list(KINDS),
    **{f'input.{name}.topic': name for name in KINDS},
    **{f'input.{name}.type': kind for name, (_, kind) in KINDS.items()},
    **{f'input.{name}.reliability': 'reliable' for name in KINDS},
    **{f'input.{name}.depth': 2000 for name in KINDS},
    'input.poses.label': 'chair',
    'landmarks.confirm_n': 1,
}


def broken(name: str, rng: random.Random) -> bytes:
    """Return bytes that are no message of an input: truncated, padded, a false count, or anything."""
    good = {
        'boxes': array(NOW, ('cup', 1.0, 2.0)),
        'shapes': MarkerArray(markers=[Marker(ns='a', id=1)]),
        'tags': AprilTagDetectionArray(detections=[AprilTagDetection(family='tag36h11', id=3)]),
        'poses': PoseArray(),
    }[name]
    data = bytes(serialize_message(good))
    return rng.choice([
        data[: rng.randrange(5, len(data) - 8)] if len(data) > 24 else data[:7],
        data + b'\1' * rng.randint(4, 64),
        data[:4] + b'\xff' * (len(data) - 4),
        b'\7\7' + data[2:],
        bytes(rng.randrange(1, 256) for _ in range(rng.randint(5, 40))),
    ])  # fmt: skip


def test_a_thousand_malformed_messages_are_counted_one_by_one(ros_domain: int, tmp_path: Path) -> None:
    rng = random.Random(5)
    with NodeProcess(tmp_path, ros_domain, PARAMETERS) as process, Talker(ros_domain) as talker:
        talker.wait_active()
        statuses = heard(talker, MemoryStatus, f'{NODE}/status', LATCHED)
        diagnostics = heard(talker, DiagnosticArray, '/diagnostics')
        senders = {
            name: talker.node.create_publisher(kind, f'/{name}', QoSProfile(depth=2000))
            for name, (kind, _) in KINDS.items()
        }
        talker.spin_until(lambda: all(one.get_subscription_count() for one in senders.values()))

        def hears_all() -> bool:
            for sender in senders.values():
                sender.publish(b'\0\1\0\0garbage')
            return bool(statuses) and min(statuses[-1].refused) > 0

        talker.spin_until(hears_all, 'node that hears every topic')
        heard_all = len(diagnostics)

        def settled() -> bool:
            """Whether several reports in a row count alike: what was sent meanwhile has arrived."""
            recent = [
                [pair.value for pair in report.status[0].values if 'malformed' in pair.value]
                for report in diagnostics[heard_all:]
            ][-3:]
            return len(recent) == 3 and all(one == recent[0] for one in recent)

        talker.spin_until(settled)
        before = sum(statuses[-1].refused)
        for number in range(1000):
            name = list(KINDS)[number % len(KINDS)]
            senders[name].publish(broken(name, rng))
            if number % 100 == 99:
                talker.spin_until(
                    lambda least=before + number + 1: sum(statuses[-1].refused) >= least, 'count'
                )

        assert sum(statuses[-1].refused) == before + 1000
        assert sum(statuses[-1].dropped) == 0
        told = [f'malformed {count}' for count in statuses[-1].refused]
        talker.spin_until(
            lambda: diagnostics and all(text in str(diagnostics[-1].status[0].values) for text in told),
            'counts in /diagnostics',
        )
        for second in range(3):
            senders['boxes'].publish(array(NOW + second, ('cup', 1.0, 2.0)))
        talker.spin_until(lambda: statuses[-1].watermark_ns[0] > 0, 'watermark')
        assert talker.call(Flush, 'flush').success
        talker.spin_until(lambda: talker.query(filter=MemoryFilter(labels=['cup'])).total == 1, 'cup')
        assert process.ended() == 0


def test_a_latched_input_gets_what_was_published_before(ros_domain: int, tmp_path: Path) -> None:
    parameters = {
        'autostart': True, 'inputs': ['shapes'], 'input.shapes.topic': 'shapes', 'landmarks.confirm_n': 1,
        'input.shapes.type': 'visualization_msgs/msg/MarkerArray', 'input.shapes.reliability': 'reliable',
        'input.shapes.durability': 'transient_local',
    }  # fmt: skip
    with Talker(ros_domain) as talker:
        latched = QoSProfile(depth=5, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        shapes = talker.node.create_publisher(MarkerArray, '/shapes', latched)
        marker = Marker(ns='crate', id=7, type=Marker.CUBE)
        marker.header.frame_id, marker.header.stamp.sec, marker.pose.position.x = 'map', NOW, 2.0
        shapes.publish(MarkerArray(markers=[marker]))
        with NodeProcess(tmp_path, ros_domain, parameters) as process:
            talker.wait_active()
            statuses = heard(talker, MemoryStatus, f'{NODE}/status', LATCHED)
            talker.spin_until(lambda: statuses and statuses[-1].watermark_ns[0] > 0, 'watermark')
            assert talker.call(Flush, 'flush').pending == 0
            talker.spin_until(lambda: talker.query(filter=MemoryFilter(keys=['crate/7'])).total == 1, 'crate')
            assert process.ended() == 0
