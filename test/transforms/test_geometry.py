"""RigidTransform transforms: right values, round trips, and the same bits for one and for many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation, Slerp

from hylo_memory_ros.transforms import Quaternion, Transform, interpolate, unit_quaternion

HALF = math.sqrt(0.5)
QUARTER_TURN = (0.0, 0.0, HALF, HALF)

metres = st.floats(-1e6, 1e6)
vectors = st.tuples(metres, metres, metres)
parts = st.floats(-1.0, 1.0)
quaternions = (
    st.tuples(parts, parts, parts, parts)
    .filter(lambda q: sum(p * p for p in q) > 1e-3)
    .map(lambda q: tuple(p / math.sqrt(sum(p * p for p in q)) for p in q))
)
transforms = st.builds(Transform, vectors, quaternions)


def _rotation(q: Quaternion) -> Rotation:
    return Rotation.from_quat(q)


def _turned(transform: Transform, covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array(transform.covariance(covariance.ravel().tolist())).reshape(6, 6)


class TestPositions:
    def test_a_quarter_turn_takes_x_to_y(self) -> None:
        moved = Transform((1.0, 2.0, 3.0), QUARTER_TURN).position((1.0, 0.0, 0.0))
        assert moved == pytest.approx((1.0, 3.0, 3.0), abs=1e-15)

    @given(transforms, vectors)
    def test_agrees_with_scipy(self, transform: Transform, position: tuple[float, float, float]) -> None:
        expected = _rotation(transform.rotation).apply(position) + transform.translation
        assert np.allclose(transform.position(position), expected, rtol=0, atol=1e-8)

    @given(transforms, st.lists(vectors, max_size=9))
    def test_many_are_moved_to_the_same_bits_as_one(
        self, transform: Transform, positions: list[tuple[float, float, float]]
    ) -> None:
        moved = transform.positions(positions)
        assert moved.shape == (len(positions), 3)
        assert [tuple(row) for row in moved.tolist()] == [
            transform.position(position) for position in positions
        ]


class TestProducts:
    @given(transforms, transforms, vectors)
    def test_a_product_applies_the_second_first(
        self, a: Transform, b: Transform, position: tuple[float, float, float]
    ) -> None:
        assert np.allclose((a @ b).position(position), a.position(b.position(position)), rtol=0, atol=1e-7)

    @given(transforms, vectors)
    def test_the_inverse_brings_back(self, a: Transform, position: tuple[float, float, float]) -> None:
        assert np.allclose(a.inverse().position(a.position(position)), position, rtol=0, atol=1e-7)

    def test_frames_and_stamp_follow_the_product(self) -> None:
        map_from_odom = Transform((1.0, 0.0, 0.0), target_frame='map', source_frame='odom', stamp_ns=7)
        odom_from_base = Transform((0.0, 1.0, 0.0), target_frame='odom', source_frame='base_link')
        product = map_from_odom @ odom_from_base
        assert (product.target_frame, product.source_frame, product.stamp_ns) == ('map', 'base_link', 7)
        back = product.inverse()
        assert (back.target_frame, back.source_frame, back.stamp_ns) == ('base_link', 'map', 7)

    def test_a_product_over_different_frames_is_refused(self) -> None:
        a = Transform((0.0, 0.0, 0.0), target_frame='map', source_frame='odom')
        b = Transform((0.0, 0.0, 0.0), target_frame='base_link', source_frame='camera')
        with pytest.raises(ValueError, match='map_from_odom cannot follow base_link_from_camera'):
            a.compose(b)

    @given(quaternions, quaternions)
    def test_orientations_agree_with_scipy(self, q: Quaternion, p: Quaternion) -> None:
        turned = Transform((0.0, 0.0, 0.0), q).orientation(p)
        assert (_rotation(turned) * (_rotation(q) * _rotation(p)).inv()).magnitude() < 1e-7


class TestCovariance:
    def test_a_quarter_turn_swaps_x_and_y_in_every_block(self) -> None:
        given_covariance = np.zeros((6, 6))
        given_covariance[0, 0], given_covariance[3, 3] = 4.0, 0.25
        given_covariance[0, 3] = given_covariance[3, 0] = 0.5
        turned = _turned(Transform((9.0, 9.0, 9.0), QUARTER_TURN), given_covariance)
        assert turned[1, 1] == pytest.approx(4.0)
        assert turned[4, 4] == pytest.approx(0.25)
        assert turned[1, 4] == turned[4, 1] == pytest.approx(0.5)
        assert turned.trace() == pytest.approx(4.25)

    @given(quaternions, st.lists(st.floats(-2.0, 2.0), min_size=36, max_size=36))
    def test_is_d_c_dt_and_stays_symmetric(self, q: Quaternion, values: list[float]) -> None:
        root = np.reshape(values, (6, 6))
        covariance = root @ root.T
        covariance = (covariance + covariance.T) / 2
        both = np.kron(np.eye(2), _rotation(q).as_matrix())
        turned = _turned(Transform((0.0, 0.0, 0.0), q), covariance)
        assert np.allclose(turned, both @ covariance @ both.T, rtol=0, atol=1e-11)
        assert np.array_equal(turned, turned.T)


class TestInterpolation:
    OLDER = Transform((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), 'map', 'odom', 1_000)
    NEWER = Transform((2.0, 4.0, 0.0), QUARTER_TURN, 'map', 'odom', 2_000)

    def test_half_way(self) -> None:
        middle = interpolate(self.OLDER, self.NEWER, 1_500)
        assert middle.translation == (1.0, 2.0, 0.0)
        assert middle.rotation == pytest.approx((0.0, 0.0, math.sin(math.pi / 8), math.cos(math.pi / 8)))
        assert (middle.target_frame, middle.source_frame, middle.stamp_ns) == ('map', 'odom', 1_500)

    @pytest.mark.parametrize('stamp_ns', [999, 2_001])
    def test_nothing_is_extrapolated(self, stamp_ns: int) -> None:
        with pytest.raises(ValueError, match=f'{stamp_ns} is outside'):
            interpolate(self.OLDER, self.NEWER, stamp_ns)

    @given(quaternions, quaternions, st.integers(0, 1_000))
    def test_rotation_takes_the_shorter_arc_like_scipy(self, a: Quaternion, b: Quaternion, part: int) -> None:
        if abs(float(np.dot(a, b))) < 1e-6:
            return  # half a turn apart: both arcs are the shorter one
        middle = interpolate(
            Transform((0.0,) * 3, a, stamp_ns=0), Transform((0.0,) * 3, b, stamp_ns=1_000), part
        )
        expected = Slerp([0.0, 1.0], Rotation.from_quat([a, b]))(part / 1_000)
        assert (_rotation(middle.rotation) * expected.inv()).magnitude() < 1e-6

    def test_a_quaternion_and_its_negative_are_one_rotation(self) -> None:
        same = Transform((0.0,) * 3, (0.0, 0.0, 0.0, -1.0), 'map', 'odom', 2_000)
        assert interpolate(self.OLDER, same, 1_500).rotation == pytest.approx((0.0, 0.0, 0.0, 1.0))


class TestRefusals:
    @pytest.mark.parametrize('bad', [math.nan, math.inf, -math.inf])
    def test_a_number_that_is_not_finite(self, bad: float) -> None:
        with pytest.raises(ValueError, match='finite'):
            Transform((0.0, bad, 0.0))
        with pytest.raises(ValueError, match='unit quaternion'):
            Transform((0.0, 0.0, 0.0), (0.0, 0.0, bad, 1.0))

    @pytest.mark.parametrize(
        'q', [(0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.01), (1.0, 1.0, 1.0, 1.0), (math.nan,) * 4]
    )
    def test_a_quaternion_that_is_none(self, q: tuple[float, float, float, float]) -> None:
        with pytest.raises(ValueError, match='unit quaternion'):
            unit_quaternion(q)

    def test_a_quaternion_nearly_of_unit_length_is_scaled(self) -> None:
        assert unit_quaternion((0.0, 0.0, 0.0, 1.004)) == (0.0, 0.0, 0.0, 1.0)
