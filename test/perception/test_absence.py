"""What is seen no more where it should be: stale without proof, gone with it, moved where it is proved."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from perception.pieces import (
    NS,
    START_NS,
    Standing,
    a_message,
    a_pipeline,
    an_input,
    feed,
    is_complete,
    landmarks_of,
    open_memory,
    some_settings,
    state_of,
    stored_receipts,
)

from hylo_memory_ros.errors import StoreBusyError
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.perception import Detections, InputSettings, LandmarkSettings, Message
from hylo_memory_ros.perception.existence.visibility import CameraModel, DepthImage, OccupancyGrid, View
from hylo_memory_ros.transforms import Transform

CAMERA = CameraModel((100.0, 100.0, 80.0, 60.0), 160)
NOTHING = Detections((), np.zeros((0, 3)))
CUP = (0.0, 0.0, 2.0)
"""In the optical frame: straight ahead."""


class Strolling(Standing):
    """A robot whose camera looks along the map's z, and that steps aside by 0.6 m every ten seconds."""

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        super().lookup(target_frame, source_frame, stamp_ns)
        step = (stamp_ns - START_NS) // (10 * NS)
        return Transform(
            (0.6 * (step % 2), 0.01 * step, 0.0), (0.0, 0.0, 0.0, 1.0), target_frame, source_frame, stamp_ns
        )


def watching(**fields: Any) -> InputSettings:
    usual = {'fov_horizontal_rad': 1.2, 'fov_vertical_rad': 1.0, 'max_range_m': 5.0}
    return an_input(**{**usual, **fields})


def depth_settings(**fields: Any) -> LandmarkSettings:
    return some_settings(
        watching(visibility='depth'),
        an_input('depth', type='sensor_msgs/msg/Image', camera_info='info'),
        an_input('info', type='sensor_msgs/msg/CameraInfo'),
        **fields,
    )


def grid_settings(**fields: Any) -> LandmarkSettings:
    return some_settings(
        watching(visibility='grid'), an_input('grid', type='nav_msgs/msg/OccupancyGrid'), **fields
    )


def a_view(at_s: float, view: View, source: str, frame_id: str = 'camera_link') -> Message:
    return Message(source, START_NS + round(at_s * NS), frame_id, 7, NOTHING, view=view)


def a_depth(at_s: float, depth_m: float) -> list[Message]:
    image = DepthImage(np.full((120, 160), depth_m, dtype=np.float32))
    return [a_view(at_s, CAMERA, 'info'), a_view(at_s, image, 'depth')]


def a_grid(at_s: float, blocked: bool = False) -> Message:
    cells = np.zeros((80, 80), dtype=np.int8)
    if blocked:
        cells[:, 50] = 100
    origin = Transform((-4.0, -4.0, 0.0))
    return a_view(at_s, OccupancyGrid(cells, 0.1, origin), 'grid', 'map')


def seen(at_s: float, *places: tuple[float, float, float], source: str = 'camera') -> Message:
    robot = Strolling().lookup('map', 'camera_link', START_NS + round(at_s * NS)).inverse()
    return a_message(at_s, [robot.position(place) for place in places], source=source)


def confirmed(until_s: float = 3.0) -> list[Message]:
    return [seen(0.5 * step, CUP) for step in range(round(2 * until_s))]


def missing(first: int, last: int, depth_m: float | None = None) -> list[Message]:
    """Return messages without the cup, one from each viewpoint, perhaps each with a depth image."""
    found: list[Message] = []
    for step in range(first, last):
        if depth_m is not None:
            found += a_depth(10.0 * step, depth_m)
        found.append(seen(10.0 * step))
    return found


def run(messages: list[Message], settings: LandmarkSettings, commit_every: int = 0) -> Any:
    memory = open_memory()
    pipeline = a_pipeline(memory, settings, Strolling())
    feed(pipeline, messages, commit_every)
    pipeline.close()
    return memory


