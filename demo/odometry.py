"""The drive as odometry alone tells it, and the corrected path that a loop closure would send."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from demo.drive import FOLDER, Drive
from hylo_memory_ros.perception import Detections, Message, Trajectory, digest32
from hylo_memory_ros.transforms import Transform

__all__ = ['BareOdometry', 'drive_messages', 'solved_path']

Pose = tuple[float, float, float]


class Step(NamedTuple):
    """How the vehicle moved until a stamp, in its own axes."""

    dx_m: float
    dy_m: float
    dyaw_rad: float


class BareOdometry:
    """Where the vehicle was by its odometry alone, unless it was relocalized.

    Parameters
    ----------
    drive : Drive
        Where it began.
    folder : Path
        With ``odometry.csv``.
    """

    def __init__(self, drive: Drive, folder: Path = FOLDER) -> None:
        self._drive = drive
        self._steps = dict(_steps(folder / 'odometry.csv'))
        self._poses: dict[int, Pose] = {}
        self.relocalize(0)

    def relocalize(self, index: int) -> None:
        """Go on from the solved pose of this index."""
        stamps = self._drive.stamps_ns.tolist()
        x, y, yaw = self._drive.poses[index].tolist()
        self._poses[stamps[index]] = x, y, yaw
        for stamp in stamps[index + 1 :]:
            step, cosine, sine = self._steps[stamp], math.cos(yaw), math.sin(yaw)
            x += cosine * step.dx_m - sine * step.dy_m
            y += sine * step.dx_m + cosine * step.dy_m
            yaw += step.dyaw_rad
            self._poses[stamp] = x, y, yaw

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        """Return ``map_from_base_link`` at one of the drive's stamps."""
        x, y, yaw = self._poses[stamp_ns]
        rotation = (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2))
        return Transform((x, y, 0.0), rotation, target_frame, source_frame, stamp_ns)


def solved_path(drive: Drive, every: int, end: int | None = None) -> Trajectory:
    """Return the solved pose at every so-manieth stamp, and at the last one."""
    count = len(drive.stamps_ns) if end is None else end
    rows = np.unique([*range(0, count, every), count - 1])
    x, y, yaw = drive.poses[rows].T
    zero = np.zeros(len(rows))
    turns = np.stack([zero, zero, np.sin(yaw / 2), np.cos(yaw / 2)], axis=1)
    return Trajectory.of(drive.stamps_ns[rows], np.stack([x, y, zero], axis=1), turns)


def drive_messages(drive: Drive, source: str, label: str) -> list[Message]:
    """Return one message for each pose; the empty ones say that nothing was seen."""
    seen = {one.stamp_ns: one.positions for one in drive.seen()}
    return [_message(source, label, stamp, seen.get(stamp)) for stamp in drive.stamps_ns.tolist()]


def _message(source: str, label: str, stamp_ns: int, positions: NDArray[np.float64] | None) -> Message:
    flat = np.zeros((0, 2)) if positions is None else positions
    points = np.concatenate([flat, np.zeros((len(flat), 1))], axis=1)
    columns = Detections([label] * len(points), points)
    return Message(source, stamp_ns, 'base_link', digest32(points.tobytes()), columns)


def _steps(path: Path) -> Iterator[tuple[int, Step]]:
    with path.open(newline='') as file:
        for row in csv.DictReader(file):
            yield int(row['stamp_ns']), Step(*(float(row[name]) for name in Step._fields))
