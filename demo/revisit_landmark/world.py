"""A room with one target, and a robot that sees it only from nearby."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from hylo_memory_ros.errors import TransformTooNewError
from hylo_memory_ros.perception import Detections, Message, digest32
from hylo_memory_ros.transforms import Transform

__all__ = ['LABEL', 'Point', 'Robot', 'Room', 'sweep']

Point = tuple[float, float]

LABEL = 'target'
NS = 1_000_000_000
TICK_NS = NS // 10

_LANE_M = 0.45
_NOISE_M = 0.01


@dataclass(slots=True)
class Room:
    """An empty room, and where the target stands in it."""

    target: Point
    """Metres."""
    width_m: float = 6.0
    height_m: float = 4.5
    sight_m: float = 0.25
    """From how far the target is seen, metres."""

    def somewhere(self, chance: random.Random) -> Point:
        """Return a random place, not right at a wall."""
        return chance.uniform(0.3, self.width_m - 0.3), chance.uniform(0.3, self.height_m - 0.3)


@dataclass(slots=True)
class Robot:
    """A robot that always knows where it is, and counts its steps.

    It is a `TransformSource`: where its base was at the stamps of its own messages.
    """

    room: Room
    at: Point
    chance: random.Random
    now_ns: int
    step_m: float = 0.2
    heading: float = 0.0
    steps: int = 0
    path: list[Point] = field(default_factory=list)
    _poses: dict[int, Transform] = field(default_factory=dict)

    def place(self, at: Point) -> None:
        """Carry the robot somewhere; its steps are counted from here."""
        self.at, self.steps, self.path = at, 0, [at]

    def towards(self, goal: Point) -> bool:
        """Make one step towards a goal; return whether it is reached."""
        dx, dy = goal[0] - self.at[0], goal[1] - self.at[1]
        away = math.hypot(dx, dy)
        if away > 1e-9:
            share = min(1.0, self.step_m / away)
            self.at = self.at[0] + share * dx, self.at[1] + share * dy
            self.heading = math.atan2(dy, dx)
            self.steps += 1
            self.path.append(self.at)
        return away <= self.step_m

    def turn(self, angle: float) -> None:
        """Turn on the spot, radians."""
        self.heading += angle

    @property
    def sees_target(self) -> bool:
        """Whether the target is near enough."""
        return math.dist(self.at, self.room.target) <= self.room.sight_m

    def look(self) -> Message:
        """Return what the camera reports now: the target, or nothing; an empty message is a message."""
        self.now_ns += TICK_NS
        pose = self.pose()
        self._poses[self.now_ns] = pose
        seen = [(*self.room.target, 0.0)] if self.sees_target else []
        places = np.array([pose.inverse().position(place) for place in seen]).reshape(-1, 3)
        places[:, :2] += [[self.chance.gauss(0.0, _NOISE_M) for _ in range(2)] for _ in seen] or 0.0
        detections = Detections([LABEL] * len(seen), places)
        return Message('camera', self.now_ns, 'base_link', digest32(places.tobytes()), detections)

    def pose(self) -> Transform:
        """Return ``map_from_base``."""
        turn = (0.0, 0.0, math.sin(self.heading / 2), math.cos(self.heading / 2))
        return Transform((*self.at, 0.0), turn, 'map', 'base_link', self.now_ns)

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        """Return where the base was at the stamp of one of its messages."""
        try:
            return self._poses[stamp_ns]
        except KeyError:
            raise TransformTooNewError(f'{source_frame} at {stamp_ns} ns is not known yet') from None

    @property
    def refused(self) -> Mapping[str, int]:
        """Nothing is refused."""
        return {}

    def frames(self) -> tuple[str, ...]:
        """Return the frames that it knows."""
        return 'base_link', 'map'

    def clear(self) -> None:
        """Forget where it was."""
        self._poses.clear()

    def on_change(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Do nothing: poses are there before the messages that need them."""
        return lambda: None


def sweep(room: Room, start: Point) -> Iterator[Point]:
    """Yield the corners of lanes that cover a room, from the corner that is nearest to the start."""
    lanes = math.ceil(room.height_m / _LANE_M)
    rows = [min((lane + 0.5) * _LANE_M, room.height_m) for lane in range(lanes)]
    ends = [0.0, room.width_m]
    if start[1] > room.height_m / 2:
        rows.reverse()
    if start[0] > room.width_m / 2:
        ends.reverse()
    for row in rows:
        yield ends[0], row
        yield ends[1], row
        ends.reverse()
