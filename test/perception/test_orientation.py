"""Orientations: a mean in the tangent space, two looks of a flat tag, and things of one axis."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from perception.pieces import a_message, a_pipeline, an_input, feed, landmarks_of, open_memory, some_settings
from scipy.spatial.transform import Rotation

from hylo_memory_ros.perception.map.landmark import new_state, orientation_of
from hylo_memory_ros.perception.tracking.fusion import (
    exceeds_turn,
    fuse_orientations,
    normalize_orientations,
)

ONE = np.array([0])
POSE = 'geometry_msgs/msg/PoseStamped'


def yaw(degrees: float) -> np.ndarray:
    return Rotation.from_euler('z', degrees, degrees=True).as_quat()


def fused(observed: list[np.ndarray], axis: int | None = None) -> np.ndarray:
    state = np.array([new_state()])
    for number, one in enumerate(observed):
        fuse_orientations(state, ONE, one.reshape(1, 4), np.array([number == 0]), axis)
    return state


def angle_deg(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.degrees((Rotation.from_quat(a).inv() * Rotation.from_quat(b)).magnitude()))


def test_the_mean_is_taken_on_the_way_from_one_to_the_other() -> None:
    state = fused([yaw(170), yaw(-170)])
    assert angle_deg(state['rotation'][0], yaw(180)) < 1e-9
    assert state['rotation_n'][0] == 2.0


def test_q_and_minus_q_are_one_orientation() -> None:
    assert angle_deg(fused([yaw(30), -yaw(30), yaw(30)])['rotation'][0], yaw(30)) < 1e-9


def test_noise_averages_out() -> None:
    rng = np.random.default_rng(1)
    seen = [
        (Rotation.from_rotvec(rng.normal(0, 0.1, 3)) * Rotation.from_quat(yaw(50))).as_quat()
        for _ in range(90)
    ]
    assert angle_deg(fused(seen)['rotation'][0], yaw(50)) < 3.0


def test_a_flip_keeps_two_looks_and_tells_the_one_that_most_see() -> None:
    state = fused([yaw(0), yaw(120), yaw(0), yaw(2), yaw(118)])
    assert angle_deg(state['rotation'][0], yaw(2 / 3)) < 0.1
    assert angle_deg(state['flipped'][0], yaw(119)) < 0.1
    assert (state['rotation_n'][0], state['flipped_n'][0]) == (3.0, 2.0)


def test_a_first_look_that_was_wrong_gives_way() -> None:
    state = fused([yaw(120), *[yaw(0)] * 5])
    assert angle_deg(state['rotation'][0], yaw(0)) < 1e-9
    assert angle_deg(state['flipped'][0], yaw(120)) < 1e-9


def test_single_mistakes_do_not_add_up_to_a_look() -> None:
    rng = np.random.default_rng(2)
    seen = [one for _ in range(30) for one in (yaw(0), Rotation.random(random_state=rng).as_quat())]
    assert angle_deg(fused(seen)['rotation'][0], yaw(0)) < 15.0


def test_a_thing_that_was_turned_is_followed() -> None:
    assert angle_deg(fused([yaw(0)] * 500 + [yaw(90)] * 120)['rotation'][0], yaw(90)) < 1e-9


def test_one_axis_averages_its_direction_whatever_the_turn_about_it() -> None:
    rng = np.random.default_rng(3)
    tilt = Rotation.from_euler('x', 20, degrees=True)
    seen = [(tilt * Rotation.from_euler('z', rng.uniform(0, 360), degrees=True)).as_quat() for _ in range(50)]
    state = fused(seen, axis=2)
    assert_allclose(
        Rotation.from_quat(state['rotation'][0]).apply([0, 0, 1]), tilt.apply([0, 0, 1]), atol=1e-9
    )
    assert state['flipped_n'][0] == 0.0


def test_an_axis_that_points_the_other_way_is_another_look() -> None:
    down = Rotation.from_euler('x', 180, degrees=True).as_quat()
    state = fused([yaw(0), down, yaw(40)], axis=2)
    assert (state['rotation_n'][0], state['flipped_n'][0]) == (2.0, 1.0)


def test_what_has_no_orientation_changes_none() -> None:
    state = fused([yaw(10), np.full(4, np.nan), yaw(10)])
    assert state['rotation_n'][0] == 2.0
    assert orientation_of(fused([np.full(4, np.nan)])[0]) is None


def test_told_orientations_are_rounded() -> None:
    assert orientation_of(fused([yaw(90)])[0]) == (0.0, 0.0, 0.707107, 0.707107)


def test_bad_quaternions_are_told_from_unset_ones() -> None:
    given = np.array(
        [[0, 0, 0, 0], [0, 0, 0, 1.004], [0, 0, 0, 2], [np.nan, 0, 0, 1], [1e200, 0, 0, 0]], dtype=float
    )
    known, bad = normalize_orientations(given, 5)
    assert bad.tolist() == [False, False, True, True, True]
    assert np.isfinite(known).all(axis=1).tolist() == [False, True, False, False, False]
    assert known[1].tolist() == [0, 0, 0, 1]


def test_far_is_measured_from_what_was_written() -> None:
    state = fused([yaw(20)])
    state['written_rotation'] = yaw(0)
    assert exceeds_turn(state, ONE, np.deg2rad(19.9)).tolist() == [True]
    assert exceeds_turn(state, ONE, np.deg2rad(20.1)).tolist() == [False]
    assert exceeds_turn(np.array([new_state()]), ONE, 0.1).tolist() == [False]


@pytest.mark.parametrize('mode', ['none', 'object', 'axis'])
def test_a_landmark_carries_an_orientation_when_its_input_says_so(mode: str) -> None:
    with open_memory() as memory:
        pipeline = a_pipeline(memory, some_settings(an_input(orientation=mode)))
        feed(pipeline, [a_message(n, [(1, 2, 0)], orientations=yaw(30)[None]) for n in range(5)])
        pipeline.close()
        (hit,) = landmarks_of(memory)
    if mode == 'none':
        assert hit.item.pose.orientation is None
    else:
        assert_allclose(hit.item.pose.orientation, yaw(30), atol=1e-6)


def test_the_orientation_of_a_pose_is_that_of_the_thing_unless_told_otherwise() -> None:
    assert an_input(type=POSE, label='dock').orientation_mode == 'object'
    assert an_input(type=POSE, label='dock', orientation='none').orientation_mode == 'none'
    assert an_input().orientation_mode == 'none'
    assert an_input(type='apriltag_msgs/msg/AprilTagDetectionArray').orientation_mode == 'object'


def test_a_landmark_that_was_turned_is_written_again() -> None:
    with open_memory() as memory:
        pipeline = a_pipeline(
            memory, some_settings(an_input(orientation='object', instance='dock', label='dock'))
        )
        turns = [0] * 5 + [10] * 5 + [90] * 20
        feed(
            pipeline,
            [a_message(n, [(1, 2, 0)], orientations=yaw(turn)[None]) for n, turn in enumerate(turns)],
        )
        pipeline.close()
        hits = landmarks_of(memory, include_invalidated=True)
        (now,) = landmarks_of(memory)
    assert len(hits) == 2
    assert_allclose(now.item.pose.orientation, yaw(90), atol=1e-6)


def test_bad_orientations_are_counted_and_the_rest_is_used() -> None:
    with open_memory() as memory:
        pipeline = a_pipeline(memory, some_settings(an_input(orientation='object')))
        bad = np.array([[0.0, 0.0, 3.0, 0.0]])
        feed(pipeline, [a_message(n, [(1, 2, 0)], orientations=bad) for n in range(5)])
        pipeline.close()
        (hit,) = landmarks_of(memory)
        assert hit.item.pose.orientation is None
        assert pipeline.status().inputs[0].refused == {'bad_orientation': 5}
