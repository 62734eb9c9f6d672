"""Topic `~/markers`: landmarks near the robot, for RViz and Foxglove.

Only while somebody subscribes, at most once a second, and only when something has changed: one
list of spheres for each label, the nearest to the robot first, with names for the nearest. The less
probable it is that a thing is still there, the more its sphere fades.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from geometry_msgs.msg import Point, Vector3
from rclpy.node import Node
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from hylo_memory_ros.errors import FrameError, LoadingError
from hylo_memory_ros.model import Hit, MemoryKind, MemoryQuery, Pose
from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.ros import qos
from hylo_memory_ros.ros.convert.fields import stamp_msg
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import LATEST, TransformSource

EVERYWHERE_M = 1e9
# Landmarks that are shown, and that carry their name as text, nearest to the robot first.
NEAREST, NAMED = 2000, 100
SPHERE_M = 0.2
TEXT_M = 0.15
# Distance that the robot moves before the nearest landmarks are looked up again, metres.
MOVED_M = 1.0
# Period after which changed statistics are shown, nanoseconds.
REFRESH_NS = 10_000_000_000
# Opacity of certain, stale and nearly gone landmarks.
SOLID, STALE, FAINTEST = 0.9, 0.35, 0.15


class MarkerTopic:
    """Publishes what is near the robot.

    Parameters
    ----------
    node : Node
        Owner of the topic.
    memory : MemoryService
        Source of the landmarks.
    transforms : TransformSource
        Gives the robot's position.
    config : NodeConfig
        Frames and limits.
    clock : callable
        The node's clock, nanoseconds.
    """

    def __init__(
        self,
        node: Node,
        memory: MemoryService,
        transforms: TransformSource,
        config: NodeConfig,
        clock: Callable[[], int],
    ) -> None:
        self._memory, self._transforms = memory, transforms
        self._config, self._clock = config, clock
        self._topic = qos.Topic(node, MarkerArray, '~/markers', qos.LATCHED)
        self._shown: tuple[Any, ...] = ()
        self._place = (0.0, 0.0, 0.0)

    @property
    def wanted(self) -> bool:
        """True if somebody subscribes."""
        return self._topic.wanted

    def publish(self) -> None:
        """Publish, if anything has changed since the last time."""
        place = self._robot()
        # Statistics change without a new sequence.
        state = (
            *(self._memory.epoch, self._memory.sequence, self._memory.map_id),
            self._clock() // REFRESH_NS,
        )
        if (
            state == self._shown
            and sum((a - b) ** 2 for a, b in zip(place, self._place, strict=True)) < MOVED_M**2
        ):
            return
        centre = Pose(frame_id=self._config.global_frame, position=place)
        nearest = MemoryQuery(
            kinds=[MemoryKind.SPATIAL],
            near=(centre, EVERYWHERE_M),
            k=NEAREST,
            include_stale=True,
        )
        try:
            hits = self._memory.query(nearest).hits
        except LoadingError:
            return
        if self._topic.publish(marker_array(hits, self._config, self._clock())):
            self._shown, self._place = state, place

    def close(self) -> None:
        """Stop publishing. Safe to repeat."""
        self._topic.close()

    def _robot(self) -> tuple[float, float, float]:
        try:
            return self._transforms.lookup(
                self._config.global_frame, self._config.base_frame, LATEST
            ).translation
        except FrameError:
            return self._place


def marker_array(hits: Sequence[Hit], config: NodeConfig, now_ns: int) -> MarkerArray:
    """Return hits as markers, after one that deletes what was shown before."""
    header = Header(frame_id=config.global_frame, stamp=stamp_msg(now_ns))
    by_label: dict[str, list[tuple[Point, ColorRGBA]]] = defaultdict(list)
    texts = []
    for index, hit in enumerate(hits):
        pose, label = hit.item.pose, hit.item.label or 'unlabelled'
        if pose is None:
            continue
        x, y, z = pose.position
        by_label[label].append((Point(x=x, y=y, z=z), _colour(label, _opacity(hit))))
        if index < NAMED:
            texts.append(_text(header, index, hit, Point(x=x, y=y, z=z + SPHERE_M)))
    spheres = [
        _spheres(header, index, label, shown)
        for index, (label, shown) in enumerate(sorted(by_label.items(), key=lambda pair: pair[0]))
    ]
    return MarkerArray(markers=[Marker(header=header, action=Marker.DELETEALL), *spheres, *texts])


def _opacity(hit: Hit) -> float:
    """Return the opacity of a landmark: the less probable it is, the more it fades."""
    existence = None if hit.stats is None else hit.stats.existence
    solid = FAINTEST + (SOLID - FAINTEST) * (1.0 if existence is None else existence)
    return min(solid, STALE) if hit.status == 'stale' else solid


def _spheres(header: Header, index: int, label: str, shown: list[tuple[Point, ColorRGBA]]) -> Marker:
    marker = Marker(
        header=header, ns=f'landmarks/{label}', id=index, type=Marker.SPHERE_LIST, action=Marker.ADD
    )
    marker.pose.orientation.w = 1.0
    marker.scale = Vector3(x=SPHERE_M, y=SPHERE_M, z=SPHERE_M)
    marker.color = _colour(label, SOLID)
    marker.points, marker.colors = [point for point, _ in shown], [colour for _, colour in shown]
    return marker


def _text(header: Header, index: int, hit: Hit, at: Point) -> Marker:
    marker = Marker(header=header, ns='names', id=index, type=Marker.TEXT_VIEW_FACING, action=Marker.ADD)
    marker.pose.position, marker.pose.orientation.w = at, 1.0
    marker.scale.z = TEXT_M
    marker.color = ColorRGBA(r=1.0, g=1.0, b=1.0, a=1.0)
    marker.text = hit.item.key or hit.item.label
    return marker


def _colour(label: str, opacity: float) -> ColorRGBA:
    # The same label has the same colour on every robot, and none is dark.
    shade = zlib.crc32(label.encode())
    red, green, blue = (0.3 + 0.7 * (shade >> shift & 255) / 255 for shift in (0, 8, 16))
    return ColorRGBA(r=red, g=green, b=blue, a=opacity)
