"""A map that moved under its landmarks: they follow their sightings, are merged and split, and go back."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from perception.pieces import (
    NS,
    START_NS,
    Standing,
    a_message,
    a_pipeline,
    feed,
    landmarks_of,
    open_memory,
    recorded,
    some_settings,
    state_of,
)
from sqlalchemy import select
from support.tables import read_tables

from hylo_memory_ros.errors import InvalidRequestError, NotFoundError
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.perception import LandmarkPipeline, Message, RigidCorrection, Trajectory
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.schema import keyframe, landmark, sighting
from hylo_memory_ros.transforms import Transform


class Drifting(Standing):
    """A robot on a circle of 5 m, once a minute; its odometry loses `drift_m` a second to the side."""

    def __init__(self, drift_m: float) -> None:
        super().__init__()
        self.drift_m = drift_m

    def true_pose(self, stamp_ns: int) -> Transform:
        angle = 2.0 * math.pi * (stamp_ns - START_NS) / (60 * NS)
        place = (5.0 * math.cos(angle), 5.0 * math.sin(angle), 0.0)
        return Transform(place, (0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2)))

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        super().lookup(target_frame, source_frame, stamp_ns)
        true = self.true_pose(stamp_ns)
        x, y, z = true.translation
        y += self.drift_m * (stamp_ns - START_NS) / NS
        return Transform((x, y, z), true.rotation, target_frame, source_frame, stamp_ns)


CUPS = [(6.0, 0.0, 0.5), (-3.0, 5.2, 0.5), (-3.0, -5.2, 0.5)]


def a_round(robot: Drifting, seconds: int = 180) -> list[Message]:
    """Return what the robot sees of three cups outside of its circle, once a second."""
    messages = []
    for step in range(seconds):
        base_from_map = robot.true_pose(START_NS + step * NS).inverse()
        seen = [base_from_map.position(cup) for cup in CUPS]
        near = [place for place in seen if math.hypot(*place[:2]) < 3.0]
        messages.append(a_message(step, near, frame_id='base_link'))
    return messages


def the_truth(robot: Drifting, seconds: int = 180, every: int = 10) -> Trajectory:
    """Return the corrected path."""
    stamps = START_NS + np.arange(0, seconds, every) * NS
    poses = [robot.true_pose(int(stamp)) for stamp in stamps]
    return Trajectory.of(stamps, [pose.translation for pose in poses], [pose.rotation for pose in poses])


def seen_by(robot: Drifting, memory: MemoryService, seconds: int = 180) -> LandmarkPipeline:
    pipeline = a_pipeline(memory, some_settings(), robot)
    feed(pipeline, a_round(robot, seconds), commit_every=50)
    pipeline.flush()
    pipeline.commit(force=True)
    return pipeline


def places_of(memory: MemoryService, **axes: object) -> list[tuple[float, ...]]:
    hits = landmarks_of(memory, as_of_ns=START_NS + 400 * NS, **axes)
    return sorted(hit.item.pose.position for hit in hits)


def all_state(memory: MemoryService) -> tuple[object, ...]:
    """Return whatever perception left, keyframes and sightings too."""
    tables = read_tables(
        memory,
        lambda c: [
            [tuple(row) for row in c.execute(select(table).order_by(*table.primary_key.columns))]
            for table in (landmark, keyframe, sighting)
        ],
    )
    return state_of(memory), tables


def test_a_corrected_path_makes_one_landmark_of_what_drift_made_many() -> None:
    robot = Drifting(0.03)
    with open_memory(map_id='hall') as memory:
        pipeline = seen_by(robot, memory)
        assert len(places_of(memory)) > 3
        before = memory.sequence
        done = pipeline.correct(the_truth(robot))
        assert done.merged > 0
        assert done.sequence == before + 1
        found = places_of(memory)
        assert np.array(found) == pytest.approx(np.array(sorted(CUPS)), abs=0.05)
        assert len(places_of(memory, known_seq=before)) > 3
        assert pipeline.status().landmarks == 3
        owners = {record.landmark for record in recorded(memory)}
        assert owners == {hit.item.key for hit in landmarks_of(memory, as_of_ns=START_NS + 400 * NS)}
        outcomes = memory.changes().changes[-1].outcomes
        assert outcomes.count('MERGE') == len(places_of(memory, known_seq=before)) - 3
        assert memory.verify().ok


def test_perception_goes_on_with_the_landmarks_as_they_are_now() -> None:
    robot = Drifting(0.03)
    with open_memory(map_id='hall') as memory:
        pipeline = seen_by(robot, memory)
        pipeline.correct(the_truth(robot))
        keys = {hit.item.key for hit in landmarks_of(memory)}
        robot.drift_m = 0.0
        feed(pipeline, a_round(robot, 240)[180:], commit_every=20)
        pipeline.close()
        assert {hit.item.key for hit in landmarks_of(memory)} == keys
        assert pipeline.status().landmarks == 3
        assert memory.verify().ok


def test_a_correction_past_the_pipeline_is_noticed_and_what_it_overtook_is_lost_and_counted() -> None:
    robot = Drifting(0.0)
    shift = RigidCorrection(Transform((10.0, 0.0, 0.0)))
    with open_memory(map_id='hall') as memory:
        pipeline = seen_by(robot, memory)
        keys = {hit.item.key for hit in landmarks_of(memory)}
        further = a_round(robot, 260)[180:]
        feed(pipeline, further[:20])
        waiting = pipeline.status().uncommitted
        assert waiting > 0
        memory.correct_map(shift, landmarks=some_settings())
        pipeline.commit(force=True)
        (camera,) = (one for one in pipeline.status().inputs if one.name == 'camera')
        assert camera.lost['memory_replaced'] >= waiting
        assert memory.manifest()['incomplete'] == {'camera': {'dropped': camera.dropped, 'late': 0}}
        there = [(x + 10.0, y, z) for x, y, z in sorted(CUPS)]
        assert np.array(places_of(memory)) == pytest.approx(np.array(there), abs=0.05)
        robot.true_pose = lambda stamp_ns: shifted(Drifting.true_pose(robot, stamp_ns))  # type: ignore[method-assign]
        feed(pipeline, further[20:], commit_every=20)
        pipeline.close()
        assert {hit.item.key for hit in landmarks_of(memory)} == keys
        assert memory.verify().ok


def shifted(pose: Transform) -> Transform:
    x, y, z = pose.translation
    return Transform((x + 10.0, y, z), pose.rotation)


def test_what_only_seemed_to_be_one_is_split() -> None:
    """Three cups in a row, seen by a robot that thought it stood still while it went from one to the next."""
    robot = Standing()
    truth = Trajectory.of(
        [START_NS + s * NS for s in (0, 9, 10, 19, 20, 29)],
        [(x, 0.0, 0.0) for x in (0.0, 0.0, 3.0, 3.0, 6.0, 6.0)],
        [(0.0, 0.0, 0.0, 1.0)] * 6,
    )
    with open_memory(map_id='hall') as memory:
        settings = some_settings(keyframe_rest_s=5.0)
        pipeline = a_pipeline(memory, settings, robot)
        feed(pipeline, [a_message(s, [(1.0, 0.0, 0.5)], frame_id='base_link') for s in range(30)])
        pipeline.flush()
        pipeline.commit(force=True)
        assert len(places_of(memory)) == 1
        state = all_state(memory)
        done = pipeline.correct(truth)
        assert (done.merged, done.split) == (0, 2)
        assert [round(x, 1) for x, _, _ in places_of(memory)] == [1.0, 4.0, 7.0]
        owners = [record.landmark for record in recorded(memory)]
        assert len(set(owners)) == 3
        assert owners == sorted(owners, key=owners.index)
        assert memory.verify().ok
        pipeline.revert(done.correction_id)
        assert all_state(memory) == state


@pytest.mark.parametrize('where', ['memory', 'file'])
def test_a_reversal_gives_back_everything_bit_for_bit(where: str, tmp_path: Path) -> None:
    robot = Drifting(0.03)
    path = tmp_path / 'memory.db' if where == 'file' else None
    with open_memory(path, map_id='hall') as memory:
        pipeline = seen_by(robot, memory)
        rehearsal = pipeline.correct(the_truth(robot), dry_run=True)
        state = all_state(memory)
        done = pipeline.correct(the_truth(robot))
        assert (rehearsal.moved, rehearsal.merged, rehearsal.sequence) == (done.moved, done.merged, 0)
        assert all_state(memory) != state
        back = pipeline.revert(done.correction_id)
        assert back.remark == ''
        assert all_state(memory) == state
        assert memory.verify().ok


def test_a_reversal_after_more_was_seen_puts_coordinates_back_and_says_so() -> None:
    robot = Drifting(0.03)
    with open_memory(map_id='hall') as memory:
        pipeline = seen_by(robot, memory)
        memory.write([MemoryItem(kind='spatial', key='mark', content='x', valid_from_ns=START_NS + 100 * NS,
                                 pose=Pose(frame_id='map', position=(1.0, 2.0, 0.0)))])  # fmt: skip
        done = pipeline.correct(the_truth(robot))
        moved = memory.query(MemoryQuery(key='mark'))[0].item.pose.position
        assert moved == pytest.approx((1.0, -1.0, 0.0), abs=0.1)
        former = places_of(memory, known_seq=done.sequence - 1, labels=['cup'])
        robot.drift_m = 0.0
        feed(pipeline, a_round(robot, 200)[180:], commit_every=20)
        pipeline.close()
        back = pipeline.revert(done.correction_id)
        assert 'seen or changed since' in back.remark
        assert pipeline.status().landmarks >= len(former) > 3
        owners = {record.landmark for record in recorded(memory) if record.stamp_ns < START_NS + 180 * NS}
        assert len(owners) == len(former)
        missing = [
            place
            for place in former
            if min(math.dist(place, now) for now in places_of(memory, labels=['cup'])) > 0.3
        ]
        assert missing == []
        assert memory.query(MemoryQuery(key='mark'))[0].item.pose.position == (1.0, 2.0, 0.0)
        assert memory.verify().ok


def test_a_motion_of_the_whole_map_moves_landmarks_as_they_are() -> None:
    robot = Drifting(0.0)
    with open_memory(map_id='hall') as memory:
        pipeline = seen_by(robot, memory)
        before = places_of(memory)
        quarter = RigidCorrection(Transform((10.0, 0.0, 0.0), (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5))))
        done = pipeline.correct(quarter)
        assert (done.moved, done.merged, done.split) == (len(before), 0, 0)
        turned = sorted((10.0 - y, x, z) for x, y, z in before)
        assert np.array(places_of(memory)) == pytest.approx(np.array(turned), abs=1e-9)
        assert memory.verify().ok


def test_a_path_outside_of_the_stored_trajectory_is_refused_by_its_pose() -> None:
    robot = Drifting(0.03)
    with open_memory(map_id='hall') as memory:
        pipeline = seen_by(robot, memory)
        pipeline.correct(the_truth(robot), dry_run=True)
        state = all_state(memory)
        late = Trajectory.of([START_NS, START_NS + 500 * NS], [(0, 0, 0)] * 2, [(0, 0, 0, 1)] * 2)
        with pytest.raises(InvalidRequestError, match=r'path\.poses\[1\]\.stamp: .* outside the stored'):
            pipeline.correct(late)
        memory.set_map('lab')
        with pytest.raises(InvalidRequestError, match='no trajectory is stored'):
            pipeline.correct(the_truth(robot), map_id='lab')
        with pytest.raises(NotFoundError, match='cellar'):
            pipeline.correct(the_truth(robot), map_id='cellar')
        with pytest.raises(NotFoundError, match='revert_id'):
            pipeline.revert('correction/0')
        assert all_state(memory) == state
