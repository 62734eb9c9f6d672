"""What waits for its transform, what is lost, and what a jump of the clock or a switch of maps ends."""

from __future__ import annotations

from pathlib import Path

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
    landmark_rows,
    open_memory,
    some_settings,
)
from perception.pipeline.pieces import CUP, cups, the_input

from hylo_memory_ros.errors import DisconnectedFrameError, TransformTooOldError, UnknownFrameError
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.perception import LandmarkPipeline
from hylo_memory_ros.transforms import Transform


class TestWaiting:
    """What waits for its transform, and for how long."""

    def test_it_is_processed_when_the_transform_arrives(self) -> None:
        robot = Standing(known_until_ns=START_NS)
        with open_memory() as memory:
            pipeline = a_pipeline(memory, source=robot)
            feed(pipeline, cups(1, 3))
            assert (the_input(pipeline).pending, the_input(pipeline).consumed) == (21, 0)
            assert pipeline.flush() == 21
            robot.known_until_ns = START_NS + 2 * NS
            assert pipeline.on_transforms() == 11
            assert pipeline.flush(START_NS + 2 * NS) == 0
            assert pipeline.flush() == 10
            robot.known_until_ns = None
            pipeline.close()
            assert (the_input(pipeline).pending, the_input(pipeline).consumed) == (0, 21)
            assert is_complete(memory)

    def test_it_needs_the_transforms_from_its_stamp_on_until_it_is_looked_up(self) -> None:
        robot = Standing(known_until_ns=START_NS)
        with open_memory() as memory:
            pipeline = a_pipeline(memory, source=robot)
            assert pipeline.needed_ns is None
            for second in (1.3, 1, 3):
                pipeline.offer(a_message(second, [CUP]))
            assert pipeline.needed_ns == START_NS + NS
            pipeline.poll()
            assert pipeline.needed_ns == START_NS + NS
            robot.known_until_ns = START_NS + 2 * NS
            pipeline.poll()
            assert pipeline.needed_ns == START_NS + 3 * NS
            robot.known_until_ns = None
            pipeline.poll()
            # The watermark holds it back, but its transform is known.
            assert (the_input(pipeline).pending, pipeline.needed_ns) == (1, None)

    def test_one_answer_for_a_message_however_often_it_is_polled(self) -> None:
        robot = Standing()
        with open_memory() as memory:
            pipeline = a_pipeline(memory, source=robot)
            feed(pipeline, cups(1, 3))
            for _ in range(10):
                pipeline.on_transforms()
            assert robot.lookups == 42

    def test_it_expires_by_stamps(self) -> None:
        with open_memory() as memory:
            settings = some_settings(pending_max_age_s=2.0)
            pipeline = a_pipeline(memory, settings, Standing(known_until_ns=START_NS))
            feed(pipeline, cups(1, 3))
            assert the_input(pipeline).pending == 21
            feed(pipeline, [a_message(3.55, [CUP])])
            assert the_input(pipeline).lost == {'transform_too_new': 6}
            pipeline.commit()
            assert not is_complete(memory)

    @pytest.mark.parametrize(
        ('refusal', 'reason'),
        [(UnknownFrameError, 'frame_unknown'), (DisconnectedFrameError, 'frame_disconnected')],
    )
    def test_a_frame_that_never_comes_does_not_hold_the_others_for_ever(
        self, refusal: type[Exception], reason: str
    ) -> None:
        class Lost(Standing):
            def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
                if source_frame == 'nowhere':
                    raise refusal(f'{source_frame} is nowhere')
                return super().lookup(target_frame, source_frame, stamp_ns)

        with open_memory() as memory:
            settings = some_settings(an_input('a'), an_input('b'), pending_max_age_s=1.0)
            pipeline = a_pipeline(memory, settings, Lost())
            for at in range(100):
                pipeline.offer(a_message(at / 10, [CUP], source='a', frame_id='nowhere'))
                pipeline.offer(a_message(at / 10, [CUP], source='b'))
                pipeline.poll()
            first, second = pipeline.status().inputs
            assert first.lost == {reason: first.dropped}
            assert second.pending == 5  # the window of 0.5 s, not the age of 1 s
            assert second.dropped == 0

    def test_the_past_is_lost_at_once(self) -> None:
        class Late(Standing):
            def lookup(self, target_frame: str, source_frame: str, stamp_ns: int) -> Transform:
                raise TransformTooOldError('too old')

        with open_memory() as memory:
            pipeline = a_pipeline(memory, source=Late())
            feed(pipeline, [a_message(1.0, [CUP])])
            assert the_input(pipeline).lost == {'transform_too_old': 1}
            assert the_input(pipeline).pending == 0

    def test_the_oldest_is_dropped_under_overload(self) -> None:
        with open_memory() as memory:
            pipeline = a_pipeline(
                memory, some_settings(pending_max=10), source=Standing(known_until_ns=START_NS)
            )
            feed(pipeline, cups(1, 3))
            pipeline.note_dropped('camera', 3)
            assert the_input(pipeline).pending == 10
            assert the_input(pipeline).lost == {'overload': 14}
            pipeline.commit()
            assert not is_complete(memory)

    def test_what_still_waits_at_the_end_may_come_again(self, tmp_path: Path) -> None:
        with open_memory(tmp_path / 'memory.db') as memory:
            pipeline = a_pipeline(memory, source=Standing(known_until_ns=START_NS + 2 * NS))
            feed(pipeline, cups(1, 3))
            pipeline.close()
            assert is_complete(memory)
        with open_memory(tmp_path / 'memory.db') as memory:
            pipeline = a_pipeline(memory)
            outcomes = feed(pipeline, cups(1, 3))
            assert (outcomes.count('repeated'), outcomes.count('pending')) == (11, 10)
            pipeline.close()
            assert is_complete(memory)


class TestClocksAndMaps:
    """A clock that jumps back, and a switch of maps."""

    def test_a_jump_finishes_what_it_can_and_drops_the_rest(self) -> None:
        robot = Standing(known_until_ns=START_NS + 2 * NS)
        with open_memory() as memory:
            pipeline = a_pipeline(memory, source=robot)
            feed(pipeline, cups(1, 3))
            pipeline.on_clock_jump()
            assert (the_input(pipeline).consumed, the_input(pipeline).lost) == (11, {'clock_jump': 10})
            assert feed(pipeline, cups(1, 2)) == ['repeated'] * 11

    def test_maps_do_not_meet(self) -> None:
        with open_memory() as memory:
            pipeline = a_pipeline(memory)
            feed(pipeline, cups(1, 3))
            pipeline.set_map('lab')
            feed(pipeline, cups(10, 12))
            pipeline.close()
            assert pipeline.status().landmarks == 1
            found = memory.query(MemoryQuery(labels=['cup'], any_map=True))
            assert sorted(hit.item.scope['map_id'] for hit in found) == ['hall', 'lab']
            pipeline.set_map('hall')
            feed(pipeline, cups(20, 22))
            pipeline.close()
            assert len(landmark_rows(memory)) == 2

    def test_no_map_is_a_map(self) -> None:
        with open_memory() as memory:
            pipeline = LandmarkPipeline(memory, Standing(), some_settings())
            feed(pipeline, cups(1, 3))
            pipeline.close()
            (hit,) = memory.query(MemoryQuery(labels=['cup']))
            assert not hit.item.scope
