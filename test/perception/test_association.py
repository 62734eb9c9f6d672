"""Which landmark is it: nearest, one to one, inside the gate, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perception.pieces import NS, START_NS, a_message, an_input, some_settings
from support.effort import scaled

from hylo_memory_ros.perception.ingestion.validation import DetectionValidator
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.tracking.data_association import (
    NONE,
    AssociationResult,
    GatedAssociation,
    assign_landmarks,
)
from hylo_memory_ros.perception.tracking.gating import find_candidates
from hylo_memory_ros.transforms import Transform

HERE = Transform((0.0, 0.0, 0.0))
# So that no point is at the origin of the message's frame.
HERE_IS = Transform((0.0, 0.0, -5.0))


class Bench:
    """An association and a landmark_map to try it on."""

    def __init__(self, source: Any = None, **fields: Any) -> None:
        self.source = source or an_input()
        self.association = GatedAssociation(some_settings(self.source, **fields))
        self.landmark_map = LandmarkMap('hall', self.source.gate_m)
        self._validator = DetectionValidator(self.source, lambda reason, count: None)

    def see(
        self, at_s: float, positions: Sequence[Sequence[float]], labels: Any = 'cup', **columns: Any
    ) -> AssociationResult:
        message = a_message(at_s, positions, labels, **columns)
        return self.association.observe(self._validator.validate(message, HERE), self.landmark_map)


def a_map(points: Sequence[Sequence[float]], gate_m: float = 0.5) -> LandmarkMap:
    landmark_map = LandmarkMap('hall', gate_m)
    for number, point in enumerate(points):
        put(landmark_map, f'cup/{number:04}', point)
    return landmark_map


def put(landmark_map: LandmarkMap, key: str, point: Any, label: str = 'cup', sigma_m: float = 0.03) -> int:
    """Put a landmark into a landmark_map that is known as well as by many sightings."""
    row = landmark_map.add(key, label)
    landmark_map.state['mean'][row] = point
    landmark_map.state['covariance'][row, [0, 3, 5]] = sigma_m**2
    landmark_map.state['n'][row] = 100
    landmark_map.place(np.array([row]))
    return row


def test_two_equal_cups_in_one_message_stay_two() -> None:
    bench = Bench()
    rng = np.random.default_rng(0)
    for step in range(50):
        bench.see(step, np.array([(1, 0, 0), (1.05, 0, 0)]) + rng.normal(0, 0.01, (2, 3)))
    assert len(bench.landmark_map) == 2


def given_to(
    points: Sequence[Sequence[float]], landmark_map: LandmarkMap, gate_m: float, sigma_m: float = 0.05
) -> list[int]:
    source = an_input(gate_m=gate_m, sigma_m=sigma_m)
    validator = DetectionValidator(source, lambda reason, count: None)
    shifted = np.array(points, dtype=float).reshape(-1, 3) - HERE_IS.translation
    scan = validator.validate(a_message(1, shifted.tolist()), HERE_IS)
    found = find_candidates(scan, landmark_map, some_settings(source))
    return assign_landmarks(found, np.ones(len(scan), dtype=bool), landmark_map).tolist()


def test_the_largest_distance_belongs_to_the_gate() -> None:
    landmark_map = a_map([(0.3, 0.1, 0.2)], gate_m=0.5)
    assert given_to([(0.8, 0.1, 0.2)], landmark_map, 0.5, 1.0) == [0]
    assert given_to([(0.800001, 0.1, 0.2)], landmark_map, 0.5, 1.0) == [NONE]


def test_what_noise_does_not_explain_is_another() -> None:
    landmark_map = a_map([(0, 0, 0.5)])
    assert given_to([(0.3, 0, 0.5)], landmark_map, 0.5, 0.05) == [0]
    assert given_to([(0.49, 0, 0.5)], landmark_map, 0.5, 0.05) == [NONE]


def test_a_far_pair_does_not_push_a_near_one_apart() -> None:
    """Assigning both would take the first point from the landmark it lies on."""
    landmark_map = a_map([(0, 0, 0), (1.9, 0, 0)], gate_m=2.0)
    assert given_to([(0, 0, 0), (-1.9, 0, 0)], landmark_map, 2.0, 0.5) == [0, NONE]


@pytest.mark.parametrize('order', list(permutations(range(4))))
def test_a_tie_goes_to_the_key_that_comes_first(order: tuple[int, ...]) -> None:
    corners = np.array([(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)], dtype=float)
    landmark_map = LandmarkMap('hall', 2.0)
    for which in order:
        put(landmark_map, f'cup/{which}', corners[which])
    (row,) = given_to([(0, 0, 0)], landmark_map, 2.0, 0.5)
    assert landmark_map.keys[row] == 'cup/0'


coordinates = st.integers(-8, 8).map(lambda value: value / 4)
points = st.lists(st.tuples(coordinates, coordinates, coordinates), max_size=5)


@settings(max_examples=scaled(150), deadline=None)
@given(points, points)
def test_the_assignment_is_the_cheapest_one(
    landmarks: list[tuple[float, ...]], seen: list[tuple[float, ...]]
) -> None:
    gate, sigma = 1.0, 0.2
    landmark_map = a_map(landmarks, gate)
    found = given_to(seen, landmark_map, gate, sigma)
    assert len({row for row in found if row != NONE}) == sum(row != NONE for row in found)
    source = an_input(gate_m=gate, sigma_m=sigma)
    shifted = np.array(seen, dtype=float).reshape(-1, 3) - HERE_IS.translation
    scan = DetectionValidator(source, lambda reason, count: None).validate(
        a_message(1, shifted.tolist()), HERE_IS
    )
    pairs = find_candidates(scan, landmark_map, some_settings(source))
    costs = {
        pair: cost
        for *pair_, cost in zip(pairs.point.tolist(), pairs.row.tolist(), pairs.cost.tolist(), strict=True)
        for pair in [tuple(pair_)]
    }

    def cost(rows: Sequence[int]) -> float:
        return sum(
            float(pairs.none[point]) if row == NONE else costs.get((point, row), 1e9)
            for point, row in enumerate(rows)
        )

    options = [NONE] * len(seen) + list(range(len(landmarks)))
    best = min((cost(rows) for rows in set(permutations(options, len(seen)))), default=0.0)
    assert cost(found) == pytest.approx(best, abs=1e-9)


@settings(max_examples=scaled(50), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.5, 40.0]))
def test_no_candidate_is_missed(seed: int, gate: float) -> None:
    rng = np.random.default_rng(seed)
    scale = rng.choice([1.0, 100.0, 1e7])
    landmarks = rng.uniform(-scale, scale, (40, 3))
    landmarks[20:] = landmarks[:20] + rng.uniform(-gate, gate, (20, 3))
    landmark_map = a_map(landmarks.tolist(), gate)
    asked = landmarks + rng.normal(0, gate / 2, landmarks.shape)
    of_point, of_row = landmark_map.near(asked)
    found = set(zip(of_point.tolist(), of_row.tolist(), strict=True))
    distances = np.linalg.norm(asked[:, None] - landmarks[None], axis=2)
    wanted = {(int(i), int(j)) for i, j in np.argwhere(distances <= gate)}
    assert wanted <= found
    assert len(found) == len(of_point)


def test_it_is_written_when_confirmed_and_holds_from_its_first_observation() -> None:
    bench = Bench(confirm_n=3)
    assert not bench.see(1, [(1, 2, 0.5)]).items
    assert not bench.see(2, [(1.1, 2, 0.5)]).items
    (item,) = bench.see(3, [(1.2, 2, 0.5)], scores=np.array([0.7])).items
    assert item.key == bench.landmark_map.keys[0]
    assert item.key is not None
    assert item.key.startswith('cup/')
    assert len(item.key) == len('cup/') + 12
    assert item.pose is not None
    assert item.pose.position == (1.1, 2.0, 0.5)
    assert item.pose.stamp_ns == START_NS + 3 * NS
    assert item.valid_from_ns == START_NS + 1 * NS
    assert (item.label, item.content, item.scope) == ('cup', 'cup', {'map_id': 'hall'})
    assert item.confidence == pytest.approx(0.9)
    assert item.source == 'hylo_memory_ros/camera'
    assert item.pose.covariance is not None
    # The detections of one keyframe share the error of localization, lever arm included.
    assert item.pose.covariance[0] == pytest.approx(0.05**2 / 3 + 0.035**2 + (0.002 * 2.0) ** 2, abs=1e-9)
    assert not bench.see(4, [(1.1, 2, 0.5)]).items


def test_it_is_written_again_only_when_materially_elsewhere() -> None:
    bench = Bench(confirm_n=2, move_min_m=0.1, move_sigmas=0.0)
    bench.see(1, [(1, 0, 0)])
    assert bench.see(2, [(1, 0, 0)]).items
    assert not bench.see(3, [(1.25, 0, 0)]).items
    (item,) = bench.see(4, [(1.35, 0, 0)]).items
    assert item.pose is not None
    assert item.pose.position == (1.15, 0.0, 0.0)
    assert item.valid_from_ns == START_NS + 4 * NS


def test_noise_about_one_place_is_written_a_few_times_at_most() -> None:
    bench = Bench(an_input(sigma_m=0.05), move_min_m=0.02)
    rng = np.random.default_rng(5)
    written = sum(
        len(bench.see(step, np.array([(3, 4, 1)]) + rng.normal(0, 0.05, (1, 3))).items)
        for step in range(3000)
    )
    assert len(bench.landmark_map) == 1
    assert written <= 4
    assert np.linalg.norm(bench.landmark_map.state['mean'][0] - (3, 4, 1)) < 0.01


def test_no_more_certainty_than_the_floor_is_claimed() -> None:
    bench = Bench(sigma_floor_m=0.04, confirm_n=100)
    for step in range(99):
        bench.see(step, [(1, 0, 0)])
    (item,) = bench.see(100, [(1, 0, 0)]).items
    assert item.pose is not None
    assert item.pose.covariance is not None
    assert item.pose.covariance[:15:7] == (0.0016, 0.0016, 0.0016)


def test_refused_detections_are_given_to_none() -> None:
    outcome = Bench().see(1, [(0, 0, 0), (1, 0, 0), (float('nan'), 0, 0)])
    assert [number > 0 for number in outcome.landmarks.tolist()] == [False, True, False]


def test_a_taken_key_gets_more_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    monkeypatch.setattr(
        'hylo_memory_ros.perception.tracking.data_association.landmark_key',
        lambda label, *first, **_: f'{label}/{"0" * first[-1]}',
    )
    bench.see(1, [(1, 0, 0), (5, 0, 0)])
    assert sorted(map(len, bench.landmark_map.keys)) == [16, 17]


def test_tentative_ones_are_bounded_and_the_confirmed_stay() -> None:
    bench = Bench(an_input(gate_m=0.1), tentative_max=16, confirm_n=2)
    for step in (1, 2):
        bench.see(step, [(0, 0, 1)])
    for step in range(3, 40):
        bench.see(step, [(step, k, 0) for k in range(1, 5)])
    assert len(bench.landmark_map) <= 17
    assert bench.landmark_map.counts()[1] == 1
    newest = max(int(stamp) for stamp in bench.landmark_map.state['last_ns'])
    assert newest == START_NS + 39 * NS
    assert bench.see(50, [(0, 0, 1)]).landmarks.tolist() == [1]


class TestInstances:
    """Things that the input names."""

    def test_the_name_is_the_key_and_the_place_does_not_matter(self) -> None:
        bench = Bench()
        bench.see(1, [(1, 0, 0), (1, 0, 0)], 'tag', instances=['tag36h11:5', 'tag36h11:6'])
        assert sorted(bench.landmark_map.keys) == ['tag36h11:5', 'tag36h11:6']
        bench.see(2, [(1, 0, 0)], 'tag')
        assert len(bench.landmark_map) == 3

    def test_one_outlier_writes_nothing(self) -> None:
        bench = Bench(confirm_n=3)
        for step in range(5):
            bench.see(step, [(1, 0, 0)], 'tag', instances=['t:1'])
        assert not bench.see(6, [(9, 0, 0)], 'tag', instances=['t:1']).items
        assert not any(bench.see(step, [(1, 0, 0)], 'tag', instances=['t:1']).items for step in range(7, 20))

    def test_a_move_is_written_from_its_first_observation_there(self) -> None:
        bench = Bench(confirm_n=3)
        for step in range(5):
            bench.see(step, [(1, 0, 0)], 'tag', instances=['t:1'])
        items = [
            item
            for step in range(5, 10)
            for item in bench.see(step, [(9, 0, 0)], 'tag', instances=['t:1']).items
        ]
        (item,) = items
        assert item.pose is not None
        assert item.pose.position == (9.0, 0.0, 0.0)
        assert item.valid_from_ns == START_NS + 5 * NS
        assert len(bench.landmark_map) == 1


class TestForgotten:
    """A forgotten landmark swallows old evidence, and no other."""

    def test_old_evidence_comes_to_nothing(self) -> None:
        bench = Bench(confirm_n=1)
        bench.see(1, [(1, 0, 0)])
        bench.landmark_map.forget(0, START_NS + 10 * NS)
        outcome = bench.see(10, [(1, 0, 0)])
        assert outcome.landmarks.tolist() == [1]
        assert not outcome.items
        assert bench.landmark_map.state['observations'][0] == 1
        assert bench.landmark_map.counts() == (0, 0)

    def test_new_evidence_makes_a_new_landmark(self) -> None:
        bench = Bench(confirm_n=1)
        bench.see(1, [(1, 0, 0)])
        bench.landmark_map.forget(0, START_NS + 10 * NS)
        outcome = bench.see(10.5, [(1, 0, 0)])
        assert outcome.landmarks.tolist() == [2]
        assert outcome.items[0].key != bench.landmark_map.keys[0]

    def test_a_named_one_begins_again_under_its_name(self) -> None:
        bench = Bench(confirm_n=2)
        for step in (1, 2):
            bench.see(step, [(1, 0, 0)], 'tag', instances=['t:1'])
        bench.landmark_map.forget(0, START_NS + 10 * NS)
        assert not bench.see(9, [(1, 0, 0)], 'tag', instances=['t:1']).items
        assert not bench.see(11, [(1, 0, 0)], 'tag', instances=['t:1']).items
        (item,) = bench.see(12, [(1, 0, 0)], 'tag', instances=['t:1']).items
        assert item.key == 't:1'
        assert item.valid_from_ns == START_NS + 11 * NS

    def test_it_leaves_when_its_evidence_is_in(self) -> None:
        bench = Bench(confirm_n=1)
        bench.see(1, [(1, 0, 0)])
        bench.landmark_map.forget(0, START_NS + 10 * NS)
        bench.landmark_map.take_changes()
        bench.landmark_map.trim_forgotten(START_NS + 10 * NS)
        assert len(bench.landmark_map) == 1
        bench.landmark_map.trim_forgotten(START_NS + 11 * NS)
        assert len(bench.landmark_map) == 0
        changes = bench.landmark_map.take_changes()
        assert not changes.saved
        assert not changes.deleted
