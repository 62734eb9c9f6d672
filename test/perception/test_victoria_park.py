"""A real vehicle in a park: does each tree become one landmark?"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from perception.pieces import an_input, feed, is_complete, open_memory, recorded, some_settings

from hylo_memory_ros.perception import Detections, LandmarkPipeline, Message, digest32
from hylo_memory_ros.transforms import Transform

PARK = Path(__file__).resolve().parents[2] / 'demo' / 'victoria_park'


class SolvedPoses:
    """Where the vehicle was, by our own least-squares solution."""

    def __init__(self) -> None:
        with (PARK / 'poses.csv').open() as lines:
            rows = list(csv.DictReader(lines))
        self.poses = {
            int(row['stamp_ns']): (float(row['x_m']), float(row['y_m']), float(row['yaw_rad']))
            for row in rows
        }

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        x, y, yaw = self.poses[stamp_ns]
        rotation = (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2))
        return Transform((x, y, 0.0), rotation, target_frame, source_frame, stamp_ns)


def detections() -> dict[int, list[tuple[str, float, float]]]:
    """Return tree, x and y of each detection by stamp; the tree is for scoring."""
    seen: dict[int, list[tuple[str, float, float]]] = {}
    with (PARK / 'detections.csv').open() as lines:
        for row in csv.DictReader(lines):
            entry = row['tree'], float(row['x_base_m']), float(row['y_base_m'])
            seen.setdefault(int(row['stamp_ns']), []).append(entry)
    return seen


def messages(seen: dict[int, list[tuple[str, float, float]]], stamps: Iterable[int]) -> list[Message]:
    """Return one message at each stamp; the empty ones say that nothing was seen."""
    made = []
    for stamp_ns in stamps:
        points = np.array([(x, y, 0.0) for _, x, y in seen.get(stamp_ns, [])]).reshape(-1, 3)
        columns = Detections(['tree'] * len(points), points)
        made.append(Message('trees', stamp_ns, 'base_link', digest32(points.tobytes()), columns))
    return made


def pairwise_f1(truth: Sequence[str], found: Sequence[str]) -> float:
    def pairs(counts: Iterable[int]) -> int:
        return sum(count * (count - 1) // 2 for count in counts)

    both = pairs(Counter(zip(truth, found, strict=True)).values())
    return 2 * both / (pairs(Counter(truth).values()) + pairs(Counter(found).values()))


def test_each_tree_becomes_one_landmark() -> None:
    seen, vehicle = detections(), SolvedPoses()
    settings = some_settings(an_input('trees', sigma_m=0.5, gate_m=2.5))
    with open_memory(clock=lambda: 1_100_000_000 * 10**9) as memory:
        pipeline = LandmarkPipeline(memory, vehicle, settings, map_id='park')  # type: ignore[arg-type]
        assert set(feed(pipeline, messages(seen, sorted(vehicle.poses)), commit_every=200)) == {'pending'}
        pipeline.close()
        ledger = recorded(memory)
        status = pipeline.status()
        assert is_complete(memory)
    truth = [tree for stamp_ns in sorted(seen) for tree, _, _ in seen[stamp_ns]]
    found = [record.landmark or f'none {place}' for place, record in enumerate(ledger)]
    assert len(truth) == len(found) == 3640
    assert pairwise_f1(truth, found) >= 0.997
    assert 143 <= status.landmarks <= 152
