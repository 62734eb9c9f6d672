"""Archive where nothing can be written."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from storage.archive.pieces import archive_of
from storage.sample import url
from support.child import Unprivileged, run_on_small_disk

from hylo_memory_ros.service import MemoryService


class TestWithoutRoom:
    """A full disk and a folder that cannot be written."""

    @pytest.fixture
    def shared(self) -> Iterator[Path]:
        """Return a folder that everybody can reach."""
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)

    def test_a_full_disk_moves_nothing(self, tmp_path: Path) -> None:
        told = run_on_small_disk(
            """
            with MemoryService.open(url) as memory:
                for number in range(1, 12):
                    memory.write([MemoryItem(
                        kind='semantic', key='mug', content=str(number) * 100_000, valid_from=number
                    )])
                before = memory.manifest()
                refusal = attempt(lambda: memory._core.store.archive.move([1], limit=100) and None)
                assert memory.manifest() == before
                assert memory.query(MemoryQuery(key='mug', as_of=2))[0].item.content == '2' * 100_000
            tell(refusal)
            """,
            tmp_path,
            kilobytes=4500,
        )
        assert told['refused'] == 'StoreFullError'
        assert str(tmp_path / 'memory.db') in told['message'], told
        with MemoryService.open(url(tmp_path / 'memory.db')) as memory:
            assert memory._core.store.archive.move([1], limit=100).assertions == 9
            assert memory.verify().ok

    def test_a_folder_that_cannot_be_written_is_read(self, path: Path, shared: Path) -> None:
        nobody = Unprivileged()
        try:
            for file in (path, archive_of(path)):
                Path(shutil.copy(file, shared)).chmod(0o644)
            shared.chmod(0o555)
            told = nobody.run(
                """
                memory = MemoryService.open(url, read_only=True, clock=lambda: 0)
                tell([memory.query(MemoryQuery(key='mug', as_of=2))[0].item.content, memory.verify().ok])
                memory.close()
                """,
                shared,
            )
            assert told == ['colour 2', True]
        finally:
            nobody.close()
