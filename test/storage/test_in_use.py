"""Who may open a file while, and after, somebody else has it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from storage.sample import FACTS, ITEMS, fact, files_in, total, url
from support.child import script

from hylo_memory_ros.errors import (
    DamagedFileError,
    FileInUseError,
    ReadOnlyError,
    StoreError,
)
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService


class TestInUse:
    """One writer for a file."""

    def test_the_second_is_told_who_holds_it(self, path: Path, holder: subprocess.Popen[str]) -> None:
        for _ in range(2):
            with pytest.raises(FileInUseError, match=str(path)) as refusal:
                MemoryService.open(url(path))
            assert f'pid {holder.pid}' in str(refusal.value)
            assert socket.gethostname() in str(refusal.value)
        holder.communicate(timeout=30)
        assert total(path) == ITEMS + 1

    def test_a_killed_holder_is_followed(self, path: Path, holder: subprocess.Popen[str]) -> None:
        holder.kill()
        holder.wait(30)
        assert (path.parent / 'memory.db-wal').exists()
        assert total(path) == ITEMS + 1

    def test_one_process_cannot_open_it_twice(self, path: Path) -> None:
        with (
            MemoryService.open(url(path)),
            pytest.raises(FileInUseError, match=f'pid {os.getpid()}'),
        ):
            MemoryService.open(url(path))
        assert total(path) == ITEMS

    @pytest.mark.parametrize('note', [b'', b'nonsense', b'[]', b'{"path": 1, "message": 2}', b'{"pid": []}'])
    def test_whatever_the_note_says(self, path: Path, note: bytes) -> None:
        lock = path.with_name('memory.db.lock')
        lock.write_bytes(note)
        with lock.open('r+b') as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(FileInUseError, match='in use'):
                MemoryService.open(url(path))
        assert total(path) == ITEMS

    def test_a_reader_sees_every_commit_of_a_live_file(self, path: Path) -> None:
        with MemoryService.open(url(path)) as writer:
            with MemoryService.open(url(path), read_only=True) as reader:
                assert reader.query(FACTS).total == ITEMS
                writer.write([fact(ITEMS)])
                assert reader.query(FACTS).total == ITEMS + 1
                with pytest.raises(ReadOnlyError, match=r'memory\.db'):
                    reader.write([fact(0)])
                with pytest.raises(ReadOnlyError, match=r'memory\.db'):
                    reader.retract(MemoryQuery(key='k0'))
            writer.write([fact(ITEMS + 1)])
        assert total(path) == ITEMS + 2

    def test_a_reader_does_not_need_the_writer(self, path: Path) -> None:
        before = path.read_bytes()
        readers = [MemoryService.open(url(path), read_only=True) for _ in range(2)]
        for reader in readers:
            assert reader.query(FACTS).total == ITEMS
            reader.close()
        assert path.read_bytes() == before
        assert not path.with_name('memory.db.lock').exists()

    def test_a_file_that_was_moved_away_is_not_written(self, path: Path) -> None:
        with MemoryService.open(url(path)) as memory:
            path.rename(path.with_name('elsewhere.db'))
            with pytest.raises(StoreError, match='moved or deleted'):
                memory.write([fact(ITEMS)])
            path.with_name('elsewhere.db').rename(path)
            memory.write([fact(ITEMS)])
        assert total(path) == ITEMS + 1


class TestLostLog:
    """A killed holder notes that commits may stand in the log; without it the file is incomplete."""

    @pytest.fixture
    def killed(self, path: Path, holder: subprocess.Popen[str]) -> Path:
        holder.kill()
        holder.wait(30)
        return path

    def test_the_file_is_refused_until_the_log_is_back(self, killed: Path, tmp_path: Path) -> None:
        wal = killed.with_name('memory.db-wal')
        wal.rename(tmp_path / 'saved')
        before = files_in(killed.parent)
        for _ in range(2):
            with pytest.raises(DamagedFileError, match=r'memory\.db-wal') as refusal:
                MemoryService.open(url(killed))
            assert str(killed) in str(refusal.value)
            assert files_in(killed.parent) == before
        (tmp_path / 'saved').rename(wal)
        assert total(killed) == ITEMS + 1

    def test_another_refusal_between_does_not_forget_it(self, killed: Path, tmp_path: Path) -> None:
        whole = killed.read_bytes()
        killed.write_bytes(b'\xff' * 100 + whole[100:])
        with pytest.raises(DamagedFileError, match='header'):
            MemoryService.open(url(killed))
        killed.write_bytes(whole)
        killed.with_name('memory.db-wal').rename(tmp_path / 'saved')
        with pytest.raises(DamagedFileError, match=r'memory\.db-wal'):
            MemoryService.open(url(killed))

    def test_after_an_orderly_end_the_log_is_not_missed(self, killed: Path) -> None:
        assert total(killed) == ITEMS + 1
        assert not killed.with_name('memory.db-wal').exists()
        assert total(killed) == ITEMS + 1


def test_two_writers_below_the_lock_never_fail(path: Path) -> None:
    code = """
    import time
    from hylo_memory_ros.storage import SqliteStore
    store = SqliteStore(url, MemoryConfig(busy_timeout_s=60), time.time_ns, exclusive=False)
    start = int(sys.stdin.readline())
    tell('ready')
    sys.stdin.readline()
    for number in range(start, start + 500):
        with store.begin('write', durable=False) as uow:
            uow.statements.write([fact(number)])
    store.close()
    tell('done')
    """
    command = [*script(code), str(path.parent)]
    writers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    try:
        for number, writer in enumerate(writers):
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdin.write(f'{1000 * (number + 1)}\n')
            writer.stdin.flush()
            assert json.loads(writer.stdout.readline()) == 'ready'
        outputs = [writer.communicate('go\n', timeout=90)[0] for writer in writers[:1]]
        outputs += [writer.communicate('go\n', timeout=90)[0] for writer in writers[1:]]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait(30)
    assert [json.loads(output) for output in outputs] == ['done', 'done']
    assert [writer.returncode for writer in writers] == [0, 0]
    assert total(path) == ITEMS + 1000


def test_an_interrupted_writer_ends_in_order(path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGINT)
    holder.wait(30)
    assert sorted(files_in(path.parent)) == ['memory.db']
    assert total(path) == ITEMS + 1
