"""Tags: their poses come from tf at the stamp of the message, and what tf does not have is counted."""

from typing import Any

import numpy as np
import pytest
from perception.pieces import NS, START_NS, an_input, landmarks_of, open_memory, some_settings

from hylo_memory_ros.perception import Detections, LandmarkPipeline, Message
from hylo_memory_ros.transforms import TransformBuffer

TAGS = 'apriltag_msgs/msg/AprilTagDetectionArray'
UPRIGHT = (0.0, 0.0, 0.0, 1.0)


class Robot:
    """A robot that stands in the map, whose tag detector speaks when it is told to."""

    def __init__(self, memory: Any, **fields: Any) -> None:
        self.tf = TransformBuffer()
        source = an_input('tags', type=TAGS, **fields)
        settings = some_settings(source, confirm_n=1, pending_max_age_s=5.0)
        self.pipeline = LandmarkPipeline(memory, self.tf, settings, map_id='hall')

    def moves(self, second: float) -> None:
        stamp_ns = START_NS + round(second * NS)
        self.tf.set_transform('map', 'base_link', stamp_ns, (1.0, 0.0, 0.0), UPRIGHT)
        self.tf.set_transform('base_link', 'camera', 0, (0.5, 0.0, 0.0), UPRIGHT, static=True)
        self.pipeline.poll()

    def sees(self, second: float, *numbers: int) -> None:
        names = [f'tag36h11:{number}' for number in numbers]
        columns = Detections(
            ['tag36h11'] * len(names), np.zeros((len(names), 3)), instances=names, frames=names
        )
        stamp_ns = START_NS + round(second * NS)
        self.pipeline.offer(Message('tags', stamp_ns, 'camera', stamp_ns % 2**31, columns))

    def places(self, second: float, number: int | str, x: float) -> None:
        frame = number if isinstance(number, str) else f'tag36h11:{number}'
        self.tf.set_transform('camera', frame, START_NS + round(second * NS), (x, 0.0, 0.0), UPRIGHT)
        self.pipeline.poll()

    @property
    def counts(self) -> dict[str, int]:
        (status,) = self.pipeline.status().inputs
        return {**status.refused, 'consumed': status.consumed, 'pending': status.pending, **status.lost}


@pytest.fixture
def memory() -> Any:
    with open_memory() as memory:
        yield memory


def found(robot: Robot, memory: Any) -> dict[str, float]:
    robot.pipeline.close()
    return {hit.item.key: hit.item.pose.position[0] for hit in landmarks_of(memory)}


def test_a_tag_is_where_tf_says_it_was_when_it_was_seen(memory: Any) -> None:
    robot = Robot(memory)
    for second in range(4):
        robot.moves(second)
        robot.sees(second, 4, 7)
        robot.places(second, 4, 2.0)
        robot.places(second, 7, 3.0)
    assert found(robot, memory) == {'tag36h11:4': 3.5, 'tag36h11:7': 4.5}
    assert robot.counts == {'consumed': 4, 'pending': 0}


def test_a_message_waits_for_the_transforms_of_all_its_tags(memory: Any) -> None:
    robot = Robot(memory)
    robot.moves(0)
    robot.places(0, 4, 2.0)
    robot.sees(0, 4, 7)
    robot.moves(3)
    robot.sees(3)
    assert robot.counts['pending'] == 2
    robot.places(0, 7, 3.0)
    assert robot.counts['pending'] == 1
    assert found(robot, memory) == {'tag36h11:4': 3.5, 'tag36h11:7': 4.5}


def test_a_tag_without_a_transform_is_counted_and_skipped_and_waited_for_once(memory: Any) -> None:
    robot = Robot(memory)
    for second in range(20):
        robot.moves(second)
        robot.sees(second, 4, 7)
        robot.places(second, 4, 2.0)
        if second == 5:
            assert robot.counts['consumed'] == 0
        if second > 8:
            assert robot.counts['pending'] <= 2
    assert found(robot, memory) == {'tag36h11:4': 3.5}
    assert robot.counts == {'consumed': 20, 'pending': 0, 'no_transform': 20}


def test_a_transform_that_comes_late_is_used_from_then_on(memory: Any) -> None:
    robot = Robot(memory)
    for second in range(20):
        robot.moves(second)
        robot.sees(second, 7)
        if second >= 10:
            robot.places(second, 7, 3.0)
    assert found(robot, memory) == {'tag36h11:7': 4.5}
    assert robot.counts['no_transform'] >= 5


def test_without_any_transform_the_message_is_dropped_like_any_other(memory: Any) -> None:
    robot = Robot(memory)
    for second in range(8):
        robot.sees(second, 4)
    robot.pipeline.poll()
    assert robot.counts['frame_unknown'] >= 1


def test_a_detector_may_call_the_frame_of_a_tag_otherwise(memory: Any) -> None:
    robot = Robot(memory, tag_frames={'tag36h11:4': 'dock_tag'})
    for second in range(3):
        robot.moves(second)
        robot.sees(second, 4)
        robot.places(second, 'dock_tag', 2.0)
    assert found(robot, memory) == {'tag36h11:4': 3.5}


def test_a_tag_may_have_a_label_of_its_own(memory: Any) -> None:
    robot = Robot(memory, labels={'tag36h11:4': 'dock', 'tag36h11': 'tag'})
    for second in range(3):
        robot.moves(second)
        robot.sees(second, 4, 7)
        robot.places(second, 4, 2.0)
        robot.places(second, 7, 2.5)
    robot.pipeline.close()
    assert {hit.item.key: hit.item.label for hit in landmarks_of(memory)} == {
        'tag36h11:4': 'dock', 'tag36h11:7': 'tag',
    }  # fmt: skip


def test_a_name_that_no_frame_can_have_is_counted(memory: Any) -> None:
    robot = Robot(memory, tag_frames={})
    robot.moves(0)
    columns = Detections(['x'], np.zeros((1, 3)), instances=['//x'], frames=['//x'])
    robot.pipeline.offer(Message('tags', START_NS, 'camera', 1, columns))
    robot.pipeline.flush()
    assert robot.counts['no_transform'] == 1
