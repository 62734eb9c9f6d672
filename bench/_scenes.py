"""Made-up scenes for association, with the truth beside them, and what is counted against it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.perception import Detections, InputSettings, LandmarkSettings, Message
from hylo_memory_ros.perception.ingestion.validation import DetectionValidator
from hylo_memory_ros.perception.map.landmark import NEVER
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.tracking.data_association import GatedAssociation
from hylo_memory_ros.transforms import Transform

__all__ = ['Counted', 'Seen', 'Watched', 'cups', 'one_object', 'place_objects', 'room']

NS = 1_000_000_000
START_NS = 1_000 * NS
OUTLIER = -1
LABELS = ('cup', 'mug', 'chair', 'box', 'plant', 'lamp', 'landmark_map', 'validator')

Array = NDArray[np.float64]


class Seen(NamedTuple):
    """One message, and what its detections are of."""

    message: Message
    global_from_base: Transform
    """Where localization puts the robot."""
    objects: Sequence[int]
    """Object of each detection, or `OUTLIER`."""


class Counted(NamedTuple):
    """Landmarks against objects."""

    duplicates: int
    """Further landmarks of an object, and landmarks mostly of outliers."""
    missed: int
    """Objects without a landmark whose detections are in no other's."""
    wrongly_merged: int
    """Objects whose detections mostly lie in another's landmark."""
    nees: float
    """Mean normalized squared error of the landmarks' positions, per degree of freedom."""


class Watched:
    """An association at work, and what it gave each detection to."""

    def __init__(self, source: InputSettings, settings: LandmarkSettings | None = None) -> None:
        self.settings = (settings or LandmarkSettings()).model_copy(update={'inputs': (source,)})
        self.association = GatedAssociation(self.settings)
        self.landmark_map = LandmarkMap('room', source.gate_m)
        self.given: list[tuple[int, int]] = []
        """Object and landmark of each detection."""
        self.items = 0
        """Versions written."""
        self._validator = DetectionValidator(source, lambda reason, count: None)

    def see(self, seen: Seen) -> None:
        """Take one message."""
        base = seen.global_from_base
        outcome = self.association.observe(
            self._validator.validate(seen.message, base, base), self.landmark_map
        )
        self.items += len(outcome.items)
        self.given += zip(seen.objects, outcome.landmarks.tolist(), strict=True)

    def landmarks(self, *, confirmed: bool = True) -> dict[int, int]:
        """Return the row of each landmark that is there, by number."""
        state = self.landmark_map.state[: len(self.landmark_map.keys)]
        there = state['live'] & (state['forgotten_ns'] == NEVER)
        if confirmed:
            there &= state['written_ns'] != NEVER
        return {int(state['number'][row]): row for row in np.flatnonzero(there).tolist()}

    def counted(self, truth: Array) -> Counted:
        """Count the confirmed landmarks against the objects, shape (n, 3)."""
        rows, state = self.landmarks(), self.landmark_map.state
        into = {int(n): int(m) for n, m in zip(state['number'], state['merged_into'], strict=True) if m}
        votes: dict[int, Counter[int]] = {number: Counter() for number in rows}
        where: dict[int, Counter[int]] = {number: Counter() for number in range(len(truth))}
        for thing, landmark in self.given:
            while landmark in into:
                landmark = into[landmark]
            if landmark in votes:
                votes[landmark][thing] += 1
            if thing != OUTLIER:
                where[thing][landmark if landmark in votes else 0] += 1
        owner = {number: count.most_common(1)[0][0] for number, count in votes.items()}
        owned = Counter(thing for thing in owner.values() if thing != OUTLIER)
        outliers = sum(thing == OUTLIER for thing in owner.values())
        duplicates = outliers + sum(count - 1 for count in owned.values())
        missed = merged = 0
        for thing, counts in where.items():
            most = counts.most_common(1)[0][0] if counts else 0
            if most and owner[most] != thing:
                merged += 1
            elif not owned[thing]:
                missed += 1
        errors = []
        for number, thing in owner.items():
            if thing != OUTLIER:
                row = rows[number]
                xx, xy, xz, yy, yz, zz = state['covariance'][row].tolist()
                spread = np.array([(xx, xy, xz), (xy, yy, yz), (xz, yz, zz)])
                step = state['mean'][row] - truth[thing]
                errors.append(float(step @ np.linalg.solve(spread, step)) / 3.0)
        return Counted(duplicates, missed, merged, float(np.mean(errors)))


