"""A restore keeps the file before, and leaves it where it is when it fails."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from storage.sample import ITEMS, fact, total, url
from support.clock import ManualClock
from support.effort import scaled

from hylo_memory_ros.errors import EpochChangedError, StoreError
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService


def test_a_second_restore_at_the_same_time_keeps_both_files(path: Path, tmp_path: Path) -> None:
    with MemoryService.open(url(path), clock=ManualClock(2e9)) as memory:
        memory.snapshot(str(tmp_path / 'copy.db'))
        for number in range(2):
            memory.write([fact(1000 + number)])
            memory.restore(str(tmp_path / 'copy.db'))
        kept = sorted(path.parent.glob('memory.db.before-restore-*'))
        assert len(kept) == 2
    for number, file in enumerate(kept):
        with MemoryService.open(url(file), read_only=True) as before:
            assert before.query(MemoryQuery(key=f'k{1000 + number}')).total == 1


def test_a_restore_that_fails_leaves_the_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MemoryService.open(url(path)) as memory:
        memory.snapshot(str(tmp_path / 'copy.db'))
        memory.write([fact(ITEMS)])
        before, rename = memory.snapshot(), Path.rename

        def refuse(self: Path, target: Path) -> Path:
            if Path(target) == path:
                raise OSError(5, 'Input/output error')
            return rename(self, target)

        monkeypatch.setattr(Path, 'rename', refuse)
        with pytest.raises(StoreError, match='Input/output error'):
            memory.restore(str(tmp_path / 'copy.db'))
        monkeypatch.undo()
        assert memory.snapshot() == before
        memory.write([fact(ITEMS + 1)])
        assert memory.verify().ok
    assert total(path) == ITEMS + 2


def test_whoever_reads_meanwhile_reads_the_one_or_the_other(path: Path, tmp_path: Path) -> None:
    """And nobody stays with the file before: what is written afterwards is found by everybody."""
    copy, ended = str(tmp_path / 'copy.db'), threading.Event()
    problems: list[BaseException] = []

    questions = [MemoryQuery(key='k1'), MemoryQuery(key='k1', as_of=1), MemoryQuery(text='fact')]

    def ask(memory: MemoryService) -> None:
        try:
            while not ended.is_set():
                with suppress(EpochChangedError):
                    memory.history(kind='semantic', key='k1')
                    for query in questions:
                        memory.query(query)
        except BaseException as exc:  # noqa: BLE001 - whatever it is, it is told below
            problems.append(exc)

    with MemoryService.open(url(path), clock=ManualClock(2e9)) as memory, ThreadPoolExecutor(4) as pool:
        memory.forget(MemoryQuery(key='k2'))
        store = memory._core.store
        store.archive.move([one.identity_id for one in store.archive.archivable()])
        memory.snapshot(copy)
        for _ in range(4):
            pool.submit(ask, memory)
        try:
            for number in range(scaled(9)):
                memory.restore(copy)
                memory.write([fact(2000 + number)])
                with ThreadPoolExecutor(8) as others:
                    asked = [MemoryQuery(key=f'k{2000 + number}')] * 40
                    assert [answer.total for answer in others.map(memory.query, asked)] == [1] * 40
                store.archive.move([one.identity_id for one in store.archive.archivable()])
        finally:
            ended.set()
        pool.shutdown()
        assert problems == []
        assert memory.verify().ok
