"""From messages to items: what is refused, what is consumed, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable

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
    recorded,
    some_settings,
)
from perception.pipeline.pieces import CUP, cups, the_input

from hylo_memory_ros.errors import InvalidRequestError, UnknownFrameError
from hylo_memory_ros.perception import LandmarkPipeline, Message
from hylo_memory_ros.transforms import Transform


def test_a_cup_becomes_one_item_with_statistics() -> None:
    with open_memory() as memory:
        pipeline = a_pipeline(memory)
        feed(pipeline, cups(1, 5), commit_every=10)
        pipeline.close()
        (hit,) = landmarks_of(memory)
        assert hit.item.pose is not None
        assert (hit.item.pose.position, hit.item.pose.frame_id, hit.item.label) == (CUP, 'map', 'cup')
        assert hit.item.valid_from_ns == START_NS + NS
        with memory.read() as view:
            (stats,) = view.landmarks.stats([('hall', hit.item.key or '')]).values()
        assert (stats.observations, stats.last_observed_ns) == (41, START_NS + 5 * NS)
        assert (pipeline.status().landmarks, pipeline.status().confirmed) == (1, 1)
        assert is_complete(memory)


def test_an_unknown_input_is_refused_by_name() -> None:
    with open_memory() as memory, pytest.raises(InvalidRequestError, match="'lidar' is not declared"):
        a_pipeline(memory).offer(a_message(1.0, [CUP], source='lidar'))


@pytest.mark.parametrize(
    ('message', 'reason'),
    [
        (lambda: Message('camera', 0, 'camera_link', 1, a_message(1, [CUP]).detections), 'zero_stamp'),
        (lambda: Message('camera', -1, 'camera_link', 1, a_message(1, [CUP]).detections), 'bad_stamp'),
        (lambda: Message('camera', 2**62, 'camera_link', 1, a_message(1, [CUP]).detections), 'bad_stamp'),
        (lambda: a_message(-600, [CUP]), 'before_min_valid_stamp'),
        (lambda: a_message(5000, [CUP]), 'ahead_of_clock'),
        (lambda: a_message(1, [CUP], frame_id=''), 'bad_frame'),
        (lambda: a_message(1, [CUP], frame_id='//map'), 'bad_frame'),
        (lambda: a_message(1, [CUP], frame_id=' map '), 'bad_frame'),
    ],
)
def test_a_message_that_breaks_a_rule_is_counted_and_not_remembered(
    message: Callable[[], Message], reason: str
) -> None:
    with open_memory() as memory:
        settings = some_settings(min_valid_stamp_s=500.0)
        pipeline = LandmarkPipeline(
            memory, Standing(), settings, map_id='hall', clock=lambda: START_NS + 100 * NS
        )
        assert pipeline.offer(message()) == 'refused'
        pipeline.note_refused('camera', 'malformed', 2)
        pipeline.close()
        assert the_input(pipeline).refused == {reason: 1, 'malformed': 2}
        assert pipeline.status().watermark_ns == 0
        assert not recorded(memory)
        assert is_complete(memory)


def test_a_clock_that_has_not_started_refuses_nothing() -> None:
    with open_memory() as memory:
        pipeline = LandmarkPipeline(memory, Standing(), some_settings(), clock=lambda: 0)
        assert pipeline.offer(a_message(1.0, [CUP])) == 'pending'


class Nowhere(Standing):
    """No transforms at all."""

    def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
        raise UnknownFrameError(source_frame)


def test_one_leading_slash_is_stripped_and_the_global_frame_needs_no_transform() -> None:
    with open_memory() as memory:
        pipeline = a_pipeline(memory, source=Nowhere())
        feed(pipeline, cups(1, 3, frame_id='/map'))
        pipeline.close()
        assert len(landmarks_of(memory)) == 1


def test_an_empty_array_moves_the_watermark_and_is_consumed() -> None:
    with open_memory() as memory:
        pipeline = a_pipeline(memory)
        assert pipeline.offer(a_message(1.0, [])) == 'pending'
        pipeline.close()
        assert pipeline.status().watermark_ns == START_NS + NS
        assert pipeline.offer(a_message(1.0, [])) == 'repeated'


def test_a_pose_input_reports_its_one_thing() -> None:
    dock = an_input(
        'dock', type='geometry_msgs/msg/PoseStamped', label='dock', instance='dock/home', gate_m=0.1
    )
    with open_memory() as memory:
        pipeline = a_pipeline(memory, some_settings(dock))
        feed(pipeline, [a_message(at, [(4, 0, 0)], '', source='dock') for at in range(5)])
        pipeline.close()
        (hit,) = landmarks_of(memory)
        assert (hit.item.key, hit.item.label) == ('dock/home', 'dock')
