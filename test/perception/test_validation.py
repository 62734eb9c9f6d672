"""What a detector reports and does not mean: each kind has its reason, and is counted."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from perception.pieces import a_message, an_input

from hylo_memory_ros.perception import Message
from hylo_memory_ros.perception.ingestion.observation import Scan
from hylo_memory_ros.perception.ingestion.validation import DetectionValidator
from hylo_memory_ros.transforms import Transform

NAN, INF = math.nan, math.inf
QUARTER_TURN = Transform((10.0, 0.0, 0.0), (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)), 'map', 'camera_link')
HERE = Transform((0.0, 0.0, 0.0))


def screened(message: Message, where: Transform = HERE, **fields: Any) -> tuple[Scan, Counter[str]]:
    refused: Counter[str] = Counter()
    validator = DetectionValidator(an_input(**fields), lambda reason, count: refused.update({reason: count}))
    scan = validator.validate(message, where)
    return scan, +refused


@pytest.mark.parametrize(
    ('positions', 'columns', 'fields', 'reason', 'kept'),
    [
        ([(0, 0, 0), (0, 0, 0), (0, 0, 0), (1, 0, 0)], {}, {}, {'no_pose': 3}, [3]),
        ([(NAN, 0, 0), (1, INF, 0), (1, 0, 0)], {}, {}, {'not_finite': 2}, [2]),
        ([(1, 0, 0), (2, 0, 0)], {'scores': np.array([NAN, 0.5])}, {}, {'not_finite': 1}, [1]),
        (
            [(1, 0, 0), (2, 0, 0)],
            {'scores': np.array([0.49, 0.5])},
            {'min_score': 0.5},
            {'below_score': 1},
            [1],
        ),
        (
            [(0.4, 0, 0), (0.5, 0, 0), (3, 4, 0), (3, 4, 0.1)],
            {},
            {'min_range_m': 0.5, 'max_range_m': 5.0},
            {'out_of_range': 2},
            [1, 2],
        ),
        ([(2e9, 0, 0), (1, 0, 1e300), (1, 0, 0)], {}, {'max_range_m': 1e12}, {'out_of_bounds': 2}, [2]),
        ([(1, 0, 0), (2, 0, 0)], {'labels': ['', 'cup']}, {}, {'no_label': 1}, [1]),
        ([(1, 0, 0), (2, 0, 0)], {'labels': ['7', '41']}, {'labels': {'41': 'cup'}}, {'no_label': 1}, [1]),
        ([(1, 0, 0)] * 4, {'labels': ['a\0', 'x' * 500, '\ud800', 'cup']}, {}, {'bad_label': 3}, [3]),
        (
            [(1, 0, 0)] * 4,
            {'instances': ['t:1', ' ', 't:1', '']},
            {},
            {'bad_instance': 1, 'duplicate_instance': 1},
            [0, 3],
        ),
        ([(1, 0, 0)] * 2, {}, {'instance': 'dock'}, {'duplicate_instance': 1}, [0]),
        ([], {}, {}, {}, []),
    ],
)
def test_each_reason_is_counted(
    positions: Any, columns: dict[str, Any], fields: dict[str, Any], reason: dict[str, int], kept: list[int]
) -> None:
    message = a_message(1.0, positions, **{'labels': 'cup', **columns})
    scan, refused = screened(message, **fields)
    assert refused == reason
    assert scan.indices.tolist() == kept
    assert scan.size == len(positions)
    assert len(scan.labels) == len(scan.instances) == len(scan.positions) == len(kept)


def test_a_detection_is_counted_under_one_reason() -> None:
    _, refused = screened(a_message(1.0, [(NAN, 0, 0)], [''], scores=np.array([0.0])), min_score=0.5)
    assert refused == {'not_finite': 1}


@pytest.mark.parametrize(
    ('covariance', 'known', 'refused'),
    [
        (np.zeros((3, 3)), False, 0),
        (np.diag([-1.0, 0.0, 0.0]), False, 0),
        (np.diag([NAN, 1.0, 1.0]), False, 1),
        (np.diag([0.01, -0.01, 0.01]), False, 1),
        (np.array([[0.01, 0.02, 0], [0, 0.01, 0], [0, 0, 0.01]]), False, 1),
        (np.array([[0.01, 0.02, 0], [0.02, 0.01, 0], [0, 0, 0.01]]), False, 1),
        (np.diag([1e300, 1.0, 1.0]), False, 1),
        (np.diag([0.04, 0.09, 1e-9]), True, 0),
        (np.diag([0.04, 0.09, 0.16]), True, 0),
    ],
)
def test_a_covariance_that_says_nothing_gives_way_to_the_default(
    covariance: np.ndarray, known: bool, refused: int
) -> None:
    message = a_message(1.0, [(1, 0, 0)], covariances=covariance[None])
    scan, counted = screened(message, sigma_m=0.3)
    assert counted == ({'bad_covariance': 1} if refused else {})
    default = [0.09, 0.0, 0.0, 0.09, 0.0, 0.09]
    expected = np.maximum(covariance, 1e-4 * np.eye(3))[np.triu_indices(3)] if known else default
    assert_allclose(scan.covariances[0], expected, atol=1e-15)


def test_positions_and_covariances_are_turned_into_the_global_frame() -> None:
    covariance = np.diag([0.04, 0.01, 0.09])
    scan, _ = screened(a_message(1.0, [(2, 0, 1)], covariances=covariance[None]), QUARTER_TURN)
    assert_allclose(scan.positions, [(10, 2, 1)], atol=1e-12)
    assert_allclose(scan.covariances, [(0.01, 0, 0, 0.04, 0, 0.09)], atol=1e-12)


def test_any_rotation_agrees_with_the_matrix_product() -> None:
    rng = np.random.default_rng(3)
    quaternion = rng.normal(size=4)
    turn = Transform((0.0, 0.0, 0.0), tuple((quaternion / np.linalg.norm(quaternion)).tolist()))
    rotation = turn.positions(np.eye(3)).T
    roots = rng.normal(size=(5, 3, 3))
    matrices = roots @ roots.transpose(0, 2, 1)
    scan, _ = screened(a_message(1.0, rng.normal(size=(5, 3)), covariances=matrices), turn)
    expected = (rotation @ matrices @ rotation.T)[(slice(None), *np.triu_indices(3))]
    assert_allclose(scan.covariances, expected, rtol=1e-9, atol=1e-12)


def test_scores_and_extents() -> None:
    message = a_message(
        1.0,
        [(1, 0, 0)] * 4,
        scores=np.array([0.5, 1.5, -2.0, 1.0]),
        extents=np.array([(1, 1, 1), (1e10, 1, 1), (NAN, 1, 1), (1, -1, 1)]),
    )
    scan, refused = screened(message, min_score=0.0)
    assert refused == {'below_score': 1, 'bad_score': 1}
    assert scan.scores.tolist() == [0.5, 1.0, 1.0]
    assert scan.extents[0].tolist() == [1, 1, 1]
    assert np.isnan(scan.extents[1:]).all()


def test_made_up_class_names_do_not_pile_up() -> None:
    validator = DetectionValidator(an_input(), lambda reason, count: None)
    for number in range(10_000):
        validator.validate(a_message(1.0, [(1, 0, 0)], [f'class{number}']), HERE)
    assert len(validator._labels) < 5000
