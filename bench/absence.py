"""What it costs to ask of every message what it should have shown and did not."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench._figure import at_most
from hylo_memory_ros.perception import Detections, InputSettings, LandmarkSettings, Message
from hylo_memory_ros.perception.existence.existence_monitor import ExistenceMonitor
from hylo_memory_ros.perception.existence.visibility import CameraModel, DepthImage
from hylo_memory_ros.perception.ingestion.validation import DetectionValidator
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.map.sightings import Keyframes
from hylo_memory_ros.perception.tracking.data_association import AssociationResult
from hylo_memory_ros.transforms import Transform

NS = 1_000_000_000
START_NS = 1_000_000_000 * NS
HERE = Transform((0.0, 0.0, 0.0))
RATE_HZ = 30
COUNT = 100_000
CAMERA = CameraModel((100.0, 100.0, 80.0, 60.0), 160)
NOTHING = Detections((), np.zeros((0, 3)))


def an_input(name: str, kind: str, **fields: Any) -> InputSettings:
    """Return an input of a type."""
    return InputSettings(name=name, topic=name, type=kind, **fields)


def absence() -> Iterator[dict[str, Any]]:
    """What absence adds to a message with 100 000 landmarks: 100 in view, a tenth missed, a depth image."""
    rng = np.random.default_rng(0)
    view = {'fov_horizontal_rad': 1.2, 'fov_vertical_rad': 1.0, 'max_range_m': 4.4, 'view_axis': 'x'}
    source = an_input('camera', 'vision_msgs/msg/Detection3DArray', visibility='depth', **view)
    info = an_input('info', 'sensor_msgs/msg/CameraInfo')
    depth = an_input('depth', 'sensor_msgs/msg/Image', camera_info='info')
    settings = LandmarkSettings(inputs=(source, info, depth))
    existence, validator = ExistenceMonitor(settings), DetectionValidator(source, lambda reason, count: None)
    landmark_map = _full_map(settings)
    image = DepthImage(np.full((120, 160), 9.0, dtype=np.float32))
    existence.take_view(Message('info', START_NS, 'base', 0, NOTHING, view=CAMERA), HERE)
    times, misses, in_view = [], 0, []
    for step in range(900):
        stamp_ns, robot = START_NS + step * NS // RATE_HZ, _strolling(step)
        optical = robot @ Transform((0.0, 0.0, 0.0), (-0.5, 0.5, -0.5, 0.5))
        existence.take_view(Message('depth', stamp_ns, 'optical', step, NOTHING, view=image), optical)
        seen = _in_view(landmark_map, robot)
        in_view.append(len(seen))
        seen = seen[rng.random(len(seen)) < 0.9]
        found = Detections(['box'] * len(seen), robot.inverse().positions(landmark_map.state['mean'][seen]))
        scan = validator.validate(Message('camera', stamp_ns, 'base', step, found), robot, robot)
        landmark_map.keyframes.advance(stamp_ns, robot)
        outcome = AssociationResult(np.zeros(len(seen), dtype=np.int64), (), seen=seen)
        begun = time.perf_counter()
        told = existence.observe(scan, outcome, landmark_map)
        times.append(1e3 * (time.perf_counter() - begun))
        misses += sum(len(one.as_dict()['decisions']) for one in told.receipts)
    more = {
        'median_ms': round(float(np.median(times)), 2),
        'p95_ms': round(float(np.percentile(times, 95)), 2),
        'in_view': round(float(np.mean(in_view))),
        'misses': misses,
        'landmarks': len(landmark_map),
    }
    yield at_most('absence_mean_ms_per_message_at_100000', float(np.mean(times)), 2.0, **more)


def _full_map(settings: LandmarkSettings) -> LandmarkMap:
    """Return 100 000 landmarks in a cube, each 0.6 m from the next, all of them written."""
    side = math.ceil(COUNT ** (1 / 3))
    places = 0.6 * np.stack(np.meshgrid(*3 * [np.arange(side)], indexing='ij'), axis=-1).reshape(-1, 3)
    landmark_map = LandmarkMap('hall', 0.5, keyframes=Keyframes(settings))
    for number in range(COUNT):
        landmark_map.add(f'box/{number}', 'box', source='camera')
    state = landmark_map.state[:COUNT]
    state['mean'] = state['written'] = places[:COUNT]
    state['n'], state['existence'] = 100, 2.0
    state['written_ns'] = state['first_ns'] = state['since_ns'] = START_NS - NS
    landmark_map.place(np.arange(COUNT))
    return landmark_map


def _strolling(step: int) -> Transform:
    """Return where a robot is that walks through the cube at 0.5 m/s and looks ahead."""
    return Transform((4.0 + 0.5 * step / RATE_HZ, 13.0, 13.0))


def _in_view(landmark_map: LandmarkMap, robot: Transform) -> Any:
    x, y, z = robot.inverse().positions(landmark_map.state['mean'][: len(landmark_map.keys)]).T
    flat = np.hypot(x, y)
    inside = (np.abs(np.arctan2(y, x)) <= 0.55) & (np.abs(np.arctan2(z, flat)) <= 0.45)
    return np.flatnonzero(inside & (np.hypot(flat, z) <= 4.3))


FIGURES = {'absence': absence}
