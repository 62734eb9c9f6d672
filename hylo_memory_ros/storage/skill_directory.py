"""Directory of skill files: one canonical JSON file per version, with its digest in the name.

A file is written beside its place and synced before the commit of what it says, and renamed after it: what
the database knows and the directory lacks is written again when the memory is opened. What does not belong
is renamed aside, never deleted.

Threads: under the service's lock of writes; `problems` may run beside it.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from hylo_memory_ros.domain.identity import content_bytes
from hylo_memory_ros.domain.skills import problems_of_skill_item
from hylo_memory_ros.errors import (
    ConfigurationError,
    FileInUseError,
    ReadOnlyError,
    StoreError,
    StoreFullError,
)
from hylo_memory_ros.model import MemoryItem, MemoryKind, parse_object
from hylo_memory_ros.storage.engine.file_lock import FileLock
from hylo_memory_ros.storage.engine.files import sync

SKILL_FILE = re.compile(r'[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}-(?P<digest>[0-9a-f]{64})\.json')
"""What the name of one looks like."""


def file_name(key: str, digest: bytes) -> str:
    """Return the name of the file of a version.

    Examples
    --------
    >>> file_name('open door/2', bytes(32))[:20]
    'open_door_2-00000000'
    """
    slug = re.sub(r'[^A-Za-z0-9._-]+', '_', key)[:64]
    return f'{"_" + slug[1:] if slug.startswith(".") else slug}-{digest.hex()}.json'


def printable(name: str) -> str:
    """Return the name of a file, which may be any bytes, as a text that can be sent and shown."""
    return name.encode('utf-8', 'backslashreplace').decode('utf-8')


def item_of_file(name: str, data: bytes) -> MemoryItem:
    """Return the skill that a file holds.

    Raises
    ------
    ValueError
        With what is wrong with it.
    """
    match = SKILL_FILE.fullmatch(name)
    if match is None:
        raise ValueError('its name is not that of a skill file: key, 64 hex digits, .json')
    if (digest := sha256(data).hexdigest()) != match['digest']:
        raise ValueError(f'its SHA-256 is {digest[:12]}…, not the one in its name')
    try:
        fields = parse_object(data.decode('utf-8'), 'file')
    except UnicodeDecodeError as exc:
        raise ValueError(f'it is no UTF-8 at byte {exc.start}') from exc
    if fields.get('kind') != MemoryKind.SKILL.value:
        raise ValueError(f'$.kind: {fields.get("kind")!r:.50} is not {MemoryKind.SKILL.value!r}')
    try:
        item = MemoryItem(**fields)
    except (ValidationError, TypeError) as exc:
        raise ValueError(f'it is no item: {_told(exc)}') from exc
    if problems := problems_of_skill_item(item):
        raise ValueError('; '.join(problems))
    if content_bytes(item) != data:
        raise ValueError('it is not in canonical form, or says more than a skill does')
    if name != file_name(item.key or '', bytes.fromhex(digest)):
        raise ValueError(f'its name is not that of the key {item.key!r:.100}')
    return item


def _told(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return f'{".".join(map(str, first["loc"]))}: {first["msg"]}'


logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 16_777_216
"""A larger file is not read."""
SET_ASIDE = '.set-aside'

_NEW = '.new'
_LOCKED = '.skills'
_UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ENOENT)
_KINDS: Mapping[int, type[StoreError]] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), StoreFullError),
    **dict.fromkeys(_UNWRITABLE, ReadOnlyError),
}
# Of a name that is set aside, so that what is added fits too.
_KEPT_BYTES = 200


class SkillDirectory:
    """The files of one memory.

    Parameters
    ----------
    path : Path
        The directory.
    read_only : bool
        Look at it only.
    make : bool
        Make it at once where it is missing, and not only for the first file.

    Raises
    ------
    FileInUseError
        Another memory writes it; the message names its host and pid.
    ReadOnlyError
        It cannot be made, or is there and cannot be written.
    ConfigurationError
        It holds other things, and was never a directory of skills: nothing of it is touched.
    """

    def __init__(self, path: Path, *, read_only: bool, make: bool = False) -> None:
        self.path = path
        self._read_only = read_only
        self._lock: FileLock | None = None
        if not read_only and (make or path.exists()):
            self._hold()

    def _hold(self) -> None:
        """Make the directory, and the right to write it ours."""
        if self._lock is not None:
            return
        with _translated(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        if not os.access(self.path, os.W_OK | os.X_OK | os.R_OK):
            raise ReadOnlyError(f'skill_directory {self.path} cannot be written', path=str(self.path))
        self._refuse_foreign()
        try:
            self._lock = FileLock(self.path / _LOCKED)
        except FileInUseError as exc:
            host, pid = exc.details['host'], exc.details['pid']
            raise FileInUseError(
                f'skill_directory {self.path} is in use by pid {pid} on host {host}',
                path=str(self.path),
                host=host,
                pid=pid,
            ) from exc

    def _refuse_foreign(self) -> None:
        """Refuse a directory of something else: what is in it would be set aside."""
        if (self.path / f'{_LOCKED}.lock').exists():
            return
        strange = [entry.name for entry in self.path.iterdir() if not SKILL_FILE.fullmatch(entry.name)]
        if strange:
            raise ConfigurationError(
                f'skill_directory: {self.path} holds other things, such as {printable(min(strange))}; '
                'skills need a directory of their own',
                parameter='skill_directory',
            )

    def entries(self) -> list[str]:
        """Return the names of what is there, hidden names and what was set aside left out, sorted."""
        try:
            names = [entry.name for entry in self.path.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise ReadOnlyError(
                f'skill_directory {self.path} cannot be read: {exc.strerror}', path=str(self.path)
            ) from exc
        return sorted(name for name in names if not name.startswith('.') and SET_ASIDE not in name)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        Raises
        ------
        ValueError
            It is no plain file, cannot be read, or is too large.
        """
        try:
            # A link is not followed, and nobody waits for the other end of a pipe.
            handle = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as exc:
            if exc.errno == errno.ELOOP:
                raise ValueError('it is a symbolic link') from exc
            raise ValueError(f'it cannot be read: {exc.strerror}') from exc
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError('it is no plain file')
            if status.st_size > MAX_FILE_BYTES:
                raise ValueError(f'it has {status.st_size} bytes, at most {MAX_FILE_BYTES} are read')
            with os.fdopen(handle, 'rb', closefd=False) as file:
                return file.read(MAX_FILE_BYTES + 1)
        except OSError as exc:
            raise ValueError(f'it cannot be read: {exc.strerror}') from exc
        finally:
            os.close(handle)

    def is_sound(self, name: str) -> bool:
        """Return True if a file is there and its bytes are what its name says."""
        try:
            digest = sha256(self.read(name)).hexdigest()
        except ValueError:
            return False
        return name.endswith(f'-{digest}.json')

    @contextmanager
    def staged(self, files: Mapping[str, bytes]) -> Iterator[Callable[[], None]]:
        """Write files beside their places; the result puts them there, and what it does not is deleted.

        Raises
        ------
        StoreFullError, ReadOnlyError, FileInUseError
            Nothing is left behind.
        """
        missing = {name: data for name, data in files.items() if not self.is_sound(name)}
        made: list[str] = []
        try:
            for name, data in missing.items():
                self._write(name, data)
                made.append(name)
            yield lambda: self._publish(made)
        finally:
            for name in made:
                self._beside(name).unlink(missing_ok=True)

    def _beside(self, name: str) -> Path:
        return self.path / f'.{name}{_NEW}'

    def _write(self, name: str, data: bytes) -> None:
        self._hold()
        beside = self._beside(name)
        try:
            with _translated(beside), beside.open('wb') as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    def _publish(self, made: list[str]) -> None:
        try:
            for name in made:
                self._beside(name).rename(self.path / name)
            if made:
                sync(self.path)
        except OSError as exc:
            # What it says is committed; the next opening writes it again.
            logger.error(  # noqa: TRY400
                'skill_directory %s: %s is not there yet: %s', self.path, made[0], exc.strerror
            )

    def put(self, name: str, data: bytes) -> None:
        """Write one file.

        Raises
        ------
        StoreFullError, ReadOnlyError
            It cannot be written; what was there stays.
        """
        with self.staged({name: data}) as publish:
            publish()

    def move_aside(self, name: str, reason: str) -> None:
        """Rename what does not belong, and log why."""
        self._hold()
        kept = os.fsdecode(os.fsencode(name)[:_KEPT_BYTES])
        names = (f'{kept}{SET_ASIDE}{number or ""}' for number in range(1_000_000))
        aside = next(aside for aside in names if not os.path.lexists(self.path / aside))
        with _translated(self.path / name):
            (self.path / name).rename(self.path / aside)
            sync(self.path)
        told = printable(name), printable(aside), reason
        logger.warning('skill_directory %s: %s is set aside as %s: %s', self.path, *told)

    def sweep(self) -> None:
        """Delete what a killed process left half written."""
        for entry in self.path.iterdir() if self.path.exists() else ():
            if entry.name.startswith('.') and entry.name.endswith(f'.json{_NEW}'):
                entry.unlink(missing_ok=True)

    def remove(self, versions: Collection[tuple[str, bytes]]) -> list[str]:
        """Delete every file of versions for good, whatever stands before or behind the digest in its name.

        Parameters
        ----------
        versions : collection of (key, digest)

        Returns
        -------
        list of str
            What was set aside under one of the keys and is of no version that was known: its path.
        """
        if not versions or not self.path.exists():
            return []
        self._hold()
        gone = {digest.hex() for _, digest in versions}
        begins = tuple({file_name(key, b'').removesuffix('.json') for key, _ in versions})
        left = []
        with _translated(self.path):
            for entry in sorted(self.path.iterdir()):
                if not gone.isdisjoint(re.findall(r'[0-9a-f]{64}', entry.name)):
                    _delete(entry)
                elif SET_ASIDE in entry.name and entry.name.startswith(begins):
                    left.append(printable(str(entry)))
            sync(self.path)
        return left

    def problems(self, known: Iterable[str]) -> Iterator[str]:
        """Yield how the directory differs from the files that the database knows, each in one sentence."""
        left = set(self.entries())
        for name in known:
            if name not in left:
                yield f'skill directory {self.path}: {name} is missing'
            elif not self.is_sound(name):
                yield f'skill directory {self.path}: {name} does not hold what its name says'
            left.discard(name)
        for name in sorted(left):
            yield f'skill directory {self.path}: {printable(name)} is not known to the database'

    def close(self) -> None:
        """Give the right to write up; safe to repeat."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _delete(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        kind = _KINDS.get(exc.errno or 0, StoreError)
        raise kind(f'skill_directory: {path} cannot be written: {exc.strerror}', path=str(path)) from exc
