"""Small real parts that the tests of perception share."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import select
from support.tables import read_tables

from hylo_memory_ros.errors import TransformTooNewError
from hylo_memory_ros.model import MemoryKind, MemoryQuery, QueryResult
from hylo_memory_ros.perception import (
    Detections,
    InputSettings,
    LandmarkPipeline,
    LandmarkSettings,
    Message,
    digest32,
)
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.landmarks import ObservationRecord
from hylo_memory_ros.storage.schema import association_receipt, landmark
from hylo_memory_ros.transforms import Transform

NS = 1_000_000_000
START_NS = 1_000 * NS
DETECTIONS = 'vision_msgs/msg/Detection3DArray'


class Standing:
    """A robot that stands at the origin of the map; transforms are known up to a stamp."""

    def __init__(self, known_until_ns: int | None = None) -> None:
        self.known_until_ns = known_until_ns
        self.lookups = 0

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        self.lookups += 1
        if self.known_until_ns is not None and stamp_ns > self.known_until_ns:
            raise TransformTooNewError(f'{stamp_ns} is too new')
        return Transform((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), target_frame, source_frame, stamp_ns)


class Turning(Standing):
    """A robot on a circle of 5 m about the origin, once in 60 s."""

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        super().lookup(target_frame, source_frame, stamp_ns)
        angle = 2 * math.pi * stamp_ns / (60 * NS)
        position = (5 * math.cos(angle), 5 * math.sin(angle), 0.0)
        rotation = (0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2))
        return Transform(position, rotation, target_frame, source_frame, stamp_ns)


def an_input(name: str = 'camera', **fields: Any) -> InputSettings:
    """Return an input of detections."""
    usual = {'name': name, 'topic': name, 'type': DETECTIONS, 'sigma_m': 0.05, 'gate_m': 0.5}
    return InputSettings(**{**usual, **fields})


def some_settings(*inputs: InputSettings, **fields: Any) -> LandmarkSettings:
    """Return settings with one camera unless told otherwise."""
    return LandmarkSettings(inputs=inputs or (an_input(),), **fields)


def a_message(
    at_s: float,
    positions: Sequence[Sequence[float]],
    labels: str | Sequence[str] = 'cup',
    *,
    source: str = 'camera',
    frame_id: str = 'camera_link',
    **columns: Any,
) -> Message:
    """Return a message at a time after the start, with a digest of what is in it."""
    points = np.array(positions, dtype=float).reshape(-1, 3)
    names = [labels] * len(points) if isinstance(labels, str) else list(labels)
    content = points.tobytes() + repr(names).encode()
    stamp_ns = START_NS + round(at_s * NS)
    detections = Detections(names, points, **columns)
    return Message(source, stamp_ns, frame_id, digest32(content), detections)


def a_bag(seconds: float = 20.0, seed: int = 1) -> list[Message]:
    """Return what two cameras on a turning robot see of twelve cups and mugs, in order of stamps."""
    rng = random.Random(seed)
    things = [(rng.uniform(-8, 8), rng.uniform(-8, 8), 0.8, rng.choice(['cup', 'mug'])) for _ in range(12)]
    seen = []
    for step in range(round(seconds * 10)):
        for source, delay in (('front', 0.0), ('rear', 0.031)):
            at_s = 0.1 * step + delay + rng.uniform(0.0, 0.01)
            robot = Turning().lookup('map', 'base', START_NS + round(at_s * NS)).inverse()
            near = [thing for thing in things if rng.random() < 0.7]
            noisy = [[rng.gauss(value, 0.03) for value in robot.position(thing[:3])] for thing in near]
            seen.append(a_message(at_s, noisy, [thing[3] for thing in near], source=source))
    return sorted(seen, key=lambda message: message.order)


def two_cameras(**fields: Any) -> LandmarkSettings:
    """Return the settings for `a_bag`."""
    return some_settings(an_input('front'), an_input('rear'), **fields)


def open_memory(path: Path | None = None, **fields: Any) -> MemoryService:
    """Open a memory whose clock stands after every stamp of these tests."""
    url = None if path is None else f'sqlite:///{path}'
    return MemoryService.open(url, clock=fields.pop('clock', lambda: 2_000 * NS), **fields)


def a_pipeline(
    memory: MemoryService, settings: LandmarkSettings | None = None, source: Standing | None = None
) -> LandmarkPipeline:
    """Return a pipeline in the map ``hall``."""
    return LandmarkPipeline(memory, source or Standing(), settings or some_settings(), map_id='hall')


def is_complete(memory: MemoryService) -> bool:
    """Return whether nothing was dropped or late."""
    return bool(memory.manifest()['complete'])


def feed(pipeline: LandmarkPipeline, messages: Iterable[Message], commit_every: int = 0) -> list[str]:
    """Offer messages one after the other; return what became of each."""
    outcomes = []
    for count, message in enumerate(messages, 1):
        outcomes.append(pipeline.offer(message))
        pipeline.poll()
        if commit_every and count % commit_every == 0:
            pipeline.commit()
    return outcomes


def recorded(memory: MemoryService) -> list[ObservationRecord]:
    """Return the ledger."""
    with memory.read() as view:
        return list(view.ledger.observations())


def landmark_rows(memory: MemoryService) -> list[tuple[Any, ...]]:
    """Return the stored state of all landmarks, by key."""
    query = select(landmark).order_by(landmark.c.key)
    return read_tables(memory, lambda connection: [tuple(row) for row in connection.execute(query)])


def state_of(memory: MemoryService) -> tuple[Any, ...]:
    """Return all that perception left in a memory, whatever the path that led there."""
    return memory.snapshot(), landmark_rows(memory), recorded(memory), memory.manifest()['timeline_digest']


def stored_receipts(memory: MemoryService, kind: str) -> list[dict[str, Any]]:
    """Return the stored receipts of a kind, oldest first."""
    query = select(association_receipt.c.id).order_by(association_receipt.c.row)
    ids = read_tables(memory, lambda connection: list(connection.scalars(query)))
    return [told for one in ids if (told := memory.receipt(one))['kind'] == kind]


def landmarks_of(memory: MemoryService, **fields: Any) -> QueryResult:
    """Return the items of the landmarks in the hall."""
    return memory.query(MemoryQuery(kinds=[MemoryKind.SPATIAL], scope={'map_id': 'hall'}, k=1000, **fields))
