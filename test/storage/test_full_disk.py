"""A full disk: nothing half-stored, and on with it when there is room again."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage.sample import FACTS, ITEMS, fact, files_in, total, url
from support.child import run_on_small_disk

from hylo_memory_ros.errors import (
    StoreFullError,
)
from hylo_memory_ros.service import MemoryService


class TestFullDisk:
    """Nothing half-stored, and on with it when there is room again."""

    def test_a_write_is_refused_whole(self, tmp_path: Path) -> None:
        told = run_on_small_disk(
            """
            refusals = []
            with MemoryService.open(url) as memory:
                memory.write([fact(0)])
                for number in range(1, 100):
                    before = memory.sequence, memory.snapshot(), memory.mirror_sequence
                    item = fact(number, payload={'text': 'x' * 200_000})
                    refusal = attempt(lambda: memory.write([item]) and None)
                    if refusal:
                        assert (memory.sequence, memory.snapshot(), memory.mirror_sequence) == before
                        refusals.append(refusal)
                        break
                stored = memory.query(MemoryQuery(kinds=['semantic'], k=0)).total
                assert stored == number
                memory.forget(MemoryQuery(key='k0'))
            tell({'stored': stored, 'refusals': refusals})
            """,
            tmp_path,
            kilobytes=3000,
        )
        (refusal,) = told['refusals']
        assert refusal['refused'] == 'StoreFullError'
        assert str(tmp_path / 'memory.db') in refusal['message']
        assert total(tmp_path / 'memory.db') == told['stored'] - 1
        with MemoryService.open(url(tmp_path / 'memory.db')) as memory:
            memory.write([fact(1000, payload={'text': 'x' * 200_000})])

    def test_a_first_start_leaves_nothing_behind(self, tmp_path: Path) -> None:
        told = run_on_small_disk('tell(attempt(lambda: MemoryService.open(url)))', tmp_path, kilobytes=60)
        assert told['refused'] == 'StoreFullError'
        assert str(tmp_path / 'memory.db') in told['message']
        assert [file.name for file in tmp_path.iterdir() if file.suffix != '.lock'] == []
        MemoryService.open(url(tmp_path / 'memory.db')).close()

    def test_a_copy_leaves_nothing_behind(self, path: Path) -> None:
        told = run_on_small_disk(
            """
            with MemoryService.open(None) as memory:
                memory.write([fact(0, payload={'text': 'x' * 250_000})])
                tell(attempt(lambda: memory.snapshot(str(folder / 'copy.db'))))
            """,
            path.parent,
            kilobytes=150,
        )
        assert told['refused'] == 'StoreFullError'
        assert 'copy.db' in told['message']
        assert sorted(files_in(path.parent)) == ['memory.db']

    def test_room_may_come_back_while_it_is_open(self, path: Path) -> None:
        with MemoryService.open(url(path)) as memory:
            before = memory.sequence, memory.snapshot()
            limit_pages(memory, 1)
            with pytest.raises(StoreFullError, match=r'memory\.db'):
                memory.write([fact(n, label='x' * 200) for n in range(1000, 1500)])
            assert (memory.sequence, memory.snapshot()) == before
            limit_pages(memory, 2**30)
            memory.write([fact(n, label='x' * 200) for n in range(1000, 1500)])
            assert memory.query(FACTS).total == ITEMS + 500
            assert memory.verify().ok


def limit_pages(memory: MemoryService, most: int) -> None:
    """Let the file grow to so many pages, or not beyond what it has."""
    with memory._core.store._transactions.database.exclusively() as raw:  # type: ignore[attr-defined]
        raw.execute(f'PRAGMA max_page_count = {most}')
