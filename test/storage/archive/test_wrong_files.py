"""Every way in which the archive file can be wrong, and a memory that goes on without it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from storage.archive.pieces import PAST, archive_all, archive_of, fill, opened, rows_in, said
from storage.sample import files_in

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import DamagedFileError, NewerSchemaError, StoreError
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService


def databases_in(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in files_in(folder).items() if not name.endswith(('-wal', '-shm'))}


def change_state(archive: Path, **values: Any) -> None:
    with closing(sqlite3.connect(archive)) as raw, raw:
        (state,) = raw.execute("SELECT value FROM file_state WHERE name = 'state'").fetchone()
        encoded = json.dumps({**json.loads(state), **values}).encode()
        raw.execute('UPDATE file_state SET value = ?', (encoded,))


def make_foreign(archive: Path) -> None:
    archive.unlink()
    with closing(sqlite3.connect(archive)) as raw, raw:
        raw.execute('CREATE TABLE t (x)')


def forget_state(archive: Path) -> None:
    with closing(sqlite3.connect(archive)) as raw, raw:
        raw.execute('DELETE FROM file_state')


def make_newer(archive: Path) -> None:
    with closing(sqlite3.connect(archive)) as raw:
        raw.execute('PRAGMA user_version = 7')


WRONG: dict[str, tuple[Callable[[Path], object], type[StoreError], str]] = {
    'missing': (Path.unlink, DamagedFileError, 'is missing'),
    'empty': (lambda file: file.write_bytes(b''), DamagedFileError, '0 bytes'),
    'half': (lambda file: file.write_bytes(file.read_bytes()[:8192]), DamagedFileError, 'the rest is gone'),
    'no SQLite': (lambda file: file.write_bytes(b'x' * 5000), DamagedFileError, 'header is overwritten'),
    'a directory': (lambda file: (file.unlink(), file.mkdir()), DamagedFileError, 'is a directory'),
    'another application': (make_foreign, DamagedFileError, 'no archive file of this package'),
    'without its state': (forget_state, DamagedFileError, 'has no readable state'),
    'of another memory': (
        lambda file: change_state(file, id='somebody'), DamagedFileError, 'belongs to another memory',
    ),
    'older': (lambda file: change_state(file, moves=0), DamagedFileError, 'is older than'),
    'newer': (lambda file: change_state(file, returns=5), DamagedFileError, 'is newer than'),
    'of a newer version': (make_newer, NewerSchemaError, 'schema 7'),
}  # fmt: skip


class TestWrongFiles:
    """Refused by name with the path; nothing is changed."""

    @pytest.mark.parametrize('read_only', [False, True])
    @pytest.mark.parametrize('name', WRONG)
    def test_it_is_refused_and_left_alone(self, path: Path, name: str, read_only: bool) -> None:
        spoil, kind, rule = WRONG[name]
        sound = archive_of(path).read_bytes()
        spoil(archive_of(path))
        before = databases_in(path.parent)
        with pytest.raises(kind, match=rule) as refused:
            opened(path, read_only=read_only)
        assert str(archive_of(path)) in str(refused.value)
        assert databases_in(path.parent) == before
        if archive_of(path).is_dir():
            archive_of(path).rmdir()
        archive_of(path).write_bytes(sound)
        with opened(path) as memory:
            assert memory.query(PAST)[0].item.content == 'colour 2'

    def test_damage_inside_is_told_by_verify(self, path: Path) -> None:
        data = bytearray(archive_of(path).read_bytes())
        at = data.index(b'colour 3')
        data[at : at + 8] = b'colour 9'
        archive_of(path).write_bytes(bytes(data))
        with opened(path) as memory:
            assert any('does not have the digest' in problem for problem in memory.verify().problems)

    def test_one_that_stands_where_the_first_is_to_be_made_is_left_alone(
        self, path: Path, tmp_path: Path
    ) -> None:
        other = tmp_path / 'other.db'
        shutil.copy(archive_of(path), archive_of(other))
        with opened(other) as memory:
            fill(memory)
            before = archive_of(other).read_bytes()
            with pytest.raises(DamagedFileError, match='move it away'):
                archive_all(memory)
            assert memory.query(PAST)[0].item.content == 'colour 2'
        assert archive_of(other).read_bytes() == before

    def test_one_that_is_moved_away_while_it_is_open_is_noticed(self, path: Path) -> None:
        with opened(path) as memory:
            memory.write([said(f'colour {number}', number) for number in range(9, 12)])
            archive_all(memory)
            memory.write([said(f'colour {number}', number) for number in range(12, 15)])
            aside = archive_of(path).rename(path.with_name('aside'))
            with pytest.raises(StoreError, match=str(archive_of(path))):
                archive_all(memory)
            aside.rename(archive_of(path))
            assert archive_all(memory).assertions == 3
            assert memory.verify().ok

    def test_a_database_that_was_put_back_as_it_was_is_finished(self, path: Path, tmp_path: Path) -> None:
        """Its backup is older than the archive file, and has everything that was moved since."""
        with opened(path) as memory:
            memory.write([said(f'colour {number}', number) for number in range(9, 12)])
            before = memory.manifest()
        backup = shutil.copy(path, tmp_path / 'backup')
        with opened(path) as memory:
            assert archive_all(memory).assertions == 3
        shutil.copy(backup, path)
        with opened(path) as memory:
            assert rows_in(archive_of(path)) == 11
            assert memory.manifest() == before
            assert memory.verify().ok

    @pytest.mark.parametrize('where', ['.', 'file/memory.archive'])
    def test_a_place_where_no_file_can_be_is_refused_at_once(self, tmp_path: Path, where: str) -> None:
        (tmp_path / 'file').touch()
        with pytest.raises(StoreError, match='there is a directory, or a parent is a file'):
            opened(tmp_path / 'memory.db', config=MemoryConfig(archive_path=str(tmp_path / where)))

    @pytest.mark.parametrize('archived_before', [True, False])
    def test_a_database_that_lacks_what_was_moved_is_refused(
        self, tmp_path: Path, archived_before: bool
    ) -> None:
        """An old copy of the database alone would take what was said since for leftovers."""
        path = tmp_path / 'memory.db'
        with opened(path) as memory:
            fill(memory)
            if archived_before:
                archive_all(memory)
        backup = shutil.copy(path, tmp_path / 'backup')
        with opened(path) as memory:
            memory.write([said(f'colour {number}', number) for number in range(9, 12)])
            archive_all(memory)
            before, past = memory.manifest(), memory.history(key='mug')
        newer = shutil.copy(path, tmp_path / 'newer')
        held = archive_of(path).read_bytes()
        shutil.copy(backup, path)
        with pytest.raises(DamagedFileError, match=r'is newer than its database: .* are in it alone'):
            opened(path)
        assert archive_of(path).read_bytes() == held
        shutil.copy(newer, path)
        with opened(path) as memory:
            assert memory.manifest() == before
            assert memory.history(key='mug') == past
            assert memory.verify().ok


class TestLostFile:
    """Opened without the archive file, because that was accepted."""

    @pytest.fixture
    def memory(self, path: Path) -> Iterator[MemoryService]:
        archive_of(path).unlink()
        with opened(path, config=MemoryConfig(accept_lost_archive=True)) as memory:
            yield memory

    def test_now_is_answered_and_the_past_is_refused(self, memory: MemoryService) -> None:
        assert memory.query(MemoryQuery(key='mug'))[0].item.content == 'colour 8'
        assert memory.query(MemoryQuery(text='colour', explain=True)).total == 1
        memory.write([said('colour 9', 900), said('new', 900, 'cup')])
        memory.forget(MemoryQuery(key='cup'))
        refused: tuple[Callable[[], object], ...] = (
            lambda: memory.query(PAST),
            lambda: memory.query(MemoryQuery(key='mug', include_invalidated=True)),
            lambda: memory.history(key='mug'),
            lambda: memory.write([said('late', 2.5)]),
            lambda: memory.purge(MemoryQuery(key='mug')),
            lambda: memory.snapshot(f'{memory.path}.copy'),
            lambda: archive_all(memory),
            lambda: memory._core.store.archive.restore([1]),
        )
        before = memory.manifest()
        for act in refused:
            with pytest.raises(DamagedFileError, match=r'memory\.db\.archive is missing'):
                act()
        assert memory.manifest() == before
        assert any('is missing' in problem for problem in memory.verify().problems)
