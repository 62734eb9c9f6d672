"""Database files: creation, checks, migration, copy and swap."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from hylo_memory_ros.errors import (
    DamagedFileError,
    InvalidRequestError,
    NewerSchemaError,
    ReadOnlyError,
    StoreError,
)
from hylo_memory_ros.storage.engine.connection import log_of, looking
from hylo_memory_ros.storage.engine.database import store_error, translated
from hylo_memory_ros.storage.migrations import HEAD, create, current_revision, is_known, upgrade

APPLICATION_ID = 0x48594C4F
"""``HYLO`` in the header of every file of this package."""

_HEADER = b'SQLite format 3\0'


def url_of(path: Path) -> str:
    """Return the database URL of a file.

    Examples
    --------
    >>> url_of(Path('/var/lib/robot/memory.db'))
    'sqlite:////var/lib/robot/memory.db'
    """
    return sa.URL.create('sqlite', database=str(path.absolute())).render_as_string()


def path_of(url: str | None) -> Path | None:
    """Return the real path of the file that a database URL names; None: in memory.

    Links are followed once, here: lock, log, archive and skills stand beside the file itself, by whatever
    name it is opened.

    Raises
    ------
    StoreError
        For a URL of another kind.
    InvalidRequestError
        No file can have this name.

    Examples
    --------
    >>> path_of('sqlite:////var/lib/robot/memory.db'), path_of(None), path_of('sqlite://')
    (PosixPath('/var/lib/robot/memory.db'), None, None)
    """
    if url is None:
        return None
    try:
        parts = sa.make_url(url)
    except sa.exc.ArgumentError as exc:
        raise StoreError(f'database url {url!r} reads sqlite:////absolute/path.db or sqlite://') from exc
    if parts.get_backend_name() != 'sqlite':
        raise StoreError(f'database url {url!r}: {parts.get_backend_name()} is not supported, only sqlite is')
    if not parts.database or parts.database == ':memory:':
        return None
    path = file_named(parts.database, room='.restored.before-restore-' + 20 * '0')
    try:
        # Names beside the real file may be longer than those beside a link.
        return file_named(path.resolve(), room='.restored.before-restore-' + 20 * '0')
    except (OSError, RuntimeError) as exc:
        raise StoreError(f'database {path}: its links lead nowhere: {exc}', path=str(path)) from exc


def file_named(path: str | Path, room: str) -> Path:
    """Return a path that a file can have, also one beside it with `room` added to its name.

    Raises
    ------
    InvalidRequestError
        No file can have this name.
    """
    path = Path(path)
    try:
        path.with_name(path.name + room).lstat()
    except ValueError as exc:
        reason = str(exc)
    except OSError as exc:
        if exc.errno != errno.ENAMETOOLONG:
            return path
        reason = os.strerror(exc.errno)
    else:
        return path
    raise InvalidRequestError(f'path: {str(path)!r:.100} can be no file: {reason}', field='path')


def make_file(path: Path) -> None:
    """Make a new file beside its place, whole, and rename it there.

    Raises
    ------
    ReadOnlyError, StoreFullError
        The directory cannot be written, or the disk is full; nothing is left behind.
    """
    with made_whole(path) as unfinished:
        with translated(path), closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
            connection.execute(f'PRAGMA application_id = {APPLICATION_ID}')
            connection.execute('PRAGMA journal_mode = WAL')
        migrate(unfinished, path)


@contextmanager
def made_whole(path: Path) -> Iterator[Path]:
    """Give the name under which a file is to be made; a clean end syncs it and renames it to its place.

    Raises
    ------
    ReadOnlyError
        The directory cannot be written; nothing is left behind.
    """
    unfinished = unfinished_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_with_log(unfinished)
        yield unfinished
        sync(unfinished)
        unfinished.rename(path)
        sync(path.parent)
    except OSError as exc:
        raise ReadOnlyError(f'database {path}: cannot be made: {exc.strerror}', path=str(path)) from exc
    finally:
        _remove_with_log(unfinished)


def unfinished_of(path: Path) -> Path:
    """Return where a file is made before it is renamed to its place; a killed process may leave it there."""
    return path.with_name(f'.{path.name}.new')


def remove_unfinished_copies(copies: Iterable[str]) -> None:
    """Delete what copies left beside their places when they were killed."""
    for copy in copies:
        # It may lie on a disk that is not mounted, or not writable any more.
        with suppress(OSError):
            _remove_with_log(unfinished_of(Path(copy)))


def _remove_with_log(path: Path) -> None:
    for suffix in ('', '-wal', '-shm', '-journal'):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or what a directory lists, would survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def migrate(path: Path, named: Path | None = None) -> None:
    """Bring a file to the schema of this version; nothing happens when it has it already.

    Each step is one transaction: a step that was interrupted has not begun.

    Parameters
    ----------
    named : Path, optional
        What a refusal calls the file.
    """
    with translated(named or path), closing(sqlite3.connect(path, isolation_level=None)) as raw:
        revision = current_revision(raw)
        if revision == HEAD:
            return
        engine = sa.create_engine('sqlite://', creator=lambda: raw, poolclass=StaticPool)
        sa.event.listen(engine, 'begin', lambda connection: connection.exec_driver_sql('BEGIN IMMEDIATE'))
        with engine.connect() as connection:
            if revision is None:
                with connection.begin():
                    create(connection)
            else:
                upgrade(connection)


def check_file(path: Path, *, writable: bool = True, promised: int = 0) -> None:
    """Refuse a file that is no sound memory; it is only read.

    Parameters
    ----------
    path : Path
        The file.
    writable : bool
        Whether it is to be written.
    promised : int
        The last transaction that was acknowledged; 0: not known.

    Raises
    ------
    DamagedFileError
        A directory, 0 bytes, half a file, no SQLite file, no memory, damaged inside, or it
        ends before `promised`.
    NewerSchemaError
        Written by a newer version.
    ReadOnlyError
        It cannot be written, and `writable` asks for that.
    """
    check_outside(file_named(path, room='-journal'))
    if writable and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise ReadOnlyError(f'database {path}: the file or its directory cannot be written', path=str(path))
    with translated(path), closing(looking(path)) as connection:
        _check_inside(path, connection)
        if promised:
            (last,) = connection.execute('SELECT coalesce(max(sequence), 0) FROM txn').fetchone()
            if last < promised:
                raise DamagedFileError(
                    f'database {path} ends at transaction {last}, but {promised} was acknowledged: '
                    f'{log_of(path)} is gone, or a part of it; put it back, or delete {path}.lock to go '
                    'on without',
                    path=str(path),
                )


def check_outside(path: Path) -> None:
    """Refuse what is no SQLite file, or only the beginning of one, without opening it.

    Raises
    ------
    DamagedFileError, ReadOnlyError
        It is none, or cannot be read.
    """
    try:
        if path.is_dir():
            raise DamagedFileError(f'database {path} is a directory', path=str(path))
        if path.exists() and not path.is_file():
            raise DamagedFileError(f'database {path} is no file, but a pipe or a device', path=str(path))
        size = path.stat().st_size
        with path.open('rb') as file:
            header = file.read(100)
    except OSError as exc:
        raise ReadOnlyError(f'database {path} cannot be read: {exc.strerror}', path=str(path)) from exc
    if size == 0:
        raise DamagedFileError(f'database {path} has 0 bytes; a memory is never empty', path=str(path))
    if header[:16] != _HEADER:
        raise DamagedFileError(
            f'database {path} is no SQLite file: its header is overwritten', path=str(path)
        )
    page = int.from_bytes(header[16:18], 'big')
    expected = int.from_bytes(header[28:32], 'big') * (65536 if page == 1 else page)
    wal = log_of(path)
    # A file that was being checkpointed may be shorter than its header says; the log completes it.
    if size < expected and not (wal.exists() and wal.stat().st_size):
        raise DamagedFileError(
            f'database {path} has {size} of {expected} bytes: the rest is gone', path=str(path)
        )


def _check_inside(path: Path, connection: sqlite3.Connection) -> None:
    (application,) = connection.execute('PRAGMA application_id').fetchone()
    if application != APPLICATION_ID:
        raise DamagedFileError(
            f'database {path} is an SQLite file, but no memory of this package', path=str(path)
        )
    problems = [row[0] for row in connection.execute('PRAGMA quick_check(5)')]
    if problems != ['ok']:
        raise DamagedFileError(f'database {path} is damaged: {"; ".join(problems)}', path=str(path))
    revision = current_revision(connection)
    if revision is None:
        raise DamagedFileError(f'database {path} has no schema', path=str(path))
    if not is_known(revision):
        raise NewerSchemaError(f'database {path} has schema {revision!r} of a newer version', path=str(path))


def copy_database(
    source: sqlite3.Connection, target: Path, complete: Callable[[sqlite3.Connection], None] | None = None
) -> None:
    """Copy a live database to a new file, whole: written beside its place, synced and renamed.

    Parameters
    ----------
    complete : callable, optional
        Adds to the copy what the database has elsewhere.

    Raises
    ------
    StoreError
        `target` exists.
    ReadOnlyError, StoreFullError
        Its directory cannot be written, or the disk is full.
    """
    refuse_place(target)
    # Not as a relative name that begins with file:, which SQLite would take for a URI.
    target = target.absolute()
    unfinished = unfinished_of(target)
    try:
        _remove_with_log(unfinished)
        # SQLite follows a link that lies there, and writes over what it leads to.
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
        with translated(target), closing(sqlite3.connect(unfinished, isolation_level=None, uri=True)) as copy:
            source.backup(copy)
            if complete is not None:
                complete(copy)
            # A copy at rest needs no log beside it; it gets one when it is opened for writing.
            copy.execute('PRAGMA journal_mode = DELETE')
        sync(unfinished)
        unfinished.rename(target)
        sync(target.parent)
    except OSError as exc:
        raise store_error(exc, f'copy {target} cannot be made', target) from exc
    finally:
        _remove_with_log(unfinished)


def refuse_place(target: Path) -> None:
    """Refuse to copy where no copy can be made.

    Raises
    ------
    InvalidRequestError
        No file can have this name.
    StoreError
        `target` exists.
    """
    file_named(target, room='..new-journal')
    if os.path.lexists(target):
        raise StoreError(f'copy {target} exists; it is not overwritten', path=str(target))


def swap_file(path: Path, incoming: Path, keep: Path) -> None:
    """Put `incoming` in the place of `path`, and keep the file before as `keep`.

    The second name comes before the rename, so at every moment one of the two stands whole in
    the place: a file that is not there would be created again, and empty.
    """
    try:
        try:
            os.link(path, keep)
        except OSError:  # a file system without hard links
            path.rename(keep)
        incoming.rename(path)
        sync(path.parent)
    except OSError as exc:
        raise StoreError(f'restore into {path}: {exc.strerror}', path=str(path)) from exc
