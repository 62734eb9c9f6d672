"""From messages to items: what is refused, what waits, what is lost, and what an operator takes away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from landmarks.pieces import (
    NS,
    START_NS,
    Standing,
    a_message,
    a_pipeline,
    an_input,
    feed,
    is_complete,
    landmark_rows,
    landmarks_of,
    open_memory,
    recorded,
    some_settings,
)
from sqlalchemy import Connection

from hylo_memory_ros.errors import (
    DisconnectedFrameError,
    InvalidRequestError,
    StoreFullError,
    TransformTooOldError,
    UnknownFrameError,
)
from hylo_memory_ros.frames import Transform
from hylo_memory_ros.landmarks import InputStatus, LandmarkPipeline, Message
from hylo_memory_ros.model import MemoryItem, MemoryQuery, WriteResult
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.store.landmark import scrub, stats_for

CUP = (1.0, 2.0, 0.5)


def cups(first: float, last: float, step: float = 0.1, **fields: Any) -> list[Message]:
    """Return messages that see the cup, from one time to another."""
    count = round((last - first) / step) + 1
    return [a_message(first + step * index, [CUP], **fields) for index in range(count)]


def the_input(pipeline: LandmarkPipeline) -> InputStatus:
    (status,) = pipeline.status().inputs
    return status


def test_a_cup_becomes_one_item_with_statistics() -> None:
    with open_memory() as memory:
        pipeline = a_pipeline(memory)
        feed(pipeline, cups(1, 5), commit_every=10)
        pipeline.close()
        (hit,) = landmarks_of(memory)
        assert hit.item.pose is not None
        assert (hit.item.pose.position, hit.item.pose.frame_id, hit.item.label) == (CUP, 'map', 'cup')
        assert hit.item.valid_from_ns == START_NS + NS
        found: list[Any] = []
        memory.side_write(lambda connection: found.append(stats_for(connection, [('hall', hit.item.key)])))
        (stats,) = found[0].values()
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


class TestTakingAway:
    """Forget, retract, purge and restore reach the landmarks."""

    def run(
        self, take: Callable[[MemoryService], object], after: Sequence[Message], path: Path | None = None
    ) -> tuple[list[tuple[Any, ...]], list[MemoryItem]]:
        """See a cup, take it away at 100 s, see what follows."""
        now_ns = START_NS + 100 * NS
        with open_memory(path, clock=lambda: now_ns) as memory:
            pipeline = a_pipeline(memory)
            feed(pipeline, cups(1, 3))
            pipeline.close()
            assert take(memory) == 1
            if path is None:
                feed(pipeline, after)
                pipeline.close()
                return landmark_rows(memory), [hit.item for hit in landmarks_of(memory)]
        with open_memory(path, clock=lambda: now_ns) as memory:
            pipeline = a_pipeline(memory)
            feed(pipeline, after)
            pipeline.close()
            return landmark_rows(memory), [hit.item for hit in landmarks_of(memory)]

    @pytest.mark.parametrize('restart', [False, True])
    def test_old_evidence_does_not_undo_a_forget(self, restart: bool, tmp_path: Path) -> None:
        path = tmp_path / 'memory.db' if restart else None
        rows, items = self.run(lambda memory: memory.forget(MemoryQuery(labels=['cup'])), cups(50, 60), path)
        assert len(rows) == 1
        assert not items

    @pytest.mark.parametrize('restart', [False, True])
    def test_new_evidence_makes_a_new_landmark(self, restart: bool, tmp_path: Path) -> None:
        path = tmp_path / 'memory.db' if restart else None
        rows, items = self.run(lambda memory: memory.forget(MemoryQuery(labels=['cup'])), cups(98, 104), path)
        assert len(rows) == 2
        assert [item.valid_from_ns for item in items] == [START_NS + round(100.1 * NS)]

    def test_a_retracted_one_is_not_written_again_under_its_key(self) -> None:
        rows, items = self.run(lambda memory: memory.retract(MemoryQuery(labels=['cup'])), cups(50, 60))
        assert len(rows) == 1
        assert not items

    def test_a_purged_one_leaves_no_trace(self, tmp_path: Path) -> None:
        path = tmp_path / 'memory.db'
        with open_memory(path) as memory:
            pipeline = a_pipeline(memory)
            feed(pipeline, cups(1, 3))
            pipeline.close()
            ((_, _, key, *_),) = landmark_rows(memory)
            feed(pipeline, cups(3.1, 4))
            memory.purge(MemoryQuery(key=key))
            pipeline.close()
            # What was received before and processed after makes a landmark of its own.
            ((_, _, again, *_),) = landmark_rows(memory)
            assert again != key
            assert {record.landmark for record in recorded(memory)} == {None, again}

    def test_scrubbed_rows_do_not_come_back(self) -> None:
        """A purge that scrubs in its own transaction meets a pipeline that still holds the landmark."""
        with open_memory() as memory:
            pipeline = a_pipeline(memory)
            feed(pipeline, cups(1, 3))
            pipeline.close()
            ((_, _, key, *_),) = landmark_rows(memory)
            feed(pipeline, cups(3.1, 4))
            memory.side_write(lambda connection: scrub_one(connection, key))
            memory.purge(MemoryQuery(key=key))
            pipeline.close()
            assert key not in {row[2] for row in landmark_rows(memory)}

    def test_what_waits_to_be_written_does_not_bring_back_what_was_purged(self) -> None:
        with open_memory() as memory:
            pipeline = a_pipeline(memory, some_settings(an_input(gate_m=1.0)))
            feed(pipeline, [a_message(1 + step / 10, [(3.0, 3.0, 1.0)]) for step in range(30)])
            pipeline.commit()
            (hit,) = landmarks_of(memory)
            moving = [a_message(5 + step / 10, [(3.0 + 0.01 * step, 3.0, 1.0)]) for step in range(60)]
            feed(pipeline, moving)
            memory.purge(MemoryQuery(key=hit.item.key))
            pipeline.close()
            assert memory.history(key=hit.item.key).versions == ()
            assert hit.item.key not in {row[2] for row in landmark_rows(memory)}

    def test_something_else_forgotten_changes_nothing(self) -> None:
        with open_memory() as memory:
            pipeline = a_pipeline(memory)
            feed(pipeline, cups(1, 3))
            pipeline.close()
            memory.write([MemoryItem(kind='semantic', key='note', content='a cup')])
            memory.forget(MemoryQuery(key='note'))
            feed(pipeline, cups(4, 6))
            pipeline.close()
            ((number, _, _, _, _, count, *_),) = landmark_rows(memory)
            assert (number, count) == (1, 42)

    def test_a_restored_memory_is_gone_on_with(self, tmp_path: Path) -> None:
        with open_memory(tmp_path / 'memory.db') as memory:
            pipeline = a_pipeline(memory)
            feed(pipeline, cups(1, 3))
            pipeline.close()
            memory.snapshot(str(tmp_path / 'copy.db'))
            feed(pipeline, [a_message(4.0 + index / 10, [(7, 7, 1)]) for index in range(20)])
            pipeline.close()
            assert len(landmark_rows(memory)) == 2
            memory.restore(str(tmp_path / 'copy.db'))
            pipeline.commit()
            assert pipeline.status().landmarks == 1
            assert feed(pipeline, cups(1, 3)) == ['repeated'] * 21
            assert feed(pipeline, cups(3.1, 5)) == ['pending'] * 20
            pipeline.close()
            assert len(landmark_rows(memory)) == 1


def scrub_one(connection: Connection, key: str) -> None:
    assert scrub(connection, [('hall', key)]) == 1


class Refusing(MemoryService):
    """A memory whose disk is full now and then."""

    full = False

    def write(self, items: Sequence[MemoryItem], **options: Any) -> WriteResult:
        if self.full:
            raise StoreFullError('the disk is full')
        return super().write(items, **options)

    def side_write(self, within: Callable[[Connection], None], *, durable: bool = False) -> None:
        if self.full:
            raise StoreFullError('the disk is full')
        super().side_write(within, durable=durable)


class TestCommits:
    """What a commit stores, when it is due, and what happens when it fails."""

    def test_a_full_disk_loses_nothing(self) -> None:
        with Refusing.open(clock=lambda: 2_000 * NS) as memory, open_memory() as other:
            assert isinstance(memory, Refusing)
            pipeline, expected = a_pipeline(memory), a_pipeline(other)
            feed(pipeline, cups(1, 2), commit_every=5)
            memory.full = True
            for message in cups(2.1, 4):
                pipeline.offer(message)
                pipeline.poll()
                with pytest.raises(StoreFullError):
                    pipeline.commit(force=True)
            memory.full = False
            pipeline.close()
            feed(expected, cups(1, 4))
            expected.close()
            assert landmark_rows(memory) == landmark_rows(other)
            assert recorded(memory) == recorded(other)
            assert memory.snapshot() == other.snapshot()
            assert is_complete(memory)

    def test_it_is_bounded_while_nothing_can_be_stored(self) -> None:
        with open_memory() as memory:
            pipeline = a_pipeline(memory, some_settings(uncommitted_max=20))
            feed(pipeline, cups(1, 5))
            assert pipeline.status().uncommitted == 20
            assert the_input(pipeline).lost == {'not_committed': 21}
            pipeline.commit()
            assert not is_complete(memory)
            assert pipeline.offer(a_message(6.0, [CUP])) == 'pending'

    def test_statistics_wait_for_stamps_and_items_do_not(self) -> None:
        with open_memory() as memory:
            pipeline = a_pipeline(memory, some_settings(statistics_interval_s=5.0))
            feed(pipeline, cups(1, 2))
            assert pipeline.commit() == 1
            feed(pipeline, cups(2.1, 5.9))
            assert pipeline.commit() == 0
            assert pipeline.status().uncommitted > 0
            feed(pipeline, cups(6.0, 8.0))
            assert pipeline.commit() == 0
            assert pipeline.status().uncommitted == 0
            assert pipeline.commit(force=True) == 0
            before = memory.sequence
            pipeline.close()
            pipeline.close()
            assert memory.sequence == before

    def test_more_items_than_one_write_takes(self) -> None:
        with open_memory() as memory:
            pipeline = a_pipeline(memory, some_settings(confirm_n=1))
            far = [(2.0 * (index % 50), 2.0 * (index // 50), 1.0) for index in range(2500)]
            feed(pipeline, [a_message(1.0, far)])
            pipeline.flush()
            assert pipeline.commit() == 2500
            assert memory.counts()['spatial'] == 2500
            assert memory.verify().ok

    def test_an_item_that_the_memory_refuses_does_not_stop_the_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with open_memory() as memory:
            pipeline = a_pipeline(memory, some_settings(confirm_n=1))
            write = memory.write

            def picky(items: Sequence[MemoryItem], **options: Any) -> WriteResult:
                if any(item.label == 'mug' for item in items):
                    raise InvalidRequestError('label: mugs are not welcome')
                return write(items, **options)

            monkeypatch.setattr(memory, 'write', picky)
            feed(pipeline, [a_message(1.0, [(1, 0, 0), (5, 0, 0)], ['cup', 'mug'])])
            pipeline.close()
            assert [hit.item.label for hit in landmarks_of(memory)] == ['cup']
            assert the_input(pipeline).refused == {'item_refused': 1}

    def test_the_ledger_is_bounded_and_still_knows_repeats(self) -> None:
        with open_memory() as memory:
            settings = some_settings(ledger_max_bytes=2000, statistics_interval_s=1.0)
            pipeline = a_pipeline(memory, settings)
            feed(pipeline, cups(1, 200), commit_every=10)
            pipeline.close()
            kept = recorded(memory)
            assert 0 < len(kept) < 1991
            assert kept[-1].stamp_ns == START_NS + 200 * NS
            assert pipeline.offer(a_message(1.0, [CUP])) == 'repeated'

    def test_the_ledger_is_bounded_by_age(self) -> None:
        with open_memory() as memory:
            settings = some_settings(ledger_max_age_s=20.0, statistics_interval_s=1.0)
            pipeline = a_pipeline(memory, settings)
            feed(pipeline, cups(1, 100), commit_every=10)
            pipeline.close()
            first = recorded(memory)[0].stamp_ns
            assert START_NS + 75 * NS < first <= START_NS + 80 * NS


def test_threads_may_do_as_they_like(tmp_path: Path) -> None:
    """Messages, commits, questions, and an operator who forgets: all at once, nothing lost or stuck."""
    failures: list[BaseException] = []
    done = threading.Event()

    def forever(act: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                while not done.is_set():
                    act()
            except BaseException as exc:
                failures.append(exc)
                raise

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    with open_memory(tmp_path / 'memory.db', clock=lambda: START_NS) as memory:
        pipeline = a_pipeline(memory, some_settings(confirm_n=1, statistics_interval_s=0.0))
        threads = [
            forever(lambda: pipeline.commit(force=True)),
            forever(pipeline.status),
            forever(lambda: memory.forget(MemoryQuery(labels=['mug']))),
            forever(lambda: landmarks_of(memory)),
        ]
        for at in range(300):
            pipeline.offer(a_message(at / 10, [CUP, (at, 5, 0)], ['cup', 'mug']))
            pipeline.poll()
        done.set()
        for thread in threads:
            thread.join(30)
        assert not failures
        pipeline.close()
        assert the_input(pipeline).consumed == 300
        assert len(recorded(memory)) == 600
        assert memory.verify().ok
        (cup,) = landmarks_of(memory, labels=['cup'])
        rows = {row[2]: row for row in landmark_rows(memory)}
        assert rows[cup.item.key][5] == 300
