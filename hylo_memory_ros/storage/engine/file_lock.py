"""Lock that admits one writer per file, with its holder and the last promised transaction.

The note in the lock file outlives a killed holder. While commits may stand only in the
write-ahead log it says so, and up to which transaction they were promised to be kept; a log
that was taken away, or a file that ends before that, has lost acknowledged writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path
from typing import Any

from hylo_memory_ros.errors import DamagedFileError, FileInUseError
from hylo_memory_ros.storage.engine.connection import index_of, log_of
from hylo_memory_ros.storage.engine.database import store_error


class FileLock:
    """The right to write one file, held until `release` or the end of the process.

    Parameters
    ----------
    path : Path
        The file to be written; the lock stands beside it, with ``.lock`` added to its name.

    Raises
    ------
    FileInUseError
        Another holder lives; the message names its host and pid.
    DamagedFileError
        The last holder was killed with commits in a write-ahead log that was taken away.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(path.name + '.lock')
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as exc:
            raise store_error(exc, f'database {path}: cannot make the lock {self.path}', path) from exc
        try:
            self._take(path)
            # What a killed holder left in the log stays noted until a checkpoint has moved it.
            note = self._read()
            self._noted = bool(note.get('wal'))
            promised = note.get('promised')
            self.promised = promised if self._noted and isinstance(promised, int) else 0
            self._write(wal=self._noted)
            os.fsync(self._file)
        except OSError as exc:
            self.release()
            raise store_error(exc, f'database {path}: cannot write the lock {self.path}', path) from exc
        except BaseException:
            self.release()
            raise

    def _take(self, path: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            note = self._read()
            host, pid = note.get('host', '?'), note.get('pid', '?')
            raise FileInUseError(
                f'database {path} is in use by pid {pid} on host {host}', path=str(path), host=host, pid=pid
            ) from exc
        wal = log_of(path)
        # Whoever closes a file in order, also in place of a killed holder, takes log and index away.
        taken_away = index_of(path).exists() and not wal.exists()
        if path.exists() and self._read().get('wal') and taken_away:
            raise DamagedFileError(
                f'database {path}: its last holder was killed with commits in {wal}, which is gone; '
                f'put it back, or delete {self.path} to go on without them',
                path=str(path),
            )

    def check_held(self) -> None:
        """Refuse to write when the lock file was deleted or replaced: another may hold the new one.

        Raises
        ------
        FileInUseError
            It was; what others have written since is not known to this holder.
        """
        try:
            if os.path.samestat(self.path.stat(), os.fstat(self._file)):
                return
        except FileNotFoundError:
            pass
        raise FileInUseError(
            f'lock {self.path} was deleted or replaced while it was held, and another may write the '
            'database: nothing is written any more; close it and open it again',
            path=str(self.path),
        )

    def note_commits(self) -> None:
        """Note, once, that commits may stand in the write-ahead log alone."""
        if not self._noted:
            self._write(wal=True)
            os.fsync(self._file)
            self._noted = True

    def promise(self, sequence: int) -> None:
        """Note a transaction that is about to be acknowledged; a power cut may take this note."""
        self.promised = max(self.promised, sequence)
        self._write(wal=True)

    def note_checkpoint(self) -> None:
        """Note that every commit stands in the file itself."""
        self.promised = 0
        self._write(wal=False)
        os.fsync(self._file)
        self._noted = False

    def release(self) -> None:
        """Give the right up; safe to repeat."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _read(self) -> dict[str, Any]:
        try:
            note = json.loads(os.pread(self._file, 4096, 0) or b'{}')
        except ValueError:
            return {}
        return note if isinstance(note, dict) else {}

    def _write(self, *, wal: bool) -> None:
        note = {'host': socket.gethostname(), 'pid': os.getpid(), 'wal': wal, 'promised': self.promised}
        # One write of fixed length: a reader never meets half a note.
        os.pwrite(self._file, json.dumps(note).encode().ljust(256), 0)
