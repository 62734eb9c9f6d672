"""Counters of an input: what is lost is told in words, at once and again while it goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from perception.pieces import START_NS, a_message, a_pipeline, feed, open_memory
from perception.pipeline.pieces import CUP, the_input

from hylo_memory_ros.perception import status
from hylo_memory_ros.perception.status import InputCounts


@pytest.fixture
def after(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that sets the steady clock."""

    def set_clock(seconds: float) -> None:
        monkeypatch.setattr(status.time, 'monotonic', lambda: seconds)

    set_clock(0.0)
    return set_clock


def test_a_loss_is_told_again_while_it_goes_on(
    after: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    counts = InputCounts('depth')
    for second in range(70):
        after(second)
        counts.drop('frame_unknown', 2, f'no way at {second} s')
    assert caplog.messages == [
        f'input depth: {2 * second + 2} dropped so far (frame_unknown): no way at {second} s'
        for second in (0, 30, 60)
    ]
    assert counts.causes == {'frame_unknown': 'no way at 69 s'}


def test_another_reason_or_input_is_told_at_once(
    after: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    counts = InputCounts('depth')
    counts.drop('overload')
    counts.drop('map_switched')
    counts.count_late()
    InputCounts('front').drop('overload')
    after(1.0)
    counts.count_late()
    assert caplog.messages == [
        'input depth: 1 dropped so far (overload)',
        'input depth: 1 dropped so far (map_switched)',
        'input depth: 1 came behind the watermark so far, and were dropped',
        'input front: 1 dropped so far (overload)',
    ]


def test_the_counts_of_a_status_begin_with_the_pipeline() -> None:
    """What an earlier run lost is in the memory, whose snapshot stays incomplete, and not of this one."""
    with open_memory() as memory:
        pipeline = a_pipeline(memory)
        feed(pipeline, [a_message(5.0, [CUP]), a_message(1.0, [CUP])])
        pipeline.note_dropped('camera')
        pipeline.close()
        before = the_input(pipeline)
        again = a_pipeline(memory)
        after = the_input(again)
        feed(again, [a_message(1.1, [CUP])])

        assert (before.dropped, before.late) == (1, 1)
        assert (after.dropped, after.late) == (0, 0)
        assert (the_input(again).dropped, the_input(again).late) == (0, 1)
        assert after.watermark_ns > START_NS
        assert not memory.manifest()['complete']
