"""Decoder of visualization_msgs Marker and MarkerArray, by the rules of RViz.

- ADD and MODIFY are one action: the thing named ``ns/id`` is there now.
- DELETE and DELETEALL never make anything, and need no frame. They end what this input has made:
  the one thing ``ns/id``; all things of a namespace; or, without a namespace, all of them. What the
  same array adds after deleting it stays.
- A namespace is the class of its things. A marker's lifetime says how long to draw it, not how long
  the thing is there, and is ignored.
- Arrows by pose, cubes, spheres, cylinders and meshes are things with a place. Lines, points, lists,
  triangles and texts are drawings, and counted as ``marker_type``.
- A marker is stamped by its own header; one that adds something without a stamp is refused like any
  observation without. A deletion without a stamp, as most are, belongs to the array's newest
  stamp, or comes 1 ns after the array before it.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from hylo_memory_ros.perception.ingestion.decoders.cdr import CdrCursor, decode_whole
from hylo_memory_ros.perception.ingestion.decoders.geometry import POSE
from hylo_memory_ros.perception.ingestion.observation import (
    DecodedMessage,
    Deletion,
    Detections,
    Message,
)

# Header, ns, id, type, action, pose, scale, colour, lifetime, flag; then nothing but empty fields.
LEAST_MARKER = 12 + 4 + 12 + 80 + 16 + 8 + 1

ADD, DELETE, DELETE_ALL = 0, 2, 3
ARROW, CUBE, SPHERE, CYLINDER, MESH_RESOURCE = 0, 1, 2, 3, 10
SOLIDS = (CUBE, SPHERE, CYLINDER)
PLACED = (ARROW, *SOLIDS, MESH_RESOURCE)

THREE_INTS = {order: struct.Struct(order + '3i') for order in '<>'}
SCALE = {order: struct.Struct(order + '3d') for order in '<>'}


@dataclass(frozen=True, slots=True)
class _Marker:
    stamp_ns: int
    frame_id: str
    namespace: str
    number: int
    kind: int
    action: int
    pose: tuple[float, ...]
    scale: tuple[float, ...]
    by_points: bool

    @property
    def name(self) -> str:
        return f'{self.namespace}/{self.number}'


@dataclass(slots=True)
class _Scene:
    """Result of the markers of an array, applied in their order."""

    added: dict[str, _Marker] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    cleared: set[str] = field(default_factory=set)
    refused: Counter[str] = field(default_factory=Counter)
    deleted_ns: int = 0

    def take(self, marker: _Marker) -> None:
        if marker.action == ADD:
            self._add(marker)
        elif marker.action in (DELETE, DELETE_ALL):
            self._delete(marker)
        else:
            self.refused['marker_action'] += 1

    def _add(self, marker: _Marker) -> None:
        if marker.kind not in PLACED or (marker.kind == ARROW and marker.by_points):
            self.refused['marker_type'] += 1
            return
        self.added[marker.name] = marker

    def _delete(self, marker: _Marker) -> None:
        self.deleted_ns = max(self.deleted_ns, marker.stamp_ns)
        if marker.action == DELETE:
            self.deleted.add(marker.name)
            self.added.pop(marker.name, None)
            return
        self.cleared.add(marker.namespace)
        self.added = {
            name: one
            for name, one in self.added.items()
            if marker.namespace and one.namespace != marker.namespace
        }


class MarkerDecoder:
    """Decodes the markers of one input; it keeps the stamp of the previous array.

    Parameters
    ----------
    array : bool
        Whether the messages are arrays, or single markers.
    """

    def __init__(self, *, array: bool) -> None:
        self._array = array
        self._last_ns = 0

    def __call__(self, message: bytes, source: str) -> DecodedMessage:
        """Decode a message: one observation for each stamp and frame, and one for the deletions.

        Parameters
        ----------
        message : bytes
            CDR with its four bytes of encapsulation, either byte order.
        source : str
            Name of the input.

        Raises
        ------
        ValueError
            If the bytes are no such message.
        """
        scene, digest = decode_whole(message, self._read)
        stamped_ns = max((one.stamp_ns for one in scene.added.values()), default=0)
        messages = list(_observations(scene, source, digest))
        if scene.deleted or scene.cleared:
            after_last_ns = self._last_ns + 1 if self._last_ns else 0
            stamp_ns = scene.deleted_ns or stamped_ns or after_last_ns
            messages.append(_deletion(scene, source, stamp_ns, digest))
        self._last_ns = max(stamped_ns, scene.deleted_ns) or self._last_ns
        return DecodedMessage(tuple(messages), scene.refused)

    def _read(self, cursor: CdrCursor) -> tuple[_Scene, int]:
        scene = _Scene()
        for _ in range(cursor.count(LEAST_MARKER) if self._array else 1):
            scene.take(_marker(cursor))
        return scene, cursor.digest()


def _marker(cursor: CdrCursor) -> _Marker:
    stamp_ns, frame_id = cursor.header()
    namespace = cursor.text()
    number, kind, action = cursor.numbers(THREE_INTS[cursor.order], 4)
    pose = cursor.numbers(POSE[cursor.order], 8)
    scale = cursor.numbers(SCALE[cursor.order], 8)
    cursor.skip(16 + 8 + 1)  # colour, lifetime, frame_locked
    points = cursor.count(24)
    if points:
        cursor.skip(24 * points, 8)
    cursor.skip_sequence(16, 4)  # colours
    cursor.text()
    _skip_texture(cursor)
    cursor.text()
    cursor.text()
    cursor.text()
    cursor.skip_sequence(1, 1)
    cursor.skip(1)
    return _Marker(
        stamp_ns, frame_id, namespace, int(number), int(kind), int(action), pose, scale, bool(points)
    )


def _skip_texture(cursor: CdrCursor) -> None:
    cursor.skip(8, 4)  # a stamp that nobody uses, and that may be anything
    cursor.text()
    cursor.text()
    cursor.skip_sequence(1, 1)
    cursor.skip_sequence(8, 4)


def _observations(scene: _Scene, source: str, digest: int) -> list[Message]:
    parts: dict[tuple[int, str], list[_Marker]] = {}
    for marker in scene.added.values():
        parts.setdefault((marker.stamp_ns, marker.frame_id), []).append(marker)
    messages = []
    for (stamp_ns, frame_id), markers in parts.items():
        # Two parts of one stamp would be one message to the ledger.
        own = digest if len(parts) == 1 else zlib.crc32(frame_id.encode(), digest)
        messages.append(Message(source, stamp_ns, frame_id, own, _columns(markers)))
    return messages


def _columns(markers: list[_Marker]) -> Detections:
    poses = np.array([one.pose for one in markers]).reshape(-1, 7)
    sizes = [one.scale if one.kind in SOLIDS else (0.0, 0.0, 0.0) for one in markers]
    return Detections(
        labels=[one.namespace for one in markers],
        positions=poses[:, :3],
        orientations=poses[:, 3:],
        extents=np.array(sizes).reshape(-1, 3),
        instances=[one.name for one in markers],
    )


def _deletion(scene: _Scene, source: str, stamp_ns: int, digest: int) -> Message:
    everything = Deletion(
        names=frozenset(scene.deleted - set(scene.added)),
        namespaces=frozenset(scene.cleared),
        kept=frozenset(scene.added),
    )
    nothing = Detections(labels=(), positions=np.empty((0, 3)))
    own = zlib.crc32(b'deletion', digest)
    return Message(source, stamp_ns, '', own, nothing, deletion=everything)
