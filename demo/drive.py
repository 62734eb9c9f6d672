"""The recorded drive: where the vehicle was, what it saw, and which tree that really was."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ['FOLDER', 'Drive', 'Seen']

FOLDER = Path(__file__).parent / 'victoria_park'


@dataclass(frozen=True, slots=True)
class Seen:
    """The detections of one stamp."""

    stamp_ns: int
    """When, nanoseconds."""
    positions: NDArray[np.float64]
    """In base_link, metres, x forward and y left, shape (n, 2)."""


@dataclass(frozen=True, slots=True, eq=False)
class Drive:
    """A drive, or the first part of it."""

    stamps_ns: NDArray[np.int64]
    """Of each pose, ascending, nanoseconds, shape (m,)."""
    poses: NDArray[np.float64]
    """Of base_link in map: x and y in metres, yaw in radians, shape (m, 3)."""
    seen_ns: NDArray[np.int64]
    """Stamp of each detection, ascending, shape (n,)."""
    positions: NDArray[np.float64]
    """Of each detection in base_link, metres, x forward and y left, shape (n, 2)."""
    trees: NDArray[np.int64]
    """Which tree each detection really is of, shape (n,); only for scoring."""

    @classmethod
    def load(cls, rows: int | None = None, folder: Path = FOLDER) -> Drive:
        """Read a drive.

        Parameters
        ----------
        rows : int, optional
            Only so many poses from the beginning, and what was seen up to there.
        folder : Path
            With ``poses.csv`` and ``detections.csv``.
        """
        stamps, poses = [], []
        for row in _rows(folder / 'poses.csv', rows):
            stamps.append(int(row['stamp_ns']))
            poses.append([float(row[name]) for name in ('x_m', 'y_m', 'yaw_rad')])
        seen, positions, trees = [], [], []
        for row in _rows(folder / 'detections.csv'):
            if int(row['stamp_ns']) > stamps[-1]:
                break
            seen.append(int(row['stamp_ns']))
            positions.append([float(row[name]) for name in ('x_base_m', 'y_base_m')])
            trees.append(int(row['tree']))
        return cls(
            np.array(stamps, dtype=np.int64),
            np.array(poses).reshape(-1, 3),
            np.array(seen, dtype=np.int64),
            np.array(positions).reshape(-1, 2),
            np.array(trees, dtype=np.int64),
        )

    @property
    def start_ns(self) -> int:
        """The first stamp."""
        return int(self.stamps_ns[0])

    @property
    def half_ns(self) -> int:
        """The stamp of the pose in the middle."""
        return int(self.stamps_ns[len(self.stamps_ns) // 2])

    @property
    def end_ns(self) -> int:
        """The last stamp."""
        return int(self.stamps_ns[-1])

    def seen(self) -> Iterator[Seen]:
        """Yield the detections together that have one stamp: index is the place among them."""
        stamps, starts = np.unique(self.seen_ns, return_index=True)
        for stamp_ns, positions in zip(stamps.tolist(), np.split(self.positions, starts[1:]), strict=True):
            yield Seen(stamp_ns, positions)

    def detection_names(self) -> list[tuple[int, int]]:
        """Return stamp and index in its message of each detection, in order."""
        _, starts, counts = np.unique(self.seen_ns, return_index=True, return_counts=True)
        indices = np.arange(len(self.seen_ns)) - np.repeat(starts, counts)
        return list(zip(self.seen_ns.tolist(), indices.tolist(), strict=True))

    def digest(self) -> str:
        """Return a name for the content, 16 hexadecimal digits."""
        parts = (self.stamps_ns, self.poses, self.seen_ns, self.positions)
        return hashlib.sha256(b''.join(part.tobytes() for part in parts)).hexdigest()[:16]


def _rows(path: Path, limit: int | None = None) -> Iterator[dict[str, str]]:
    with path.open(newline='') as file:
        for index, row in enumerate(csv.DictReader(file)):
            if index == limit:
                return
            yield row