def place_objects(
    rng: np.random.Generator, count: int = 200, size: Sequence[float] = (20.0, 20.0, 3.0)
) -> Array:
    """Return objects at least 0.4 m apart, metres, shape (count, 3)."""
    placed: list[Array] = []
    while len(placed) < count:
        point = rng.uniform(0.0, 1.0, 3) * size
        if all(np.linalg.norm(point - other) >= 0.4 for other in placed):
            placed.append(point)
    return np.array(placed)


def room(seed: int, visits: int = 100, messages: int = 1) -> tuple[Array, Iterator[Seen]]:
    """Return where 200 objects of 8 labels are, and what a robot reports of them on its visits.

    3 cm noise, 10 % wrong labels, 2 % uniform outliers, 10 % drop-outs; on each visit the robot
    stands elsewhere, and its localization is wrong by 3 cm on each axis.
    """
    rng = np.random.default_rng(seed)
    truth, size = place_objects(rng), np.array((20.0, 20.0, 3.0))
    kinds = rng.integers(0, len(LABELS), len(truth))

    def visit() -> Iterator[Seen]:
        for number in range(visits):
            place = rng.uniform(0.0, 1.0, 3) * (size[0], size[1], 0.0)
            yaw, bias = rng.uniform(-math.pi, math.pi), rng.normal(0.0, 0.03, 3)
            for shot in range(messages):
                stamp_ns = START_NS + 300 * number * NS + shot * NS // 10
                yield _report(rng, truth, kinds, size, (place, bias, yaw), stamp_ns)

    return truth, visit()


def _report(
    rng: np.random.Generator,
    truth: Array,
    kinds: NDArray[np.int64],
    size: Array,
    robot: tuple[Array, Array, float],
    stamp_ns: int,
) -> Seen:
    place, bias, yaw = robot
    seen = np.flatnonzero(rng.random(len(truth)) >= 0.1)
    points = truth[seen] + rng.normal(0.0, 0.03, (len(seen), 3))
    names = np.where(rng.random(len(seen)) < 0.1, rng.integers(0, len(LABELS), len(seen)), kinds[seen])
    outlier = rng.random(len(seen)) < 0.02
    points[outlier] = rng.uniform(0.0, 1.0, (int(outlier.sum()), 3)) * size
    objects = np.where(outlier, OUTLIER, seen)
    order = rng.permutation(len(seen))
    # What the robot measures is right relative to it; only it is not where it thinks.
    true_from_base = _pose(place, yaw)
    local = true_from_base.inverse().positions(points[order])
    labels = [LABELS[name] for name in names[order]]
    message = Message('camera', stamp_ns, 'base_link', int(rng.integers(2**32)), Detections(labels, local))
    return Seen(message, _pose(place + bias, yaw), objects[order].tolist())


def cups(seed: int, messages: int = 1000) -> Iterator[Seen]:
    """Yield what is seen of two equal cups 5 cm apart, boxes 8 cm wide, 2 cm noise, 10 % drop-outs."""
    rng = np.random.default_rng(seed)
    truth = np.array([(1.0, 0.0, 0.8), (1.05, 0.0, 0.8)])
    for number in range(messages):
        seen = rng.permutation(np.flatnonzero(rng.random(2) >= 0.1))
        points = truth[seen] + rng.normal(0.0, 0.02, (len(seen), 3))
        sizes = np.full((len(seen), 3), 0.08)
        detections = Detections(['cup'] * len(seen), points, extents=sizes)
        message = Message('camera', START_NS + number * NS // 10, 'base_link', number, detections)
        yield Seen(message, Transform((0.0, 0.0, 0.0)), seen.tolist())


def one_object(seed: int, visits: int = 8, messages: int = 20) -> Iterator[Seen]:
    """Yield what is seen of one object on visits with 5 cm bias each, 2 cm noise."""
    rng = np.random.default_rng(seed)
    for visit in range(visits):
        bias = rng.normal(0.0, 0.05, 3)
        for shot in range(messages):
            point = np.array([(2.0, 0.0, 0.8)]) + rng.normal(0.0, 0.02, (1, 3))
            stamp_ns = START_NS + visit * 300 * NS + shot * NS // 10
            message = Message('camera', stamp_ns, 'base_link', shot, Detections(['box'], point))
            yield Seen(message, Transform((float(bias[0]), float(bias[1]), float(bias[2]))), [0])


def _pose(place: Array, yaw: float) -> Transform:
    x, y, z = place.tolist()
    return Transform((x, y, z), (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)))
