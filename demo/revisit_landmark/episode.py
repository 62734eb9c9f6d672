"""One episode: from somewhere in the room to the target, with a memory or without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from demo.revisit_landmark.world import LABEL, Point, Robot, sweep
from hylo_memory_ros.model import Hit, MemoryQuery, Pose
from hylo_memory_ros.perception import AbsenceReport, InputSettings, LandmarkPipeline, LandmarkSettings
from hylo_memory_ros.service import MemoryService

__all__ = ['MAP', 'SETTINGS', 'Memory', 'Mode', 'explore', 'recall']

MAP = 'room'
Mode = Literal['explored', 'went straight', 'was wrong, corrected']

# How often it looks once it is there; and from how many headings before it gives a place up.
_LOOKS = 8
_HEADINGS = 2
_QUARTER = 1.5707963

SETTINGS = LandmarkSettings(
    inputs=(
        InputSettings(
            name='camera',
            topic='camera',
            type='vision_msgs/msg/Detection3DArray',
            sigma_m=0.02,
            gate_m=0.3,
        ),
    ),
    unique=(LABEL,),
)
"""There is one target: seen elsewhere, it has moved."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the robot remembers, and how it comes to."""

    store: MemoryService
    perception: LandmarkPipeline

    def look(self, robot: Robot, times: int = 1) -> None:
        """Let perception see what the robot sees."""
        for _ in range(times):
            self.perception.offer(robot.look())
            self.perception.poll()

    def settle(self) -> None:
        """Process and store all that was seen."""
        self.perception.flush()
        self.perception.commit(force=True)

    def targets(self, at: Point) -> list[Hit]:
        """Return where the target may be, nearest first; what is in doubt is left out."""
        here = Pose(frame_id='map', position=(*at, 0.0))
        return list(
            self.store.query(MemoryQuery(labels=[LABEL], near=(here, 100.0), include_stale=False, k=10))
        )

    def report_absent(self, robot: Robot, hit: Hit) -> None:
        """Say that the target is not where it was remembered, from here and now."""
        self.perception.report_absent(
            AbsenceReport(id=hit.item.id or '', observed_from=robot.pose(), at_ns=robot.now_ns, actor='robot')
        )


def explore(robot: Robot, memory: Memory | None = None) -> None:
    """Cover the room lane by lane until the target is seen."""
    for corner in sweep(robot.room, robot.at):
        if _go(robot, corner, memory):
            return
    raise RuntimeError('the lanes left something out')


def recall(robot: Robot, memory: Memory) -> Mode:
    """Go where the target is remembered; report what is not there, and explore at last."""
    memory.look(robot)
    disappointed = False
    while not robot.sees_target and (hits := memory.targets(robot.at)):
        hit = hits[0]
        assert hit.item.pose is not None
        x, y, _ = hit.item.pose.position
        if _go(robot, (x, y), memory):
            break
        disappointed = True
        for _ in range(_HEADINGS):
            robot.turn(_QUARTER)
            memory.look(robot)
            memory.report_absent(robot, hit)
    straight = robot.sees_target
    if not straight:
        explore(robot, memory)
    memory.look(robot, _LOOKS)
    memory.settle()
    if disappointed:
        return 'was wrong, corrected'
    return 'went straight' if straight else 'explored'


def _go(robot: Robot, goal: Point, memory: Memory | None) -> bool:
    """Go to a goal, or as far as the target comes into sight; return whether it did."""
    reached = False
    while not (reached or robot.sees_target):
        reached = robot.towards(goal)
        if memory is not None:
            memory.look(robot)
    return robot.sees_target
