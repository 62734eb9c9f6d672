"""Episodes in a row: the target moves, somebody writes down a wrong place, and what comes of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from demo.revisit_landmark.episode import MAP, SETTINGS, Memory, Mode, explore, recall
from demo.revisit_landmark.world import LABEL, NS, Point, Robot, Room
from hylo_memory_ros.model import MemoryItem, MemoryKind, Pose
from hylo_memory_ros.perception import LandmarkPipeline
from hylo_memory_ros.service import MemoryService

__all__ = ['EPISODES', 'MOVED', 'WRONG', 'Episode', 'Result', 'run']

Event = Literal['', 'target moved', 'wrong place by hand']

EPISODES = 16
MOVED = 7
"""Before this episode, counted from 1, somebody moves the target."""
WRONG = 12
"""Before this one somebody writes down a place where it is not."""
START_NS = 1_700_000_000 * NS
PAUSE_NS = 600 * NS


@dataclass(frozen=True, slots=True)
class Episode:
    """One way to the target."""

    number: int
    """From 1."""
    event: Event
    """What happened before it."""
    mode: Mode
    """How the robot with a memory got there."""
    with_memory: int
    """Its steps."""
    without: int
    """Steps of one that explores every time, from the same place."""
    believed: tuple[Point, ...]
    """Where the memory says that the target is, afterwards."""
    target: Point
    """Where it is."""
    path: tuple[Point, ...]
    """The way of the robot with a memory."""


@dataclass(frozen=True, slots=True)
class Result:
    """All episodes of one run."""

    room: Room
    """The room, with the target where it stood at last."""
    episodes: Sequence[Episode]
    """In their order."""
    snapshot: str
    """What was remembered at the end."""

    @property
    def ratio(self) -> float:
        """Return the steps of the later episodes with a memory, by those without one."""
        later = self.episodes[1:]
        return sum(one.with_memory for one in later) / sum(one.without for one in later)


def run(file: Path | None = None, seed: int = 1, episodes: int = EPISODES) -> Result:
    """Run the experiment; the same seed gives the same steps.

    Parameters
    ----------
    file : Path, optional
        Where the memory is kept; None: in the process.
    """
    chance = random.Random(seed)
    room = Room(target=(0.0, 0.0))
    room.target = room.somewhere(chance)
    robot = Robot(room, (0.0, 0.0), chance, START_NS)
    url = None if file is None else f'sqlite:///{file.resolve()}'
    with MemoryService.open(url, clock=lambda: robot.now_ns, map_id=MAP) as store:
        memory = Memory(store, LandmarkPipeline(store, robot, SETTINGS, map_id=MAP))
        told = [_episode(number, robot, memory, chance) for number in range(1, episodes + 1)]
        memory.perception.close()
        return Result(room, told, store.snapshot())


def _episode(number: int, robot: Robot, memory: Memory, chance: random.Random) -> Episode:
    start = robot.room.somewhere(chance)
    event = _event(number, start, robot, memory, chance)
    robot.now_ns += PAUSE_NS
    robot.place(start)
    explore(robot)
    without = robot.steps
    robot.place(start)
    mode = recall(robot, memory)
    believed = tuple(_place(hit.item) for hit in memory.targets(robot.at))
    return Episode(number, event, mode, robot.steps, without, believed, robot.room.target, tuple(robot.path))


def _event(number: int, start: Point, robot: Robot, memory: Memory, chance: random.Random) -> Event:
    room = robot.room
    if number == MOVED:
        before = room.target
        while abs(room.target[0] - before[0]) + abs(room.target[1] - before[1]) < 2.0:
            room.target = room.somewhere(chance)
        return 'target moved'
    if number == WRONG:
        # On the way from the start to the other side of the target, so that it is tried first.
        x, y = (2.0 * here - there for here, there in zip(start, room.target, strict=True))
        x, y = min(max(x, 0.0), room.width_m), min(max(y, 0.0), room.height_m)
        x, y = (0.5 * (here + away) for here, away in zip(start, (x, y), strict=True))
        wrong = MemoryItem(
            kind=MemoryKind.SPATIAL,
            key=f'{LABEL}/by-hand',
            label=LABEL,
            content='somebody said that it is here',
            pose=Pose(frame_id='map', position=(x, y, 0.0)),
            valid_from_ns=robot.now_ns,
        )
        memory.store.write([wrong])
        return 'wrong place by hand'
    return ''


def _place(item: MemoryItem) -> Point:
    assert item.pose is not None
    x, y, _ = item.pose.position
    return x, y
