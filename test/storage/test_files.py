"""Files: refused by name when they are not sound, left as they are, used again when the cause is gone."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError
from storage.sample import ITEMS, fact, files_in, total, url

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import (
    DamagedFileError,
    InvalidRequestError,
    NewerSchemaError,
    StoreError,
)
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.unit_of_work import UnitOfWork


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_empty(path: Path) -> None:
    path.write_bytes(b'')


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_to_odd_bytes(path: Path) -> None:
    os.truncate(path, 50)


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open('r+b') as file:
        file.seek(at)
        file.write(data)


def overwrite_header(path: Path) -> None:
    overwrite(path, 0, b'\xff' * 100)


def overwrite_pages(path: Path) -> None:
    size = path.stat().st_size
    overwrite(path, size // 2, b'\xff' * (size // 4))


def as_text(path: Path) -> None:
    path.write_text('this is no database\n' * 500)


def as_foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute('CREATE TABLE orders (id INTEGER)')


def without_schema(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute('DROP TABLE alembic_version')


def without_revision(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute('DELETE FROM alembic_version')


def of_newer_schema(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


UNSOUND: dict[Callable[[Path], None], tuple[type[StoreError], str]] = {
    as_folder: (DamagedFileError, 'directory'),
    as_empty: (DamagedFileError, '0 bytes'),
    cut_in_half: (DamagedFileError, 'bytes'),
    cut_to_odd_bytes: (DamagedFileError, 'bytes'),
    overwrite_header: (DamagedFileError, 'header'),
    overwrite_pages: (DamagedFileError, 'damaged'),
    as_text: (DamagedFileError, 'SQLite'),
    as_foreign: (DamagedFileError, 'no memory'),
    without_schema: (DamagedFileError, 'schema'),
    without_revision: (DamagedFileError, 'schema'),
    of_newer_schema: (NewerSchemaError, '9999'),
    as_pipe: (DamagedFileError, 'no file'),
}


@pytest.mark.parametrize('read_only', [False, True], ids=['to write', 'to read'])
@pytest.mark.parametrize('damage', UNSOUND, ids=lambda damage: damage.__name__)
def test_an_unsound_file_is_refused_and_left_as_it_is(
    path: Path, filled: Path, damage: Callable[[Path], None], read_only: bool
) -> None:
    damage(path)
    before = files_in(path.parent)
    error, words = UNSOUND[damage]
    for _ in range(2):
        with pytest.raises(error, match=words) as refusal:
            MemoryService.open(url(path), read_only=read_only)
        assert str(path) in str(refusal.value)
        assert files_in(path.parent) == before
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()
    shutil.copy(filled, path)
    assert total(path) == ITEMS


def test_a_missing_file_is_not_made_for_a_reader(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=str(tmp_path)):
        MemoryService.open(url(tmp_path / 'memory.db'), read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_whose_log_alone_is_left_is_refused(path: Path) -> None:
    path.rename(path.with_name('memory.db-wal'))
    with pytest.raises(DamagedFileError, match='is gone'):
        MemoryService.open(url(path))
    assert not path.exists()


def test_a_new_file_is_made_whole(tmp_path: Path) -> None:
    path = tmp_path / 'deep' / 'er' / 'memory.db'
    MemoryService.open(url(path)).close()
    assert sorted(file.name for file in path.parent.iterdir()) == ['memory.db', 'memory.db.lock']
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute('PRAGMA journal_mode').fetchone() == ('wal',)
        assert connection.execute('PRAGMA application_id').fetchone() == (0x48594C4F,)


def test_remains_of_a_start_that_was_killed_do_not_matter(tmp_path: Path) -> None:
    for suffix in ('', '-wal', '-shm', '-journal'):
        (tmp_path / f'.memory.db.new{suffix}').write_bytes(b'half a file')
    MemoryService.open(url(tmp_path / 'memory.db')).close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ['memory.db', 'memory.db.lock']


@pytest.mark.parametrize('name', ['postgresql://host/db', 'nonsense', '/a/path.db', ''])
def test_an_unsound_url_is_refused(name: str) -> None:
    with pytest.raises(StoreError, match='sqlite'):
        MemoryService.open(name)


def test_closing_leaves_one_complete_file(path: Path) -> None:
    memory = MemoryService.open(url(path))
    memory.write([fact(ITEMS)])
    assert (path.parent / 'memory.db-wal').stat().st_size > 0
    memory.close()
    assert sorted(files_in(path.parent)) == ['memory.db']
    assert total(path) == ITEMS + 1


def test_the_log_is_cut_back(path: Path) -> None:
    with MemoryService.open(url(path), config=MemoryConfig(wal_limit_bytes=100_000)) as memory:
        for number in range(40):
            memory.write([fact(number, payload={'text': 'x' * 100_000})], durable=False)
        memory.write([fact(0)])
        assert (path.parent / 'memory.db-wal').stat().st_size < 8_000_000


def test_a_commit_is_as_durable_as_it_was_asked_to_be(path: Path) -> None:
    with MemoryService.open(url(path)) as memory:
        seen = []

        def look(uow: UnitOfWork) -> None:
            connection = uow.changeset.connection
            seen.append(connection.exec_driver_sql('PRAGMA synchronous').scalar())

        for durable in (True, False, True):
            memory.write([fact(0)], durable=durable, within=look)
        assert seen == [2, 1, 2]


@pytest.mark.parametrize('name', ['x' * 300, 'a\0b', '/'], ids=['too long', 'NUL', 'root'])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    with MemoryService.open() as memory:
        with pytest.raises(InvalidRequestError, match=r'path: .* can be no file'):
            MemoryService.open(f'sqlite:///{path}')
        with pytest.raises(InvalidRequestError, match=r'path: .* can be no file'):
            memory.snapshot(path)
        with pytest.raises(InvalidRequestError, match=r'path: .* can be no file'):
            memory.restore(path)
    assert files_in(tmp_path) == {}


@pytest.mark.parametrize('name', ['future_tolerance_s', 'max_clock_step_back_s', 'min_valid_stamp_s'])
def test_any_span_that_the_configuration_takes_works(tmp_path: Path, name: str) -> None:
    with MemoryService.open(url(tmp_path / 'm.db'), config=MemoryConfig(**{name: 4e9})) as memory:
        memory.query(MemoryQuery(key='mug'))
    with pytest.raises(ValidationError, match=name):
        MemoryConfig(**{name: 1e300})
