"""Made-up scenes with the truth beside them: how many landmarks there are, and how sure of themselves.

The figures over more seeds are those of ``./dev bench landmarks``.
"""

from __future__ import annotations

import numpy as np
import pytest
from perception.pieces import a_message, an_input

from bench._scenes import Watched, cups, one_object, room
from hylo_memory_ros.perception import LandmarkSettings
from hylo_memory_ros.perception.ingestion.validation import DetectionValidator
from hylo_memory_ros.transforms import Transform

HERE = Transform((0.0, 0.0, 0.0))


@pytest.mark.parametrize('seed', [0, 1])
def test_a_room_of_objects_seen_on_many_visits(seed: int) -> None:
    truth, reports = room(seed)
    watched = Watched(an_input(sigma_m=0.03))
    for seen in reports:
        watched.see(seen)
    counted = watched.counted(truth)
    assert counted.duplicates <= 2
    assert counted.missed <= 2
    assert counted.wrongly_merged <= 2
    assert 0.5 <= counted.nees <= 2.0


@pytest.mark.parametrize('seed', range(3))
def test_two_equal_cups_stay_two(seed: int) -> None:
    watched = Watched(an_input(sigma_m=0.02))
    for seen in cups(seed):
        watched.see(seen)
    assert len(watched.landmarks()) == len(watched.landmarks(confirmed=False)) == 2
    assert watched.items <= 4


@pytest.mark.parametrize('seed', range(10))
def test_one_object_on_eight_visits_is_one(seed: int) -> None:
    watched = Watched(an_input(sigma_m=0.02))
    for seen in one_object(seed):
        watched.see(seen)
    assert len(watched.landmarks(confirmed=False)) == 1


class Bench(Watched):
    """What is given to an association message by message."""

    def see_all(self, at_s: float, places: object, labels: object = 'cup', **columns: object) -> list[int]:
        message = a_message(at_s, places, labels, **columns)  # type: ignore[arg-type]
        scan = DetectionValidator(self.settings.inputs[0], lambda reason, count: None).validate(message, HERE)
        return self.association.observe(scan, self.landmark_map).landmarks.tolist()


def test_one_thing_under_two_labels_in_a_message_is_one_with_both_scores() -> None:
    bench = Bench(an_input())
    given = bench.see_all(1, [(4, 0, 0.5), (4, 0, 0.5)], ['car', 'truck'], scores=np.array([0.61, 0.58]))
    assert given[0] == given[1] > 0
    (row,) = bench.landmarks(confirmed=False).values()
    assert bench.landmark_map.scores[row] == {'car': 0.61, 'truck': 0.58}
    assert bench.landmark_map.labels[row] == 'car'


def test_a_label_that_alternates_makes_one_landmark_that_is_hardly_ever_written() -> None:
    bench, rng = Bench(an_input(sigma_m=0.02)), np.random.default_rng(3)
    for step in range(100):
        bench.see_all(step, np.array([(1, 0, 0.8)]) + rng.normal(0, 0.02, (1, 3)), ('cup', 'mug')[step % 2])
    (row,) = bench.landmarks(confirmed=False).values()
    assert bench.landmark_map.keys[row].startswith('cup/')
    assert bench.landmark_map.labels[row] == 'cup'


def test_most_votes_decide_the_label_and_the_key_stays() -> None:
    bench = Bench(an_input(), LandmarkSettings(confirm_n=2))
    for step in range(10):
        bench.see_all(step, [(1, 0, 0.8)], 'mug' if step else 'cup')
    (row,) = bench.landmarks().values()
    assert bench.landmark_map.labels[row] == 'mug'
    assert bench.landmark_map.keys[row].startswith('cup/')


def test_a_cup_on_a_table_is_not_the_table() -> None:
    bench = Bench(an_input())
    sizes = np.array([(1.6, 0.8, 0.7), (0.08, 0.08, 0.1)])
    given = bench.see_all(1, [(2, 0, 0.6), (2, 0, 0.65)], ['table', 'cup'], extents=sizes)
    assert given[0] != given[1]
    assert bench.see_all(2, [(2, 0, 0.65)], 'cup', extents=sizes[1:]) == given[1:]