def statuses(memory: Any, **fields: Any) -> list[str]:
    return [hit.status for hit in landmarks_of(memory, include_stale=True, **fields)]


def test_without_a_field_of_view_nothing_is_ever_missing() -> None:
    memory = run([*confirmed(), *missing(1, 20)], some_settings(an_input()))
    assert statuses(memory) == ['current']


def test_without_a_witness_what_is_missed_from_several_viewpoints_is_stale() -> None:
    settings = some_settings(watching())
    assert statuses(run([*confirmed(), *missing(1, 3)], settings)) == ['current']
    memory = run([*confirmed(), *missing(1, 20)], settings)
    (hit,) = landmarks_of(memory, include_stale=True)
    assert hit.status == 'stale'
    assert hit.stats.existence > 0.9  # nothing was proved
    assert not landmarks_of(memory, include_stale=False)


def test_a_stale_thing_that_is_seen_again_is_current() -> None:
    memory = run([*confirmed(), *missing(1, 9), seen(90.0, CUP)], some_settings(watching()))
    assert statuses(memory) == ['current']


def test_doubt_leaves_a_receipt_that_names_no_witness() -> None:
    memory = run([*confirmed(), *missing(1, 20)], some_settings(watching()))
    (told,) = stored_receipts(memory, 'absence')
    (decision,) = told['decisions']
    assert (told['witness'], told['input'], decision['outcome']) == (None, 'camera', 'stale')
    assert decision['misses'] == told['stale_after']
    assert decision['existence_after'] == decision['existence_before']


def test_an_end_leaves_a_receipt_with_witness_viewpoint_and_existence() -> None:
    memory = run([*confirmed(), *missing(1, 9, 4.0)], depth_settings())
    told = stored_receipts(memory, 'absence')[-1]
    (decision,) = told['decisions']
    assert told['witness'] == {'input': 'depth', 'stamp_ns': told['stamp_ns']}
    assert told['viewpoint']['keyframe'] > 1
    assert (decision['outcome'], decision['sight']) == ('gone', 'empty')
    assert decision['existence_after'] < told['gone_below'] <= decision['existence_before']
    assert told['keys'] == [decision['landmark']]


def test_a_map_that_comes_after_what_it_is_for_is_late_and_one_that_comes_again_is_not() -> None:
    memory = open_memory()
    pipeline = a_pipeline(memory, grid_settings(), Strolling())
    assert pipeline.offer(a_grid(0.0)) == 'pending'
    feed(pipeline, [*confirmed(), *missing(1, 3)])
    pipeline.flush()
    assert pipeline.offer(a_grid(0.0)) == 'repeated'
    pipeline.commit(force=True)
    assert is_complete(memory)
    assert pipeline.offer(a_grid(5.0)) == 'late'
    pipeline.commit(force=True)
    assert not is_complete(memory)
    assert pipeline.offer(a_grid(30.0)) == 'pending'


def test_silence_is_no_evidence() -> None:
    memory = run([*confirmed(), seen(900.0, (1.0, 1.0, 2.0))], depth_settings())
    assert statuses(memory)[0] == 'current'


def test_a_depth_image_that_looks_through_the_place_ends_it() -> None:
    settings = depth_settings()
    one = run([*confirmed(), *missing(1, 2, 4.0)], settings)
    (hit,) = landmarks_of(one, include_stale=True)
    assert 0.05 < hit.stats.existence < 0.95
    memory = run([*confirmed(), *missing(1, 9, 4.0)], settings)
    assert not landmarks_of(memory)
    (before,) = landmarks_of(memory, as_of_ns=START_NS + 15 * NS)
    assert before.status == 'current'
    assert before.ended_by.startswith('end: ')
    # It ended at the stamp of the last evidence, which is that of a message.
    assert before.valid_to_ns in {START_NS + 10 * NS * step for step in range(1, 9)}
    assert memory.changes().changes[-1].op == 'end'
    assert memory.verify().ok


