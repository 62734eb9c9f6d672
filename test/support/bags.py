"""Small bags of every kind of message that perception reads."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

NS = 1_000_000_000
START_NS = 1_700_000_000 * NS
_INTERFACES = Path(__file__).resolve().parents[2] / 'tools' / 'interfaces'
MCAP, SQLITE = StoragePlugin.MCAP, StoragePlugin.SQLITE3

TOPICS = {
    '/clock': 'rosgraph_msgs/msg/Clock',
    '/tf': 'tf2_msgs/msg/TFMessage',
    '/tf_static': 'tf2_msgs/msg/TFMessage',
    '/boxes': 'vision_msgs/msg/Detection3DArray',
    '/tags': 'apriltag_msgs/msg/AprilTagDetectionArray',
    '/shapes': 'visualization_msgs/msg/MarkerArray',
    '/dock': 'geometry_msgs/msg/PoseStamped',
    '/chairs': 'geometry_msgs/msg/PoseArray',
    '/camera': 'sensor_msgs/msg/Imu',
}

PARAMETERS: dict[str, Any] = {
    'map_id': 'hall',
    'use_sim_time': True,
    'inputs': ['boxes', 'tags', 'shapes', 'dock', 'chairs'],
    **{f'input.{name}.topic': name for name in ('boxes', 'tags', 'shapes', 'dock', 'chairs')},
    **{f'input.{name}.type': TOPICS[f'/{name}'] for name in ('boxes', 'tags', 'shapes', 'dock', 'chairs')},
    **{f'input.{name}.reliability': 'reliable' for name in ('boxes', 'tags', 'shapes', 'dock', 'chairs')},
    'input.dock.label': 'dock',
    'input.dock.instance': 'dock',
    'input.chairs.label': 'chair',
    'input.boxes.orientation': 'axis',
}


class Sent(NamedTuple):
    """One message of a bag."""

    topic: str
    stamp_ns: int
    data: bytes


class Types:
    """Builds messages of ROS without ROS."""

    def __init__(self) -> None:
        self.store = get_typestore(Stores.ROS2_JAZZY)
        for package in ('vision_msgs', 'apriltag_msgs'):
            for path in sorted((_INTERFACES / package / 'msg').glob('*.msg')):
                name = f'{package}/msg/{path.stem}'
                if name not in self.store.fielddefs:
                    self.store.register(get_types_from_msg(path.read_text(), name))

    def new(self, kind: str, **fields: Any) -> Any:
        """Return a message; what is not given is zero or empty."""
        package, name = kind.split('/')
        full = f'{package}/msg/{name}'
        made = {}
        for field, (tag, of) in self.store.fielddefs[full][1]:
            made[field] = fields.pop(field) if field in fields else self._blank(tag.name, of)
        assert not fields, fields
        return self.store.types[full](**made)

    def _blank(self, tag: str, of: Any) -> Any:
        if tag == 'BASE':
            return '' if of[0] == 'string' else False if of[0] == 'bool' else 0
        if tag == 'NAME':
            package, _, name = of.split('/')
            return self.new(f'{package}/{name}')
        (inner, inner_of), size = of
        if inner.name == 'BASE' and inner_of[0] != 'string':
            kind = {'octet': 'uint8', 'byte': 'uint8'}.get(inner_of[0], inner_of[0])
            return np.zeros(size if tag == 'ARRAY' else 0, dtype=kind)
        return [self._blank(inner.name, inner_of) for _ in range(size if tag == 'ARRAY' else 0)]

    def header(self, stamp_ns: int, frame_id: str = '') -> Any:
        return self.new('std_msgs/Header', stamp=self.time(stamp_ns), frame_id=frame_id)

    def time(self, stamp_ns: int) -> Any:
        return self.new('builtin_interfaces/Time', sec=stamp_ns // NS, nanosec=stamp_ns % NS)

    def point(self, x: float, y: float, z: float = 0.0) -> Any:
        return self.new('geometry_msgs/Point', x=float(x), y=float(y), z=float(z))

    def turn(self, yaw: float = 0.0) -> Any:
        return self.new('geometry_msgs/Quaternion', x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))

    def pose(self, x: float, y: float, z: float = 0.0, yaw: float = 0.0) -> Any:
        return self.new('geometry_msgs/Pose', position=self.point(x, y, z), orientation=self.turn(yaw))

    def transform(self, stamp_ns: int, parent: str, child: str, x: float, y: float, yaw: float = 0.0) -> Any:
        offset = self.new('geometry_msgs/Vector3', x=float(x), y=float(y), z=0.0)
        moved = self.new('geometry_msgs/Transform', translation=offset, rotation=self.turn(yaw))
        header = self.header(stamp_ns, parent)
        return self.new(
            'geometry_msgs/TransformStamped', header=header, child_frame_id=child, transform=moved
        )

    def tf(self, *transforms: Any) -> Any:
        return self.new('tf2_msgs/TFMessage', transforms=list(transforms))

    def box(self, label: str, x: float, y: float, score: float = 0.9, yaw: float = 0.0) -> Any:
        result = self.new('vision_msgs/ObjectHypothesisWithPose')
        result.hypothesis.class_id, result.hypothesis.score = label, score
        result.pose.pose = self.pose(x, y, 0.5, yaw)
        return self.new('vision_msgs/Detection3D', results=[result])

    def boxes(self, stamp_ns: int, frame_id: str, *boxes: Any) -> Any:
        header = self.header(stamp_ns, frame_id)
        return self.new('vision_msgs/Detection3DArray', header=header, detections=list(boxes))

    def tag(self, number: int, family: str = 'tag36h11') -> Any:
        return self.new('apriltag_msgs/AprilTagDetection', family=family, id=number)

    def tags(self, stamp_ns: int, frame_id: str, *numbers: int) -> Any:
        header = self.header(stamp_ns, frame_id)
        found = [self.tag(number) for number in numbers]
        return self.new('apriltag_msgs/AprilTagDetectionArray', header=header, detections=found)

    def marker(
        self,
        stamp_ns: int,
        frame_id: str,
        ns: str,
        number: int,
        x: float = 1.0,
        y: float = 2.0,
        *,
        kind: int = 1,
        action: int = 0,
        **fields: Any,
    ) -> Any:
        return self.new(
            'visualization_msgs/Marker', header=self.header(stamp_ns, frame_id), ns=ns, id=number, type=kind,
            action=action, pose=self.pose(x, y, 0.5), **fields,
        )  # fmt: skip

    def markers(self, *markers: Any) -> Any:
        return self.new('visualization_msgs/MarkerArray', markers=list(markers))

    def cdr(self, message: Any, *, little: bool = True) -> bytes:
        return bytes(self.store.serialize_cdr(message, message.__msgtype__, little_endian=little))


def a_drive(types: Types, seconds: float = 12.0, seed: int = 3) -> Iterator[Sent]:
    """Yield what a robot on a circle records: every type of input, transforms after what they are for."""
    rng = random.Random(seed)
    things = [(rng.uniform(-6, 6), rng.uniform(-6, 6), rng.choice(['cup', 'plate'])) for _ in range(8)]
    chairs = [(4.0, 1.0), (-3.0, 2.5)]

    def sent(topic: str, stamp_ns: int, message: Any) -> Sent:
        return Sent(topic, stamp_ns, types.cdr(message))

    yield sent('/tf_static', START_NS, types.tf(types.transform(START_NS, 'base_link', 'camera', 0.2, 0.0)))
    for step in range(round(seconds * 10)):
        now = START_NS + step * NS // 10
        angle = step / 40
        robot = (2.0 * math.cos(angle), 2.0 * math.sin(angle), angle + math.pi / 2)
        yield sent('/clock', now, types.new('rosgraph_msgs/Clock', clock=types.time(now)))

        def seen(x: float, y: float, robot: Any = robot) -> tuple[float, float]:
            dx, dy = x - robot[0] + rng.gauss(0, 0.02), y - robot[1] + rng.gauss(0, 0.02)
            c, s = math.cos(robot[2]), math.sin(robot[2])
            return c * dx + s * dy - 0.2, -s * dx + c * dy

        near = [types.box(label, *seen(x, y), yaw=-robot[2]) for x, y, label in things if rng.random() < 0.8]
        yield sent('/boxes', now, types.boxes(now, 'camera', *near))
        if step % 3 == 0:
            yield sent('/tags', now, types.tags(now, 'camera', 4, 7))
            poses = [types.pose(*seen(x, y)) for x, y in chairs]
            array = types.new('geometry_msgs/PoseArray', header=types.header(now, 'camera'), poses=poses)
            yield sent('/chairs', now, array)
        if step % 5 == 0:
            dock = types.new(
                'geometry_msgs/PoseStamped',
                header=types.header(now, 'map'),
                pose=types.pose(5.0, 5.0, yaw=1.0),
            )
            yield sent('/dock', now, dock)
            shapes = [
                types.marker(now, 'map', 'crate', 1, 3.0, -3.0),
                types.marker(now, 'map', 'crate', 2, -4.0),
            ]
            lines = types.marker(now, 'map', 'path', 1, kind=4)
            yield sent('/shapes', now, types.markers(*shapes, lines))
            yield sent('/camera', now, types.new('sensor_msgs/Imu', header=types.header(now, 'camera')))
        if step in (62, 63):
            gone = (
                types.marker(0, '', 'crate', 2, action=2)
                if step == 62
                else types.marker(0, '', '', 0, action=3)
            )
            yield sent('/shapes', now, types.markers(gone))
        moved = [types.transform(now, 'map', 'base_link', *robot)]
        if step % 3 == 0:
            moved += [
                types.transform(now, 'camera', f'tag36h11:{number}', *seen(x, y), 0.5 - robot[2])
                for number, x, y in ((4, 1.0, 5.0), (7, -5.0, -1.0))
            ]
        yield sent('/tf', now, types.tf(*moved))


def write_bag(
    path: Path,
    sent: Iterable[Sent],
    types: Types,
    storage: StoragePlugin = MCAP,
    *,
    topics: Mapping[str, str] = TOPICS,
    **options: Any,
) -> Path:
    """Write a bag, and return its path."""
    writer = Writer(path, version=9, storage_plugin=storage)
    if options:
        writer.set_compression(**options)
    with writer as bag:
        connections = {
            topic: bag.add_connection(topic, kind, typestore=types.store) for topic, kind in topics.items()
        }
        for one in sent:
            bag.write(connections[one.topic], one.stamp_ns, one.data)
    return path
