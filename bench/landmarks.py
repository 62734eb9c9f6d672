"""Association against the truth of made-up scenes, against the clock, and what it writes."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench._figure import at_least, at_most, seconds
from bench._scenes import Watched, cups, one_object, room
from hylo_memory_ros.perception import Detections, InputSettings, LandmarkPipeline, LandmarkSettings, Message
from hylo_memory_ros.perception.ingestion.validation import DetectionValidator
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import Transform

SEEDS = range(3)
NS = 1_000_000_000
START_NS = 1_000_000_000 * NS
HERE = Transform((0.0, 0.0, 0.0))
OBJECTS = 200
# An hour of it, or less for a quick look: figures are scaled to the hour, and the beginning of a
# memory, before its bounded tables are full, then counts for more than it is worth.
HOURS = float(os.environ.get('HYLO_BENCH_HOURS', '1'))
RATE_HZ = 30


def an_input(name: str = 'camera', **fields: Any) -> InputSettings:
    """Return an input of detections."""
    return InputSettings(name=name, topic=name, type='vision_msgs/msg/Detection3DArray', **fields)


def scenes() -> Iterator[dict[str, Any]]:
    """Objects in a room, two cups, one object: landmarks against what is there, the worst of all seeds."""
    counts = []
    for seed in SEEDS:
        truth, reports = room(seed)
        watched = Watched(an_input(sigma_m=0.03))
        for seen in reports:
            watched.see(seen)
        counts.append(watched.counted(truth))
    for name in ('duplicates', 'missed', 'wrongly_merged'):
        yield at_most(f'room_{name}', max(getattr(one, name) for one in counts) / OBJECTS, 0.01)
    yield at_least('room_nees_at_least', min(one.nees for one in counts), 0.5)
    yield at_most('room_nees_at_most', max(one.nees for one in counts), 2.0)
    found = []
    for seed in SEEDS:
        watched = Watched(an_input(sigma_m=0.02))
        for seen in cups(seed):
            watched.see(seen)
        found.append(len(watched.landmarks(confirmed=False)))
    yield at_least('two_cups_at_least', min(found), 2)
    yield at_most('two_cups_at_most', max(found), 2)
    found = []
    for seed in range(20):
        watched = Watched(an_input(sigma_m=0.02))
        for seen in one_object(seed):
            watched.see(seen)
        found.append(len(watched.landmarks(confirmed=False)))
    yield at_most('one_object_on_eight_visits', max(found), 1, mean=round(float(np.mean(found)), 3))


def latency() -> Iterator[dict[str, Any]]:
    """100 detections against 100 000 landmarks, one message after the other."""
    rng = np.random.default_rng(0)
    source = an_input(sigma_m=0.03)
    settings = LandmarkSettings(tentative_max=200_000)
    watched, validator = Watched(source, settings), DetectionValidator(source, lambda reason, count: None)
    side = math.ceil(100_000 ** (1 / 3))
    grid = np.stack(np.meshgrid(*3 * [np.arange(side) * 0.7], indexing='ij'), axis=-1).reshape(-1, 3)
    places = grid[:100_000] + 1.0
    for start in range(0, len(places), 5000):
        part = places[start : start + 5000]
        _observe(watched, validator, part, 1 + start)
    for again in range(4):
        for start in range(0, len(places), 5000):
            _observe(watched, validator, places[start : start + 5000], 200_000 * (again + 1) + start)
    times = []
    for step in range(200):
        chosen = places[rng.choice(len(places), 100, replace=False)]
        seen = chosen + rng.normal(0.0, 0.03, chosen.shape)
        times.append(seconds(lambda seen=seen, step=step: _observe(watched, validator, seen, 10**7 + step)))  # type: ignore[misc]
    more = {'p95_ms': round(1e3 * float(np.percentile(times, 95)), 2), 'landmarks': len(watched.landmark_map)}
    yield at_most('association_100_against_100000_ms', 1e3 * float(np.median(times)), 10.0, **more)


def _observe(watched: Watched, validator: DetectionValidator, points: Any, step: int) -> None:
    message = Message(
        'camera', START_NS + step * NS // RATE_HZ, 'base', step, Detections(['box'] * len(points), points)
    )
    watched.association.observe(validator.validate(message, HERE), watched.landmark_map)


class Circling:
    """A robot that drives in a circle of 6 m among the landmarks, once a minute."""

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        """Return where it is at a stamp."""
        angle = 2 * math.pi * ((stamp_ns - START_NS) % (60 * NS)) / (60 * NS)
        place = (18.0 + 6.0 * math.cos(angle), 18.0 + 6.0 * math.sin(angle), 0.0)
        turn = (0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2))
        return Transform(place, turn, target_frame, source_frame, stamp_ns)


def growth() -> Iterator[dict[str, Any]]:
    """What an hour of 30 messages a second with 100 detections each adds to the file, and writes.

    Detections come in the order of their scores, which is another one in every message.
    """
    count = round(HOURS * 3600 * RATE_HZ)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'memory.db'
        _drive(path, 0, 60 * RATE_HZ)
        size, written = path.stat().st_size, _written()
        landmarks = _drive(path, 60 * RATE_HZ, 60 * RATE_HZ + count)
        grown, wrote = path.stat().st_size - size, _written() - written
    more = {'landmarks': landmarks, 'hours': HOURS}
    yield at_most('growth_mb_per_hour', grown / 1e6 / HOURS, 5.0, **more)
    yield at_most('written_mb_per_hour', wrote / 1e6 / HOURS, 100.0)


def _drive(path: Path, first: int, last: int) -> int:
    """Feed messages to a memory as the node does; return how many landmarks it has."""
    rng = np.random.default_rng(first)
    row = np.arange(10) * 4.0
    truth = np.stack([*np.meshgrid(row, row), np.full((10, 10), 0.5)], axis=-1).reshape(-1, 3)
    settings, robot, clock = LandmarkSettings(inputs=(an_input(sigma_m=0.05),)), Circling(), [START_NS]
    with MemoryService.open(f'sqlite:///{path}', clock=lambda: clock[0]) as memory:
        pipeline = LandmarkPipeline(memory, robot, settings, map_id='hall')  # type: ignore[arg-type]
        for step in range(first, last):
            stamp_ns = START_NS + step * NS // RATE_HZ
            clock[0] = max(clock[0], stamp_ns)
            base = robot.lookup('map', 'base_link', stamp_ns).inverse()
            points = base.positions(rng.permutation(truth)) + rng.normal(0.0, 0.02, truth.shape)
            found = Detections(['tree'] * len(points), points)
            pipeline.offer(Message('camera', stamp_ns, 'base_link', int(rng.integers(2**32)), found))
            pipeline.poll()
            # The node commits once a second.
            if step % RATE_HZ == 0:
                pipeline.commit()
        pipeline.close()
        return pipeline.status().landmarks


def _written() -> int:
    """Return the bytes that this process handed to the file system."""
    for line in Path('/proc/self/io').read_text().splitlines():
        name, _, value = line.partition(': ')
        if name == 'wchar':
            return int(value)
    raise RuntimeError('/proc/self/io: there is no wchar')


FIGURES = {'scenes': scenes, 'latency': latency, 'growth': growth}