def test_an_image_that_is_not_of_its_camera_says_nothing_and_is_counted() -> None:
    """A section of the image beside the CameraInfo of the whole: the place lies elsewhere in its pixels."""
    camera = CameraModel((100.0, 100.0, 80.0, 60.0), 160, 120)
    section = DepthImage(np.full((60, 160), 4.0, dtype=np.float32), size=(160, 60))
    views = [
        view
        for step in range(1, 9)
        for view in (a_view(10.0 * step, camera, 'info'), a_view(10.0 * step, section, 'depth'))
    ]
    messages = sorted([*confirmed(), *missing(1, 9), *views], key=lambda message: message.order)
    with open_memory() as memory:
        pipeline = a_pipeline(memory, depth_settings(), Strolling())
        feed(pipeline, messages)
        pipeline.close()
        (depth,) = (one for one in pipeline.status().inputs if one.name == 'depth')
        assert depth.refused == {'camera_mismatch': 8}
        (hit,) = landmarks_of(memory, include_stale=True)
        assert hit.stats.existence > 0.9


def test_a_depth_image_with_something_before_the_place_says_nothing() -> None:
    memory = run([*confirmed(), *missing(1, 30, 1.0)], depth_settings())
    assert statuses(memory) == ['current']


@pytest.mark.parametrize('depth_m', [0.0, math.nan, math.inf])
def test_a_depth_image_without_a_measurement_says_nothing(depth_m: float) -> None:
    memory = run([*confirmed(), *missing(1, 30, depth_m)], depth_settings())
    assert statuses(memory) == ['current']


def test_an_image_older_than_the_tolerance_does_not_count() -> None:
    late = [
        message for step in range(1, 30) for message in (*a_depth(10.0 * step - 0.2, 4.0), seen(10.0 * step))
    ]
    memory = run([*confirmed(), *late], depth_settings())
    (hit,) = landmarks_of(memory, include_stale=True)
    assert (hit.status, hit.stats.existence > 0.9) == ('stale', True)


def test_one_viewpoint_speaks_once() -> None:
    rest: list[Message] = []
    for step in range(200):
        rest += [*a_depth(10.0 + 0.04 * step, 4.0), seen(10.0 + 0.04 * step)]
    memory = run([*confirmed(), *rest], depth_settings())
    (hit,) = landmarks_of(memory, include_stale=True)
    (once,) = landmarks_of(run([*confirmed(), *missing(1, 2, 4.0)], depth_settings()), include_stale=True)
    assert hit.stats.existence == once.stats.existence


def test_a_hit_takes_the_place_of_a_miss_from_the_same_viewpoint() -> None:
    flicker = [*a_depth(10.0, 4.0), seen(10.0), seen(10.5, CUP)]
    (hit,) = landmarks_of(run([*confirmed(), *flicker], depth_settings()))
    assert hit.stats.existence > 0.9


@pytest.mark.parametrize(('blocked', 'left'), [(False, 0), (True, 1)])
def test_a_ray_against_a_map_tells_whether_the_place_could_be_seen(blocked: bool, left: int) -> None:
    # The map lies in the plane, so the camera looks along x here.
    settings = some_settings(
        watching(visibility='grid', view_axis='x'),
        an_input('grid', type='nav_msgs/msg/OccupancyGrid'),
    )
    cup = (2.0, 0.0, 0.0)
    messages = [a_grid(-1.0, blocked), *(seen(0.5 * step, cup) for step in range(6)), *missing(1, 9)]
    assert len(landmarks_of(run(messages, settings), include_stale=True)) == left


def test_what_is_at_the_edge_or_out_of_range_is_not_expected() -> None:
    for place in ((1.35, 0.0, 2.0), (0.0, 1.05, 2.0), (0.0, 0.0, 4.95)):
        settings = depth_settings(reorder_window_s=0.5)
        messages = [seen(0.5 * step, place) for step in range(6)]
        memory = run([*messages, *missing(2, 3, 9.0)], settings)
        (hit,) = landmarks_of(memory, include_stale=True)
        assert hit.stats.existence > 0.9, place


