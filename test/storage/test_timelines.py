"""What a change loads of a timeline: what it can touch, however long the past is."""

from __future__ import annotations

import sqlalchemy as sa
from support.clock import ManualClock
from support.tables import read_tables, write_tables

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.schema import assertion
from hylo_memory_ros.storage.statements.timeline_repository import Timelines


def door(at: float, confidence: float = 1.0) -> MemoryItem:
    return MemoryItem(kind='semantic', key='door', content='open', valid_from=at, confidence=confidence)


def spans(memory: MemoryService) -> list[tuple[int, str]]:
    return [
        (version.valid_from_ns // 10**9, version.item.content)
        for version in memory.history(key='door').versions
        if version.to_seq is None
    ]


def counts(memory: MemoryService) -> list[tuple[int, int, int, int]]:
    """Return world time, count, last transaction and last time of each row, in seconds."""
    rows: list[tuple[int, int, int, int]] = []

    def read(connection: sa.Connection) -> None:
        statement = sa.select(
            assertion.c.valid_from_ns / 10**9, assertion.c.repeats, assertion.c.last_seq,
            assertion.c.last_ns / 10**9,
        )  # fmt: skip
        rows.extend(
            tuple(row)
            for row in connection.execute(
                statement.where(assertion.c.base_id.is_(None)).order_by(assertion.c.valid_from_ns)
            )
        )

    read_tables(memory, read)
    return rows


def test_a_fact_that_was_confirmed_often_is_loaded_by_its_first_word_and_what_comes_after() -> None:
    with MemoryService.open(clock=ManualClock(1000.0)) as memory:
        memory.write([door(1 + number, number % 2) for number in range(100)])
        loaded = []

        def load(connection: object) -> None:
            timelines = Timelines(
                Changeset(
                    connection, memory.config, 1, 'test', '', memory._core.store.archive.restorer(connection)
                )
            )  # type: ignore[arg-type]
            for at_s in (200, 90, 1):
                timelines.load({1: at_s * 10**9})
                loaded.append(len(timelines[1].points))

        read_tables(memory, load)
        assert loaded == [2, 13, 100]
        assert memory.write([door(50.5)]).events[0].event == 'SKIP_DUP'
        closed = memory.write([MemoryItem(kind='semantic', key='door', content='shut', valid_from=60.5)])
        assert closed.events[0].event == 'INVALIDATE'
        assert spans(memory) == [(1, 'open'), (60, 'shut'), (61, 'open')]
        assert memory.verify().ok


def test_plain_repetitions_are_counted_on_the_statement() -> None:
    with MemoryService.open(clock=ManualClock(1000.0)) as memory:
        first = memory.write([door(1 + number) for number in range(100)])
        assert {event.id for event in first.events} == {first.events[0].id}
        memory.write([door(200)])
        assert counts(memory) == [(1, 100, 2, 200)]
        assert memory.write([door(50)]).events[0].event == 'SKIP_DUP'
        assert counts(memory) == [(1, 100, 3, 50), (200, 0, None, None)]
        closed = memory.write([MemoryItem(kind='semantic', key='door', content='shut', valid_from=60.5)])
        assert closed.events[0].event == 'INVALIDATE'
        assert spans(memory) == [(1, 'open'), (60, 'shut'), (200, 'open')]
        assert memory.verify().ok


def test_the_last_repetition_resumes_behind_a_late_fact() -> None:
    with MemoryService.open(clock=ManualClock(1000.0)) as memory:
        memory.write([door(at) for at in (1, 3, 5)])
        memory.write([MemoryItem(kind='semantic', key='door', content='shut', valid_from=2)])
        assert spans(memory) == [(1, 'open'), (2, 'shut'), (5, 'open')]
        now, before = (memory.query(MemoryQuery(key='door', known_seq=seq, as_of=6)) for seq in (2, 1))
        assert [hit.item.valid_from_ns for hit in (*now, *before)] == [5 * 10**9, 10**9]
        memory.retract(MemoryQuery(key='door', as_of=2))
        assert spans(memory) == [(1, 'open')]
        assert memory.retract(MemoryQuery(key='door')) == 1
        assert spans(memory) == []
        assert memory.verify().ok


def test_what_a_repetition_adds_has_a_row() -> None:
    with MemoryService.open(clock=ManualClock(1000.0)) as memory:
        memory.write([door(1)])
        for number, (event, fields) in enumerate(
            (
                ('MERGE', {'confidence': 0.5}), ('MERGE', {'source': 'camera'}),
                ('MERGE', {'evidence': ('photo',)}), ('SKIP_DUP', {'id': 'door/1'}),
                ('MERGE', {'provenance': {'by': 'ann'}}), ('MERGE', {'embeddings': {'clip@1': (1.0, 0.0)}}),
                ('SKIP_DUP', {'event_time': {'start': 1.0}}),
            )
        ):  # fmt: skip
            item = door(2 + number, 0.5).model_dump(exclude_unset=True) | fields
            assert memory.write([MemoryItem(**item)]).events[0].event == event, fields
        assert len(counts(memory)) == 8
        memory.begin_episode('run')
        for at in (20, 21):
            memory.write([door(at)])
        memory.end_episode('run', 'success')
        assert [row[:2] for row in counts(memory)][8:9] == [(20, 1)]
        assert memory.query(MemoryQuery(key='door', episode='run')).total == 1
        assert memory.verify().ok


def test_what_was_merged_is_verified_against_the_evidence() -> None:
    with MemoryService.open(clock=ManualClock(1000.0)) as memory:
        memory.write([door(1)])
        memory.write([MemoryItem(**door(2, 0.5).model_dump(exclude_unset=True), evidence=('photo',))])
        assert memory.verify().ok
        for change in ('detail = \'{"evidence":["other"]}\'', 'detail = NULL', 'confidence = 0.7'):
            write_tables(
                memory,
                lambda connection, change=change: connection.exec_driver_sql(
                    f'UPDATE assertion SET {change} WHERE valid_from_ns = {2 * 10**9}'
                ),
            )
            problems = memory.verify().problems
            assert any(one.endswith('does not show what was merged into it') for one in problems)
