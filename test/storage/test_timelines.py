"""What a change loads of a timeline: what it can touch, however long the past is."""

from __future__ import annotations

from support.clock import ManualClock

from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.statements.timeline_repository import Timelines


def door(at: float) -> MemoryItem:
    return MemoryItem(kind='semantic', key='door', content='open', valid_from=at)


def test_a_fact_that_was_confirmed_often_is_loaded_by_its_first_word_and_what_comes_after() -> None:
    with MemoryService.open(clock=ManualClock(1000.0)) as memory:
        memory.write([door(1 + number) for number in range(100)])
        loaded = []

        def load(connection: object) -> None:
            timelines = Timelines(
                Changeset(connection, 1, 'test', '', memory._core.store._cold.returning(connection))
            )  # type: ignore[arg-type]
            for at_s in (200, 90, 1):
                timelines.load({1: at_s * 10**9})
                loaded.append(len(timelines[1].points))

        memory.side_read(load)
        assert loaded == [1, 12, 100]
        assert memory.write([door(50.5)]).events[0].event == 'SKIP_DUP'
        closed = memory.write([MemoryItem(kind='semantic', key='door', content='shut', valid_from=60.5)])
        assert closed.events[0].event == 'INVALIDATE'
        spans = [
            (version.valid_from_ns // 10**9, version.item.content)
            for version in memory.history(key='door').versions
        ]
        assert spans[-3:] == [(1, 'open'), (60, 'shut'), (61, 'open')]
        assert memory.verify().ok
