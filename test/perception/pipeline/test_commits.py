"""Commits: when they are due, on a full disk, and while threads do everything else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from perception.pieces import (
    NS,
    START_NS,
    a_message,
    a_pipeline,
    feed,
    is_complete,
    landmark_rows,
    landmarks_of,
    open_memory,
    recorded,
    some_settings,
)
from perception.pipeline.pieces import CUP, cups, the_input

from hylo_memory_ros.errors import InvalidRequestError, StoreFullError
from hylo_memory_ros.model import MemoryItem, MemoryQuery, WriteResult
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.unit_of_work import UnnumberedUnitOfWork


class Refusing(MemoryService):
    """A memory whose disk is full now and then."""

    full = False

    def write(self, items: Sequence[MemoryItem], **options: Any) -> WriteResult:
        if self.full:
            raise StoreFullError('the disk is full')
        return super().write(items, **options)

    @contextmanager
    def begin_unnumbered(self, *, durable: bool = False) -> Iterator[UnnumberedUnitOfWork]:
        if self.full:
            raise StoreFullError('the disk is full')
        with super().begin_unnumbered(durable=durable) as uow:
            yield uow


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

    @pytest.mark.long
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
            feed(pipeline, cups(1, 50), commit_every=10)
            pipeline.close()
            first = recorded(memory)[0].stamp_ns
            assert START_NS + 25 * NS < first <= START_NS + 30 * NS


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
