"""The cold file in the life of its memory: opened, tidied, copied, purged, and replaced with it."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import DamagedFileError, StoreBusyError, StoreError
from hylo_memory_ros.storage.archive.file import ColdFile, state_of
from hylo_memory_ros.storage.archive.mover import clear_leftovers, complete
from hylo_memory_ros.storage.archive.state import ArchiveState, mark_of
from hylo_memory_ros.storage.engine.connection import log_of
from hylo_memory_ros.storage.engine.database import Database, translated
from hylo_memory_ros.storage.engine.files import sync
from hylo_memory_ros.storage.engine.state import get_state

__all__ = ['ArchiveLifecycle', 'archive_path_of']

logger = logging.getLogger(__name__)

# What the cold file of a memory that was replaced is, and what it is to be called.
_LEFT = 'cold_left'


def archive_path_of(path: Path, config: MemoryConfig) -> Path:
    """Return where the cold file of a database stands."""
    if config.archive_path:
        return Path(config.archive_path).expanduser().absolute()
    return path.with_name(f'{path.name}.cold')


class ArchiveLifecycle:
    """The cold file of one database.

    Parameters
    ----------
    database : Database
        The main file; in memory there is nothing to be gained, and every move is refused.
    config : MemoryConfig
        Limits and waiting times.
    announce : callable
        Notes, before a commit, that there may be one.
    now_ns : callable
        The service time, nanoseconds.
    """

    def __init__(
        self,
        database: Database,
        config: MemoryConfig,
        announce: Callable[[], None],
        now_ns: Callable[[], int],
    ) -> None:
        self._db = database
        self._announce = announce
        self._now_ns = now_ns
        self._config = config
        self.lost: StoreError | None = None
        """Why the cold file is not read, where the memory was opened without it."""
        self.file: ColdFile | None = None
        if database.path is not None:
            path = archive_path_of(database.path, config)
            self.file = ColdFile(path, database.path, config, read_only=database.read_only)

    def open(self) -> None:
        """Refuse a cold file that is not the one, and finish what a killed process left unfinished.

        Raises
        ------
        DamagedFileError, NewerSchemaError, ReadOnlyError
            The cold file is missing, or refused; nothing is changed.
        """
        if self.file is None:
            return
        with self._db.reading() as connection:
            mark, left = mark_of(connection), get_state(connection, _LEFT, b'')
            epoch = get_state(connection, 'epoch', b'').decode()
        file = self._found(self.file, mark)
        if mark is None and (file.path.is_dir() or any(path.is_file() for path in file.path.parents)):
            raise StoreError(
                f'cold file {file.path}: there is a directory, or its own is a file', path=str(file.path)
            )
        if left and not self._db.read_only:
            self._put_away(file, **json.loads(left))
        try:
            if mark is not None:
                ahead = file.check(mark).moves > mark.moves
            else:
                ahead = file.path.exists() and file.is_of(epoch)
            if ahead:
                self._refuse_newer(file)
        except StoreError as refused:
            if not self._config.accept_lost_archive:
                logger.info('accept_lost_archive opens a memory without its cold file')
                raise
            self.lost = refused
            logger.error('%s; what asks for the past that it holds is refused', refused)  # noqa: TRY400
            return
        if not self._db.read_only:
            self._tidy(file, mark, epoch)

    @staticmethod
    def _refuse_newer(file: ColdFile) -> None:
        """Refuse a cold file with moves that the main file knows nothing of, unless it still has everything.

        A move whose end was lost left everything in the main file. Where it is not, the main file is one
        from before what was moved had been said.
        """
        with file.reading() as cold:
            strays = cold.exec_driver_sql(_STRAYS).scalar_one()
        if strays:
            raise DamagedFileError(
                f'cold file {file.path} is newer than its database: {strays} statements are in it alone; put '
                'the newer database back',
                path=str(file.path),
            )

    def _found(self, file: ColdFile, mark: ArchiveState | None) -> ColdFile:
        """Return the cold file where the main file says it is, when it is not where it usually is."""
        assert self._db.path is not None
        if mark is not None and mark.path and not self._config.archive_path and not file.path.exists():
            self.file = ColdFile(Path(mark.path), self._db.path, self._config, read_only=self._db.read_only)
            return self.file
        return file

    def tidy(self) -> None:
        """Delete from the cold file whatever is not cold."""
        if self.file is not None and self.file.path.exists():
            with self._db.reading() as connection:
                mark, epoch = mark_of(connection), get_state(connection, 'epoch', b'').decode()
            self._tidy(self.file, mark, epoch)

    def _tidy(self, file: ColdFile, mark: ArchiveState | None, epoch: str) -> None:
        if mark is not None:
            if file.look()[2:] != (mark.moves, mark.returns):
                with file.moving() as cold:
                    self._settle(cold, mark)
            return
        if not file.path.exists():
            return
        # Nothing is cold yet. What was begun to be moved for the first time is still here, whole.
        if file.is_of(epoch):
            file.remove()
            return
        logger.warning('%s is no cold file of %s; it is left alone', file.path, self._db.path)

    @staticmethod
    def _put_away(file: ColdFile, id: str, kept: str) -> None:
        """Give the cold file of a memory that was replaced its name beside that memory."""
        try:
            if file.path.exists() and file.look().id == id:
                file.rename(Path(kept))
        except StoreError:  # nothing of this memory is in it
            logger.warning('%s is left where it is', file.path, exc_info=True)

    def purged(self) -> list[str]:
        """Let nothing that was purged stay; return the files that it may still be in."""
        if self.file is None:
            return []
        if self.lost is not None:
            return [str(self.file.path)]
        if not self.file.path.exists():
            return []
        try:
            self.tidy()
            self.file.rewrite()
            return [] if self.file.checkpoint() else [str(log_of(self.file.path))]
        except StoreError:
            logger.warning('%s may still hold what was purged', self.file.path, exc_info=True)
            return [str(self.file.path)]

    @contextmanager
    def replaced(self, incoming: Path, kept: Path) -> Iterator[None]:
        """Let the cold file go with the memory that is replaced within the block.

        Parameters
        ----------
        incoming : Path
            The memory to be; it holds everything itself, and tells the next opening what is left to do.
        kept : Path
            The name that the memory before gets.

        Raises
        ------
        StoreBusyError
            Somebody who still reads an older state kept the cold file's log from being emptied.
        """
        file = self.file
        assert file is not None
        with self._db.reading() as connection:
            mark, epoch = mark_of(connection), get_state(connection, 'epoch', b'').decode()
        if mark is None and self.lost is None and file.is_of(epoch):
            # Made for a move that then did not happen: the memory to be would take it for a stranger's.
            file.remove()
        if mark is None or self.lost is not None:
            yield
            return
        beside = kept.with_name(f'{kept.name}.cold')
        if file.path.parent != kept.parent:
            assert self._db.path is not None
            beside = file.path.with_name(file.path.name + kept.name.removeprefix(self._db.path.name))
        with translated(incoming), closing(sqlite3.connect(incoming)) as raw, raw:
            left = json.dumps({'id': mark.id, 'kept': str(beside)}).encode()
            raw.execute('INSERT OR REPLACE INTO state (name, value) VALUES (?, ?)', (_LEFT, left))
        if not file.checkpoint():
            raise StoreBusyError(
                f'cold file {file.path}: its log cannot be emptied while another program reads an older '
                'state; the call may be repeated',
                path=str(file.path),
            )
        file.close()
        yield
        self._put_away(file, mark.id, str(beside))

    def complete(self, copy: sqlite3.Connection) -> None:
        """Bring what is cold back in a copy of the main file."""
        if self.lost is not None:
            raise self.lost
        if self.file is not None:
            complete(copy, self.file.path)

    def close(self) -> None:
        """Close the cold file, its log emptied; safe to repeat."""
        if self.file is None:
            return
        try:
            if self.lost is None:
                self.file.checkpoint()
        except StoreError:
            logger.warning('%s keeps its write-ahead log', self.file.path, exc_info=True)
        finally:
            self.file.close()

    def _settle(self, cold: sqlite3.Connection, mark: ArchiveState, returned: Sequence[int] = ()) -> None:
        """Delete from the cold file what a move or a return left there, when it has not been deleted yet."""
        state = state_of(cold)
        if (state.moves, state.returns) == (mark.moves, mark.returns):
            return
        assert self._db.path is not None
        # What came back must be on the disk before it leaves the cold file.
        sync(self._db.path)
        if log_of(self._db.path).exists():
            sync(log_of(self._db.path))
        known = bool(returned) and (state.moves, state.returns) == (mark.moves, mark.returns - 1)
        clear_leftovers(cold, mark, returned if known else None)


# What a move left behind counts for nothing, and is in the main file still.
_STRAYS = """
    SELECT count(*) FROM main.assertion AS said
    LEFT JOIN hot.cooled AS c ON c.identity_id = said.identity_id
    WHERE (c.identity_id IS NULL OR said.valid_from_ns >= c.before_ns)
    AND NOT EXISTS (
        SELECT 1 FROM hot.assertion AS h
        WHERE h.assertion_id = said.assertion_id AND h.content_digest = said.content_digest
    )
"""
