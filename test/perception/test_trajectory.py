"""Corrections of a trajectory: exact at the path's poses, and what the formula says between them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm, logm
from scipy.spatial.transform import Rotation

from hylo_memory_ros.errors import InvalidRequestError
from hylo_memory_ros.perception.corrections.trajectory import (
    Motions,
    PathCorrection,
    RigidCorrection,
    Trajectory,
)
from hylo_memory_ros.transforms import Transform

Array = NDArray[np.float64]
STAMPS = np.arange(20, dtype=np.int64) * 100


def a_trajectory(stamps: NDArray[np.int64], seed: int) -> Trajectory:
    rng = np.random.default_rng(seed)
    turns = Rotation.from_rotvec(rng.normal(scale=0.8, size=(len(stamps), 3)))
    return Trajectory.of(stamps, rng.normal(scale=10.0, size=(len(stamps), 3)), turns.as_quat())


def matrix(motions: Motions, row: int) -> Array:
    whole = np.eye(4)
    whole[:3, :3], whole[:3, 3] = motions.rotation[row].as_matrix(), motions.translation[row]
    return whole


def test_it_is_exact_at_the_poses_of_the_path() -> None:
    old, new = a_trajectory(STAMPS, 1), a_trajectory(STAMPS[2::3], 2)
    moved = PathCorrection(old, new).at(new.stamps_ns) @ old.at(new.stamps_ns)
    assert moved.translation == pytest.approx(new.poses.translation, abs=1e-12)
    assert (moved.rotation.inv() * new.poses.rotation).magnitude() == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize('stamp_ns', [201, 250, 333, 499])
def test_between_two_poses_it_is_the_formula(stamp_ns: int) -> None:
    old, new = a_trajectory(STAMPS, 1), a_trajectory(STAMPS[2::3], 2)
    at = np.array([200, 500, stamp_ns])
    old_i, old_j, old_t = (matrix(old.at(at), row) for row in range(3))
    new_i, new_j = matrix(new.poses, 0), matrix(new.poses, 1)
    difference = np.linalg.inv(old_j) @ old_i @ np.linalg.inv(new_i) @ new_j
    share = (stamp_ns - 200) / 300
    wanted = new_i @ np.linalg.inv(old_i) @ old_t @ expm(share * np.real(logm(difference)))
    moved = PathCorrection(old, new).at(at) @ old.at(at)
    assert matrix(moved, 2) == pytest.approx(wanted, abs=1e-9)


def test_before_the_first_and_after_the_last_pose_that_of_the_end_holds() -> None:
    correction = PathCorrection(a_trajectory(STAMPS, 1), a_trajectory(STAMPS[2:9:3], 2))
    ends = correction.at(np.array([200, 800]))
    beyond = correction.at(np.array([0, 150, 801, 10_000]))
    for row, end in enumerate((0, 0, 1, 1)):
        assert matrix(beyond, row) == pytest.approx(matrix(ends, end), abs=1e-11)


def test_a_path_that_is_the_stored_one_moved_as_a_whole_is_that_motion_at_every_stamp() -> None:
    old = a_trajectory(STAMPS, 1)
    rigid = RigidCorrection(Transform((1000.0, -2.0, 3.0), (0.5, 0.5, -0.5, 0.5)))
    moved = rigid.at(STAMPS[::4]) @ old.at(STAMPS[::4])
    new = Trajectory.of(STAMPS[::4], moved.translation, moved.rotation.as_quat())
    stamps = np.arange(-50, 2200, 7)
    assert PathCorrection(old, new).at(stamps).translation == pytest.approx(
        rigid.at(stamps).translation, abs=1e-9
    )


def test_a_path_of_one_pose_is_a_rigid_motion() -> None:
    found = PathCorrection(a_trajectory(STAMPS, 1), a_trajectory(STAMPS[3:4], 2)).at(STAMPS)
    assert found.translation == pytest.approx(np.tile(found.translation[:1], (20, 1)), abs=1e-9)


@pytest.mark.parametrize(
    ('change', 'named'),
    [
        ({'stamps_ns': [1, 2, 2]}, r'path\.poses\[2\]\.stamp: expected a stamp after'),
        ({'stamps_ns': [1, 3, 2]}, r'path\.poses\[2\]\.stamp: expected a stamp after'),
        (
            {'positions': [(0, 0, 0), (0, np.nan, 0), (0, 0, 0)]},
            r'path\.poses\[1\]\.position: .*nan',
        ),
        ({'positions': [(0, 0, 0), (0, 0, 0), (0, 0, np.inf)]}, r'path\.poses\[2\]\.position'),
        (
            {'rotations': [(0, 0, 0, 1), (0, 0, 0, 0), (0, 0, 0, 1)]},
            r'path\.poses\[1\]\.orientation: .* unit',
        ),
        ({'rotations': [(0, 0, 0, 1), (0, 0, 0, 1), (0, 0, np.nan, 1)]}, r'path\.poses\[2\]\.orientation'),
        ({'rotations': [(0, 0, 1, 1), (0, 0, 0, 1), (0, 0, 0, 1)]}, r'path\.poses\[0\]\.orientation'),
        ({'stamps_ns': [], 'positions': [], 'rotations': []}, r'path\.poses: expected at least one pose'),
    ],
)
def test_an_unsound_path_is_refused_by_the_name_of_the_pose(change: dict[str, object], named: str) -> None:
    sound = {
        'stamps_ns': [1, 2, 3],
        'positions': [(0.0, 0.0, 0.0)] * 3,
        'rotations': [(0.0, 0.0, 0.0, 1.0)] * 3,
    }
    with pytest.raises(InvalidRequestError, match=named):
        Trajectory.of(**{**sound, **change})  # type: ignore[arg-type]