def test_an_input_answers_only_for_its_labels() -> None:
    settings = some_settings(
        watching(visibility='depth', labels={'mug': 'mug'}),
        an_input('other'),
        an_input('depth', type='sensor_msgs/msg/Image', camera_info='info'),
        an_input('info', type='sensor_msgs/msg/CameraInfo'),
    )
    messages = [seen(0.5 * step, CUP, source='other') for step in range(6)]
    assert statuses(run([*messages, *missing(1, 20, 4.0)], settings)) == ['current']


def moved(elsewhere: tuple[float, float, float], twins: int = 1) -> list[Message]:
    """Return a cup, then its old place empty while it, or several like it, stand elsewhere."""
    found = confirmed()
    for step in range(1, 9):
        found += a_depth(10.0 * step, 4.0)
        places = [(elsewhere[0], elsewhere[1] + 0.9 * twin, elsewhere[2]) for twin in range(twins)]
        found += [seen(10.0 * step + 0.1 * part, *places) for part in range(4)]
    return found


def test_a_single_thing_that_left_an_empty_place_has_moved_and_keeps_its_key() -> None:
    memory = run(moved((1.0, -0.5, 2.0)), depth_settings())
    (hit,) = landmarks_of(memory)
    assert hit.item.pose.position == pytest.approx((1.0, -0.5, 2.0), abs=0.01)
    (before,) = landmarks_of(memory, as_of_ns=START_NS + 5 * NS)
    assert (before.item.key, before.item.pose.position) == (hit.item.key, pytest.approx(CUP, abs=0.01))
    assert memory.verify().ok
    (told,) = stored_receipts(memory, 'displacement')
    assert (told['moved'], told['outcome']) == (hit.item.key, 'moved')
    assert told['distance_m'] == pytest.approx(math.dist(CUP, (1.0, -0.5, 2.0)), abs=0.02)
    assert told['existence'] < told['gone_below']


def test_a_camera_that_stands_still_finds_that_a_thing_has_moved() -> None:
    """It has one viewpoint a minute, so that the old place is found empty minutes after the move."""
    other = (1.0, -0.5, 2.0)
    messages = [a_message(float(second), [CUP]) for second in range(20)]
    for second in range(20, 400):
        messages += [*a_depth(float(second), 4.0), a_message(float(second), [other])]
    with open_memory() as memory:
        pipeline = a_pipeline(memory, depth_settings())
        feed(pipeline, messages)
        pipeline.close()
        (hit,) = landmarks_of(memory)
        (before,) = landmarks_of(memory, as_of_ns=START_NS + 10 * NS)
        assert hit.item.pose.position == pytest.approx(other, abs=0.01)
        assert hit.item.key == before.item.key
        (told,) = stored_receipts(memory, 'displacement')
        assert (told['gone_ns'] - told['first_ns']) / NS > 120.0
        assert told['within_s'] == depth_settings().moved_within_s


@pytest.mark.parametrize(
    ('rest_s', 'probability', 'within_s'),
    [
        (60.0, 0.9, 300.0),
        (5.0, 0.9, 60.0),
        (120.0, 0.9, 600.0),
        (60.0, 0.5, 780.0),
        (60.0, 1.0, 180.0),
        (60.0, 0.01, 3600.0),
    ],
)
def test_the_time_for_a_move_fits_the_time_that_its_proof_takes(
    rest_s: float, probability: float, within_s: float
) -> None:
    witnesses = depth_settings().inputs[1:]
    seeing = watching(visibility='depth', detection_probability=probability)
    settings = some_settings(seeing, *witnesses, keyframe_rest_s=rest_s)
    assert settings.moved_within_s == within_s


def test_of_two_that_appeared_neither_is_the_one_that_left() -> None:
    memory = run(moved((1.0, -0.5, 2.0), twins=2), depth_settings())
    hits = landmarks_of(memory)
    (before,) = landmarks_of(memory, as_of_ns=START_NS + 5 * NS)
    assert len(hits) == 2
    assert before.item.key not in {hit.item.key for hit in hits}


