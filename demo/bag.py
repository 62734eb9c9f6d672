"""The drive as a rosbag: MCAP, as a robot would have recorded it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from demo.drive import Drive, Seen

__all__ = ['CLOCK', 'DETECTIONS', 'TF', 'TF_STATIC', 'Recorded', 'bag_of', 'read_bag']

CLOCK, TF, TF_STATIC, DETECTIONS = '/clock', '/tf', '/tf_static', '/detections'

# Changed when the same drive is written differently, so that no old bag is used.
_FORM = 1
_INTERFACES = Path(__file__).resolve().parents[1] / 'tools' / 'interfaces' / 'vision_msgs' / 'msg'
_TYPES = {
    CLOCK: 'rosgraph_msgs/msg/Clock',
    TF: 'tf2_msgs/msg/TFMessage',
    TF_STATIC: 'tf2_msgs/msg/TFMessage',
    DETECTIONS: 'vision_msgs/msg/Detection3DArray',
}


class Recorded(NamedTuple):
    """One message of a bag."""

    topic: str
    """Name of the topic."""
    type: str
    """Type of the message."""
    stamp_ns: int
    """When it was recorded, nanoseconds."""
    data: bytes
    """The message as CDR."""


def bag_of(drive: Drive, folder: Path) -> Path:
    """Return the bag of a drive below a folder; written unless it is there already."""
    path = folder / f'victoria_park-{len(drive.stamps_ns)}-{drive.digest()}-{_FORM}'
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    # A bag that was being written when the process ended must not be taken for a whole one.
    unfinished = folder / '.unfinished' / path.name
    shutil.rmtree(unfinished.parent, ignore_errors=True)
    unfinished.parent.mkdir()
    with Writer(unfinished, version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        _Recorder(_typestore()).record(drive, bag)
    unfinished.rename(path)
    unfinished.parent.rmdir()
    return path


def read_bag(path: Path) -> Iterator[Recorded]:
    """Yield the messages of a bag in their order."""
    with Reader(path) as bag:
        for connection, stamp_ns, data in bag.messages():
            yield Recorded(connection.topic, connection.msgtype, stamp_ns, bytes(data))


def _typestore() -> Typestore:
    store = get_typestore(Stores.ROS2_JAZZY)
    for path in sorted(_INTERFACES.glob('*.msg')):
        store.register(get_types_from_msg(path.read_text(), f'vision_msgs/msg/{path.stem}'))
    return store


@dataclass(frozen=True)
class _Recorder:
    """Builds messages with the types of a store."""

    store: Typestore

    def record(self, drive: Drive, bag: Writer) -> None:
        connections = {
            topic: bag.add_connection(topic, kind, typestore=self.store) for topic, kind in _TYPES.items()
        }

        def write(topic: str, stamp_ns: int, message: Any) -> None:
            bag.write(connections[topic], stamp_ns, self.store.serialize_cdr(message, _TYPES[topic]))

        seen = {one.stamp_ns: one for one in drive.seen()}
        still = self._transform(drive.start_ns, 'base_link', 'base_footprint', (0.0, 0.0, 0.0))
        write(TF_STATIC, drive.start_ns, self._tf(still))
        for stamp_ns, pose in zip(drive.stamps_ns.tolist(), drive.poses.tolist(), strict=True):
            write(CLOCK, stamp_ns, self._new('rosgraph_msgs/msg/Clock', clock=self._time(stamp_ns)))
            write(TF, stamp_ns, self._tf(self._transform(stamp_ns, 'map', 'base_link', pose)))
            if stamp_ns in seen:
                write(DETECTIONS, stamp_ns, self._detections(seen[stamp_ns]))

    def _new(self, kind: str, **fields: Any) -> Any:
        return self.store.types[kind](**fields)

    def _time(self, stamp_ns: int) -> Any:
        return self._new('builtin_interfaces/msg/Time', sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9)

    def _header(self, stamp_ns: int, frame_id: str) -> Any:
        return self._new('std_msgs/msg/Header', stamp=self._time(stamp_ns), frame_id=frame_id)

    def _turn(self, yaw: float) -> Any:
        kind = 'geometry_msgs/msg/Quaternion'
        return self._new(kind, x=0.0, y=0.0, z=math.sin(yaw / 2.0), w=math.cos(yaw / 2.0))

    def _transform(self, stamp_ns: int, parent: str, child: str, pose: Any) -> Any:
        x, y, yaw = pose
        moved = self._new(
            'geometry_msgs/msg/Transform',
            translation=self._new('geometry_msgs/msg/Vector3', x=x, y=y, z=0.0),
            rotation=self._turn(yaw),
        )
        header = self._header(stamp_ns, parent)
        kind = 'geometry_msgs/msg/TransformStamped'
        return self._new(kind, header=header, child_frame_id=child, transform=moved)

    def _tf(self, *transforms: Any) -> Any:
        return self._new('tf2_msgs/msg/TFMessage', transforms=list(transforms))

    def _detections(self, seen: Seen) -> Any:
        header = self._header(seen.stamp_ns, 'base_link')
        found = [self._detection(header, x, y) for x, y in seen.positions.tolist()]
        return self._new('vision_msgs/msg/Detection3DArray', header=header, detections=found)

    def _detection(self, header: Any, x: float, y: float) -> Any:
        pose = self._new(
            'geometry_msgs/msg/Pose',
            position=self._new('geometry_msgs/msg/Point', x=x, y=y, z=0.0),
            orientation=self._turn(0.0),
        )
        # All zeros: the recording says nothing of its uncertainty.
        unknown = np.zeros(36)
        hypothesis = self._new(
            'vision_msgs/msg/ObjectHypothesisWithPose',
            hypothesis=self._new('vision_msgs/msg/ObjectHypothesis', class_id='tree', score=1.0),
            pose=self._new('geometry_msgs/msg/PoseWithCovariance', pose=pose, covariance=unknown),
        )
        size = self._new('geometry_msgs/msg/Vector3', x=0.0, y=0.0, z=0.0)
        box = self._new('vision_msgs/msg/BoundingBox3D', center=pose, size=size)
        kind = 'vision_msgs/msg/Detection3D'
        return self._new(kind, header=header, results=[hypothesis], bbox=box, id='')
