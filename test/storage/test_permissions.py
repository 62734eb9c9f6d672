"""Files and folders that a process may not write, or not even read."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from storage.sample import ITEMS, files_in
from support.child import Unprivileged

OPEN = 'tell(attempt(lambda: MemoryService.open(url).close()))'


@pytest.fixture(scope='module')
def nobody() -> Iterator[Unprivileged]:
    process = Unprivileged()
    yield process
    process.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that everybody can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


class TestWithoutPrivileges:
    """A process that may not write somewhere."""

    @pytest.fixture
    def path(self, filled: Path, open_folder: Path) -> Path:
        path = Path(shutil.copy(filled, open_folder / 'memory.db'))
        path.chmod(0o666)
        return path

    def test_a_folder_that_cannot_be_written_is_refused(self, nobody: Unprivileged, path: Path) -> None:
        before = files_in(path.parent)
        path.parent.chmod(0o555)
        told = nobody.run(OPEN, path.parent)
        assert (told['refused'], str(path) in told['message']) == ('ReadOnlyError', True)
        assert files_in(path.parent) == before
        path.parent.chmod(0o777)
        assert nobody.run(OPEN, path.parent) is None

    def test_nothing_is_made_in_it(self, nobody: Unprivileged, open_folder: Path) -> None:
        open_folder.chmod(0o555)
        told = nobody.run(OPEN, open_folder)
        assert (told['refused'], str(open_folder) in told['message']) == ('ReadOnlyError', True)
        assert list(open_folder.iterdir()) == []
        open_folder.chmod(0o777)
        assert nobody.run(OPEN, open_folder) is None

    def test_a_file_that_cannot_be_written_is_refused(self, nobody: Unprivileged, path: Path) -> None:
        before = files_in(path.parent)
        path.chmod(0o444)
        told = nobody.run(OPEN, path.parent)
        assert (told['refused'], str(path) in told['message']) == ('ReadOnlyError', True)
        assert files_in(path.parent) == before
        path.chmod(0o666)
        assert nobody.run(OPEN, path.parent) is None

    def test_a_file_that_cannot_be_read_is_refused(self, nobody: Unprivileged, path: Path) -> None:
        path.chmod(0o000)
        told = nobody.run(OPEN, path.parent)
        assert (told['refused'], str(path) in told['message']) == ('ReadOnlyError', True)

    def test_a_folder_that_cannot_be_made_is_refused(self, nobody: Unprivileged, open_folder: Path) -> None:
        open_folder.chmod(0o555)
        code = "tell(attempt(lambda: MemoryService.open(f'sqlite:///{folder}/deep/memory.db')))"
        told = nobody.run(code, open_folder)
        assert 'refused' in told
        assert 'deep' in told['message']

    def test_a_reader_needs_no_permission_to_write(self, nobody: Unprivileged, path: Path) -> None:
        before = files_in(path.parent)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        told = nobody.run(
            """
            with MemoryService.open(url, read_only=True) as memory:
                total = memory.query(MemoryQuery(kinds=['semantic'], k=0)).total
                refused = [attempt(act) for act in (
                    lambda: memory.write([fact(0)]), lambda: memory.forget(MemoryQuery(key='k0')),
                    lambda: memory.purge(MemoryQuery(key='k0')), lambda: memory.set_map('hall'),
                )]
                refused = [one['refused'] for one in refused]
                tell({'total': total, 'ok': memory.verify().ok, 'refused': refused})
            """,
            path.parent,
        )
        assert told == {'total': ITEMS, 'ok': True, 'refused': ['ReadOnlyError'] * 4}
        assert files_in(path.parent) == before
