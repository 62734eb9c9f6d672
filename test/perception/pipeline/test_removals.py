"""What an operator takes away does not come back from old evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from perception.pieces import (
    NS,
    START_NS,
    a_message,
    a_pipeline,
    an_input,
    feed,
    landmark_rows,
    landmarks_of,
    open_memory,
    recorded,
    some_settings,
)
from perception.pipeline.pieces import cups
from sqlalchemy import Connection
from support.tables import write_tables

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.perception import Message
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.schema import erase_landmarks


def scrub_one(connection: Connection, key: str) -> None:
    assert erase_landmarks(connection, [('hall', key)]) == 1


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
            write_tables(memory, lambda connection: scrub_one(connection, key))
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