@pytest.mark.parametrize(('offset_m', 'things'), [(0.005, 1), (0.05, 2)])
def test_boxes_of_one_label_are_one_only_when_they_nearly_coincide(offset_m: float, things: int) -> None:
    bench = Bench(an_input())
    places = [(1, 0, 0.8), (1 + offset_m, 0, 0.8)]
    given = bench.see_all(1, places, extents=np.full((2, 3), 0.08))
    assert len(set(given)) == things


def test_a_duplicate_merges_into_the_older_one_which_takes_its_sightings() -> None:
    bench = Bench(an_input(sigma_m=0.02))
    bench.see_all(1, [(1, 0, 0.8)])
    # One wild measurement makes another landmark; then all that is seen lies between the two.
    bench.see_all(2, [(1.3, 0, 0.8)])
    assert len(bench.landmarks(confirmed=False)) == 2
    for step in range(3, 60):
        bench.see_all(step * 70, [(1.1, 0, 0.8)])
    (number,) = bench.landmarks(confirmed=False)
    assert number == 1
    assert set(bench.landmark_map.sightings.state['origin'][bench.landmark_map.sightings.of(1)].tolist()) == {
        1,
        2,
    }
    assert bench.landmark_map.sightings.of(2).tolist() == []


class TestUnique:
    """Labels of which there is one thing at most."""

    def bench(self) -> Bench:
        return Bench(an_input(), LandmarkSettings(unique=('dock',), confirm_n=3))

    def test_it_moves(self) -> None:
        bench = self.bench()
        for step in range(5):
            bench.see_all(step, [(1, 0, 0.5)], 'dock')
        for step in range(5, 10):
            bench.see_all(step, [(8, 0, 0.5)], 'dock')
        (row,) = bench.landmarks().values()
        assert bench.landmark_map.state['mean'][row].tolist() == pytest.approx([8.0, 0.0, 0.5])
        assert bench.landmark_map.keys[row].startswith('dock/')

    def test_of_two_in_a_message_the_better_one_is_it(self) -> None:
        bench = self.bench()
        scores = np.array([0.5, 0.9])
        given = bench.see_all(1, [(1, 0, 0.5), (8, 0, 0.5)], 'dock', scores=scores)
        assert given[0] == 0
        assert given[1] > 0


def test_detections_of_one_keyframe_share_the_error_of_localization() -> None:
    bench = Bench(an_input(sigma_m=0.02))
    for step in range(50):
        bench.see_all(step, [(1, 0, 0.8)])
    variance = bench.landmark_map.state['covariance'][0][0]
    assert variance >= 0.035**2
    bench.see_all(70, [(1, 0, 0.8)])
    assert variance * 0.4 <= bench.landmark_map.state['covariance'][0][0] <= variance * 0.6


def test_what_lies_in_a_plane_has_two_degrees_of_freedom() -> None:
    validator = DetectionValidator(an_input(), lambda reason, count: None)
    assert validator.validate(a_message(1, [(1, 0, 0), (2, 0, 0)]), HERE).dof == 2
    assert validator.validate(a_message(1, [(1, 0, 0), (2, 0, 0.1)]), HERE).dof == 3


@pytest.mark.parametrize(
    'matrix',
    [
        [(1e-2, 1e-2, 0.0), (1e-2, 1e-2, 0.0), (0.0, 0.0, 1e-2)],
        [(1e-2, 0.0, 0.0), (0.0, 1e-2, 0.0), (0.0, 0.0, 0.0)],
        [(1e-9, 0.0, 0.0), (0.0, 1e6, 0.0), (0.0, 0.0, 1e-2)],
        [(1.0, 0.9, 0.9), (0.9, 1.0, -0.9), (0.9, -0.9, 1.0)],
    ],
)
@pytest.mark.parametrize('floor_m', [0.0, 0.01])
def test_a_covariance_that_claims_to_be_exact_does_no_harm(
    matrix: list[tuple[float, ...]], floor_m: float
) -> None:
    bench = Bench(an_input(sigma_floor_m=floor_m))
    for step in range(10):
        bench.see_all(70 * step, [(1, 0, 0.8)], covariances=np.array([matrix]))
    (row,) = bench.landmarks(confirmed=False).values()
    assert bench.landmark_map.state['mean'][row] == pytest.approx([1, 0, 0.8], abs=1e-6)
    assert (bench.landmark_map.state['covariance'][row][[0, 3, 5]] > 0.0).all()
