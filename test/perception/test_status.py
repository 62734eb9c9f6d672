"""Counters of an input: what is lost is told in words, at once and again while it goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from perception.pieces import NS, START_NS, a_message, a_pipeline, feed, open_memory
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
    counts.count_late(9 * NS, 10 * NS)
    InputCounts('front').drop('overload')
    after(1.0)
    counts.count_late(9 * NS, 10 * NS)
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


def test_a_run_that_begins_far_behind_the_memory_is_named_as_long_as_it_goes_on(
    after: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    """A simulator that was restarted beside the same file: in the log and in the status of every run."""
    with open_memory() as memory:
        first = a_pipeline(memory)
        feed(first, [a_message(second, [CUP]) for second in range(900, 905)])
        first.close()
        for _ in range(3):
            caplog.clear()
            again = a_pipeline(memory)
            assert feed(again, [a_message(second, [CUP]) for second in range(5)]) == ['late'] * 5
            told = the_input(again).older_run
            assert told.startswith(
                'its messages are of 1004.000 s, 900 s behind what this memory has consumed'
            )
            assert 'give a new database_path' in told
            (warning,) = caplog.messages
            assert 'its messages are of 1000.000 s, 904 s behind' in warning
            again.commit(force=True)
        # A straggler is no older run, and a run that goes on is none any more.
        assert feed(again, [a_message(903.5, [CUP])]) == ['late']
        assert the_input(again).older_run == ''
        feed(again, [a_message(1.0, [CUP])])
        assert the_input(again).older_run
        assert feed(again, [a_message(906.0, [CUP])]) == ['pending']
        assert the_input(again).older_run == ''
