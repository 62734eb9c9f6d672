"""What may go to the archive: nothing that holds or may be changed in the course of things."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from storage.archive.pieces import NOW_S, PAST, archive_all, fill, opened, said
from support.clock import ManualClock

from hylo_memory_ros.errors import InvalidRequestError, UnsupportedError
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.archive.mover import NEVER_NS


class TestWhatMayGo:
    """Nothing that holds or may be changed in the course of things."""

    @pytest.fixture
    def memory(self, tmp_path: Path) -> Iterator[MemoryService]:
        with opened(tmp_path / 'memory.db') as memory:
            yield memory
            assert memory.verify().ok

    def test_of_what_holds_the_newest_two_versions_stay(self, memory: MemoryService) -> None:
        fill(memory)
        mug = memory._core.store.archive.archivable(kinds=['semantic'])
        assert [(one.assertions, one.before_ns) for one in mug] == [(6, 7 * 10**9)]
        assert archive_all(memory).identity_ids == (1, 2, 3, 4, 5, 6)
        assert memory._core.store.archive.archivable() == []
        with closing(sqlite3.connect(str(memory.path))) as raw:
            (stayed,) = raw.execute('SELECT min(valid_from_ns) FROM assertion').fetchone()
        assert stayed == 7 * 10**9

    def test_what_ended_is_told_by_kind_scope_time_and_number(self, memory: MemoryService) -> None:
        fill(memory)
        store = memory._core.store
        assert [one.kind for one in store.archive.archivable(limit=3)] == ['semantic', 'episodic', 'episodic']
        assert len(store.archive.archivable(kinds=['episodic'])) == 5
        assert all(one.before_ns == NEVER_NS for one in store.archive.archivable(kinds=['episodic']))
        assert [one.identity_id for one in store.archive.archivable(after=4)] == [5, 6]
        assert [one.assertions for one in store.archive.archivable(ended_before_ns=4 * 10**9)] == [2]
        assert store.archive.archivable(ended_before_ns=10**9) == []
        assert store.archive.archivable(scope={'task_id': 't1'}) == []
        memory.write([said('old', 1, 'cup', scope={'task_id': 't1', 'map_id': 'hall'})])
        memory.forget(MemoryQuery(key='cup'))
        assert [one.identity_id for one in store.archive.archivable(scope={'task_id': 't1'})] == [7]
        assert store.archive.archivable(scope={'task_id': 't1', 'map_id': 'lab'}) == []

    def test_of_a_scope_is_only_what_is_of_no_other(self, tmp_path: Path) -> None:
        with opened(tmp_path / 'memory.db') as memory:
            for key, tasks in {'both': 'xyxy', 'alone': 'xxxx'}.items():
                memory.write(
                    [said(f'{number}', 100 + number, key, scope={'task_id': task})
                     for number, task in enumerate(tasks)]
                )  # fmt: skip
            found = memory._core.store.archive.archivable(scope={'task_id': 'x'})
            assert [one.assertions for one in found] == [2]
            assert memory._core.store.archive.archivable(scope={'task_id': 'y'}) == []

    def test_a_slice_takes_no_more_than_its_limit(self, memory: MemoryService) -> None:
        fill(memory)
        sizes = []
        while (moved := archive_all(memory, limit=2)).assertions:
            sizes.append(moved.assertions)
        assert sizes == [2, 2, 2, 2, 2, 1]
        assert memory.query(PAST)[0].item.content == 'colour 2'

    def test_what_is_scheduled_stays(self, memory: MemoryService) -> None:
        memory.write([said('now', 1), said('later', 2000.0)])
        assert memory._core.store.archive.archivable() == []
        assert memory._core.store.archive.move([1, 2, 99]).assertions == 0

    def test_a_slice_of_nothing_is_refused(self, memory: MemoryService) -> None:
        with pytest.raises(InvalidRequestError, match='limit: 0'):
            memory._core.store.archive.move([1], limit=0)

    def test_in_memory_there_is_none(self) -> None:
        with MemoryService.open(clock=ManualClock(NOW_S)) as memory:
            fill(memory)
            assert len(memory._core.store.archive.archivable()) == 6
            with pytest.raises(UnsupportedError, match='memory in memory'):
                archive_all(memory)
