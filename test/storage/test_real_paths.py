"""Links, locks and copies: one file is one memory by whatever name, and nothing else is written."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from storage.sample import fact, total, url

from hylo_memory_ros.errors import FileInUseError, StoreError, StoreFullError
from hylo_memory_ros.service import MemoryService

KILLED = """
import os, sys
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.service import MemoryService
memory = MemoryService.open('sqlite:///' + sys.argv[1])
memory.write([MemoryItem(kind='semantic', key='mug', content='red')])
os._exit(0)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The database on a data partition."""
    (tmp_path / 'data').mkdir()
    return tmp_path / 'data' / 'real.db'


@pytest.fixture
def link(tmp_path: Path, data: Path) -> Path:
    """The name that the robot knows it by."""
    link = tmp_path / 'memory.db'
    link.symlink_to(data)
    return link


class TestLinks:
    def test_everything_stands_beside_the_file_itself(self, link: Path, data: Path) -> None:
        with MemoryService.open(url(link)) as memory:
            memory.write([fact(0)])
            assert memory.path == data
        assert sorted(path.name for path in link.parent.iterdir()) == ['data', 'memory.db']
        assert link.is_symlink()

    @pytest.mark.parametrize('directory', [False, True])
    def test_two_names_are_one_lock(self, link: Path, data: Path, directory: bool) -> None:
        if directory:
            link.unlink()
            link = link.with_name('linked')
            link.symlink_to(data.parent)
            link = link / data.name
        with MemoryService.open(url(data)), pytest.raises(FileInUseError, match=f'pid {os.getpid()}'):
            MemoryService.open(url(link))

    def test_what_was_killed_is_opened_again(self, link: Path, data: Path) -> None:
        for name in (link, data, link):
            subprocess.run([sys.executable, '-c', KILLED, str(name)], check=True)
        with MemoryService.open(url(data)) as memory:
            assert memory.verify().ok
            assert memory.sequence == 3

    def test_a_restore_keeps_the_link(self, link: Path, data: Path, tmp_path: Path) -> None:
        copy = tmp_path / 'copy.db'
        with MemoryService.open(url(link)) as memory:
            memory.write([fact(0)])
            memory.snapshot(str(copy))
            memory.write([fact(1)])
            memory.restore(str(copy))
        assert link.is_symlink()
        assert total(data) == 1

    def test_links_in_a_circle_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / 'a.db').symlink_to(tmp_path / 'b.db')
        (tmp_path / 'b.db').symlink_to(tmp_path / 'a.db')
        with pytest.raises(StoreError, match=r'a\.db'):
            MemoryService.open(url(tmp_path / 'a.db'))


class TestLock:
    @pytest.mark.parametrize('call', ['pwrite', 'fsync'])
    def test_a_full_disk_leaves_nothing_held(self, data: Path, call: str) -> None:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with (
            mock.patch(f'hylo_memory_ros.storage.engine.file_lock.os.{call}', side_effect=full),
            pytest.raises(StoreFullError, match='lock'),
        ):
            MemoryService.open(url(data))
        MemoryService.open(url(data)).close()

    @pytest.mark.parametrize('replaced', [False, True])
    def test_a_lock_that_is_gone_is_noticed_at_the_next_write(self, data: Path, replaced: bool) -> None:
        lock = data.with_name(data.name + '.lock')
        with MemoryService.open(url(data)) as memory:
            memory.write([fact(0)])
            lock.unlink()
            if replaced:
                MemoryService.open(url(data)).close()
            with pytest.raises(FileInUseError, match='deleted or replaced'):
                memory.write([fact(1)])
            assert memory.sequence == 1
        with MemoryService.open(url(data)) as memory:
            memory.write([fact(2)])
            assert memory.sequence == 2


class TestCopies:
    @pytest.mark.parametrize('suffix', ['', '-journal', '-wal'])
    def test_no_link_is_followed(self, data: Path, tmp_path: Path, suffix: str) -> None:
        victim = tmp_path / 'victim'
        victim.write_text('mine')
        (tmp_path / f'.copy.db.new{suffix}').symlink_to(victim)
        with MemoryService.open(url(data)) as memory:
            memory.write([fact(0)])
            memory.snapshot(str(tmp_path / 'copy.db'))
        assert victim.read_text() == 'mine'
        assert total(tmp_path / 'copy.db') == 1

    def test_a_link_in_the_place_itself_is_not_overwritten(self, data: Path, tmp_path: Path) -> None:
        (tmp_path / 'copy.db').symlink_to(tmp_path / 'nowhere')
        with MemoryService.open(url(data)) as memory, pytest.raises(StoreError, match='exists'):
            memory.snapshot(str(tmp_path / 'copy.db'))
        assert (tmp_path / 'copy.db').is_symlink()

    def test_a_name_like_a_uri_is_a_name(
        self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / 'file:').mkdir()
        with MemoryService.open(url(data)) as memory:
            memory.write([fact(0)])
            memory.snapshot('file:/copy.db?mode=memory')
        assert [path.name for path in (tmp_path / 'file:').iterdir()] == ['copy.db?mode=memory']

    @pytest.mark.parametrize('content', [b'', b'half a copy'])
    def test_what_a_killed_copy_left_is_removed(self, data: Path, tmp_path: Path, content: bytes) -> None:
        copies = [tmp_path / 'one.db', tmp_path / 'two.db']
        with MemoryService.open(url(data)) as memory:
            memory.write([fact(0)])
            for copy in copies:
                memory.snapshot(str(copy))
        left = [tmp_path / f'.{copy.name}.new{suffix}' for copy in copies for suffix in ('', '-journal')]
        for path in left:
            path.write_bytes(content)
        copies[0].unlink()
        with MemoryService.open(url(data)) as memory:
            assert not any(path.exists() for path in left)
            memory.snapshot(str(copies[0]))
        assert total(copies[0]) == 1