def test_what_comes_back_after_its_end_begins_anew() -> None:
    back = [seen(500.0 + 0.5 * step, CUP) for step in range(6)]
    memory = run([*confirmed(), *missing(1, 9, 4.0), *back], depth_settings())
    (hit,) = landmarks_of(memory)
    assert hit.item.valid_from_ns >= START_NS + 500 * NS
    (before,) = landmarks_of(memory, as_of_ns=START_NS + 5 * NS)
    assert before.item.key != hit.item.key


@pytest.mark.parametrize('commit_every', [0, 1, 7])
def test_absence_follows_from_stamps_alone(commit_every: int, tmp_path: Path) -> None:
    messages = moved((1.0, -0.5, 2.0))
    expected = state_of(run(messages, depth_settings()))
    assert state_of(run(messages, depth_settings(), commit_every)) == expected
    with open_memory(tmp_path / 'memory.db') as memory:
        # Stopped and started again in the middle, the overlap received twice.
        for part in (messages[:40], messages[30:]):
            pipeline = a_pipeline(memory, depth_settings(), Strolling())
            feed(pipeline, part, commit_every)
            pipeline.commit(force=True)
        pipeline.close()
        assert memory.snapshot() == expected[0]


@pytest.mark.parametrize('seed', range(4))
def test_depth_images_may_come_later_than_what_was_seen(seed: int) -> None:
    messages = moved((1.0, -0.5, 2.0))
    rng = random.Random(seed)
    arrival = {id(message): message.stamp_ns + rng.uniform(0.0, 0.45) * NS for message in messages}
    shuffled = sorted(messages, key=lambda message: arrival[id(message)])
    assert shuffled != messages
    assert state_of(run(shuffled, depth_settings())) == state_of(run(messages, depth_settings()))


def test_a_second_loop_of_the_bag_changes_nothing() -> None:
    messages = [*confirmed(), *missing(1, 9, 4.0)]
    once, twice = run(messages, depth_settings()), run([*messages, *messages], depth_settings())
    assert once.snapshot() == twice.snapshot()
    assert len(once.query(MemoryQuery(include_invalidated=True, k=9))) == 1


def test_how_often_a_viewpoint_begins_is_configured() -> None:
    settings = some_settings(watching(visibility='depth'), *depth_settings().inputs[1:], keyframe_rest_s=5.0)
    rest = [message for step in range(1, 9) for message in (*a_depth(9.0 + step, 4.0), seen(9.0 + step))]
    (hit,) = landmarks_of(run([*confirmed(), *rest], settings), include_stale=True)
    (once,) = landmarks_of(run([*confirmed(), *rest], depth_settings()), include_stale=True)
    assert hit.stats.existence < once.stats.existence


def test_a_commit_that_fails_between_ends_and_statistics_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = [*confirmed(), *missing(1, 9, 4.0)]
    with open_memory() as memory:
        pipeline = a_pipeline(memory, depth_settings(), Strolling())
        feed(pipeline, messages)
        pipeline.flush()
        real, failures = memory.begin_unnumbered, iter([True])

        def failing(**options: Any) -> Any:
            # Reading goes on; the statistics, after the end was stored, fail once.
            if (
                memory.changes().changes
                and memory.changes().changes[-1].op == 'end'
                and next(failures, False)
            ):
                raise StoreBusyError('the disk is slow')
            return real(**options)

        monkeypatch.setattr(memory, 'begin_unnumbered', failing)
        with pytest.raises(StoreBusyError):
            pipeline.commit(force=True)
        pipeline.close()
        assert next(failures, None) is None
        expected = run(messages, depth_settings())
        assert state_of(memory)[0] == state_of(expected)[0]
        assert [change.op for change in memory.changes().changes].count('end') == 1
        assert memory.verify().ok
