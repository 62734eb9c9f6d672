"""The probability of being within a radius: against closed forms, sampling and extremes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2, ncx2, norm

from hylo_memory_ros.model import Pose
from hylo_memory_ros.retrieval.probability import probabilities_within

ORIGIN = (0.0, 0.0, 0.0)


def pose_of(position: object, block: object) -> Pose:
    covariance = np.zeros((6, 6))
    covariance[:3, :3] = block
    return Pose(frame_id='map', position=tuple(np.asarray(position).tolist()), covariance=covariance.ravel())


def chance(
    position: object,
    block: object,
    radius_m: float,
    center: tuple[float, ...] = ORIGIN,
    *,
    flat: bool = False,
) -> float:
    (found,) = probabilities_within([pose_of(position, block)], center, radius_m, horizontal=flat)
    assert found is not None
    return found


@pytest.mark.parametrize('flat', [False, True])
@pytest.mark.parametrize('sigma', [1e-6, 0.05, 3.0, 1e4])
@pytest.mark.parametrize('away', [0.0, 0.5, 1.0, 2.5, 6.0])
@pytest.mark.parametrize('reach', [0.01, 0.5, 1.0, 2.0, 7.0])
def test_a_round_uncertainty_gives_the_noncentral_chi_square(
    flat: bool, sigma: float, away: float, reach: float
) -> None:
    axes = 2 if flat else 3
    expected = ncx2.cdf(reach**2, axes, away**2) if away else chi2.cdf(reach**2, axes)
    found = chance((away * sigma, 0.0, 0.0), np.eye(3) * sigma**2, reach * sigma, flat=flat)
    assert found == pytest.approx(float(expected), abs=2e-5)


@pytest.mark.parametrize('seed', range(12))
@pytest.mark.parametrize('flat', [False, True])
def test_any_uncertainty_agrees_with_sampling(seed: int, flat: bool) -> None:
    rng = np.random.default_rng(seed)
    axes = 2 if flat else 3
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    block = turn @ np.diag(10.0 ** rng.uniform(-3, 1, 3)) @ turn.T
    position, center = rng.normal(size=3), rng.normal(size=3)
    radius_m = float(np.linalg.norm((position - center)[:axes]) * rng.uniform(0.6, 1.4))
    root = np.linalg.cholesky(block)
    inside = samples = 0
    for _ in range(8):
        drawn = position + rng.normal(size=(250_000, 3)) @ root.T - center
        inside += int((np.linalg.norm(drawn[:, :axes], axis=1) <= radius_m).sum())
        samples += len(drawn)
    expected = inside / samples
    found = chance(position, block, radius_m, tuple(center.tolist()), flat=flat)
    assert abs(found - expected) <= 1e-3 + 3.0 * math.sqrt(expected * (1.0 - expected) / samples)


def test_a_flat_uncertainty_fixes_the_axis_without_variance() -> None:
    along = np.diag([0.04, 0.0, 0.0])
    half = math.sqrt(1.0 - 0.36)
    expected = norm.cdf(half / 0.2) - norm.cdf(-half / 0.2)
    assert chance((0.0, 0.6, 0.0), along, 1.0) == pytest.approx(expected, abs=1e-6)
    assert chance((0.0, 2.0, 0.0), along, 1.0) == 0.0
    plane = chance((0.0, 0.0, 0.5), np.diag([0.01, 0.01, 0.0]), 0.55)
    assert plane == pytest.approx(float(chi2.cdf((0.55**2 - 0.25) / 0.01, 2)), abs=2e-5)


def test_the_height_does_not_count_over_the_plane() -> None:
    assert chance((0.0, 0.0, 50.0), np.eye(3) * 1e-4, 1.0, flat=True) == pytest.approx(1.0)
    assert chance((0.0, 0.0, 50.0), np.eye(3) * 1e-4, 1.0) == 0.0


@pytest.mark.parametrize('radius_m', [0.0, 5e-324, 1e-9, 1e9, 1e150, 1e308])
def test_every_radius_has_an_answer(radius_m: float) -> None:
    for position in (ORIGIN, (1e9, 1e9, -1e9), (0.3, 0.0, 0.0)):
        for block in (np.eye(3) * 1e-12, np.eye(3), np.diag([1e18, 1.0, 0.0])):
            found = chance(position, block, radius_m)
            assert 0.0 <= found <= 1.0
            assert (found == 0.0) or radius_m > 0.0
    assert chance(ORIGIN, np.eye(3), 1e308) == 1.0


def test_what_is_unknown_has_no_probability() -> None:
    spun = np.zeros((6, 6))
    spun[5, 5] = 0.1
    unknown = Pose(frame_id='map', position=ORIGIN)
    turned = Pose(frame_id='map', position=ORIGIN, covariance=spun.ravel())
    upright = pose_of(ORIGIN, np.diag([0.0, 0.0, 0.1]))
    assert probabilities_within([unknown, turned], ORIGIN, 1.0) == [None, None]
    assert probabilities_within([upright], ORIGIN, 1.0, horizontal=True) == [None]
    mixed = probabilities_within([unknown, pose_of(ORIGIN, np.eye(3) * 1e-4), turned], ORIGIN, 1.0)
    assert mixed == [None, pytest.approx(1.0), None]
    assert probabilities_within([], ORIGIN, 1.0) == []


def test_many_at_once_are_what_each_is() -> None:
    rng = np.random.default_rng(3)
    poses = [pose_of(rng.normal(size=3), np.diag(rng.uniform(0.01, 1.0, 3))) for _ in range(600)]
    together = probabilities_within(poses, ORIGIN, 1.5)
    for place in range(0, 600, 97):
        assert probabilities_within([poses[place]], ORIGIN, 1.5)[0] == pytest.approx(
            together[place], abs=1e-12
        )
