"""Putting a copy in the place of the whole memory, in a store over SQLite.

Threads: any; a restore serialises on the database's lock.
"""

from __future__ import annotations

import logging
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from hylo_memory_ros.errors import DamagedFileError, StoreError
from hylo_memory_ros.storage.archive.archive import Archive
from hylo_memory_ros.storage.archive.tiered_reader import everything
from hylo_memory_ros.storage.changeset import Changeset, CommitResult
from hylo_memory_ros.storage.copies import KEPT, note_copies, noted_copies
from hylo_memory_ros.storage.engine.database import Database, translated
from hylo_memory_ros.storage.engine.files import check_file, copy_database, migrate, swap_file
from hylo_memory_ros.storage.engine.state import put_state
from hylo_memory_ros.storage.episodes.episode_store import EpisodeStore
from hylo_memory_ros.storage.integrity import verify_database
from hylo_memory_ros.storage.unit_of_work import ReadView

__all__ = ['RestoringStore', 'new_epoch']

logger = logging.getLogger(__name__)


def new_epoch() -> bytes:
    """Return the name of a history that begins."""
    return uuid.uuid4().hex.encode()


class RestoringStore(EpisodeStore):
    """What a store over SQLite does to become a copy of another; see `port.Store`."""

    def _free_name(self, stamp_ns: int) -> Path:
        """Return a name that no file kept by a restore has, also not one of the same time."""
        assert self.path is not None
        names = (self.path.with_name(f'{self.path.name}{KEPT}{stamp}') for stamp in count(stamp_ns))
        return next(name for name in names if not name.exists())

    def restore(self, source: Path, ready: Callable[[ReadView], None] | None = None) -> CommitResult:
        """Put a verified copy in the place of the whole memory, and begin a new epoch."""
        check_file(source, writable=False)
        if self.path is not None and self.path.samefile(source):
            raise StoreError(f'restore from {source}: it is the memory itself', path=str(source))
        epoch, copies = new_epoch(), self.side_read(noted_copies)
        candidate = Database(source, self._config, read_only=True)
        archive = Archive(candidate, self._config.model_copy(update={'archive_path': ''}), self._announce)
        try:
            archive.open()
            with archive.reading(everything) as reader:
                connection = reader.live
                self._check_scope(connection, source)
                report = verify_database(connection, self._config.identity_scope, *reader.all[1:])
                if not report.ok:
                    raise DamagedFileError(
                        f'restore from {source}: {"; ".join(report.problems)}', path=str(source)
                    )
                if ready is not None:
                    ready(ReadView(connection))
                raw: Any = connection.connection.dbapi_connection
                self._replace(raw, epoch, archive.merge_into)
        finally:
            archive.close()
            candidate.close()

        def act(txn: Changeset) -> None:
            put_state(txn.connection, 'epoch', epoch)
            note_copies(txn.connection, copies)

        _, committed = self._transact('restore', '', act)
        assert committed is not None
        self.epoch = epoch.decode()
        self._look_for_episodes()
        self._side_writes += 1
        return committed

    def _replace(self, source: Any, epoch: bytes, complete: Callable[[sqlite3.Connection], None]) -> None:
        if self.path is None:
            with self._db.exclusively() as raw:
                source.backup(raw)
                complete(raw)
            return
        incoming = self.path.with_name(f'.{self.path.name}.restored')
        incoming.unlink(missing_ok=True)
        try:
            self._put_in_place(source, incoming, epoch, complete)
        finally:
            incoming.unlink(missing_ok=True)

    def _put_in_place(
        self, source: Any, incoming: Path, epoch: bytes, complete: Callable[[sqlite3.Connection], None]
    ) -> None:
        assert self.path is not None
        copy_database(source, incoming, complete)
        migrate(incoming)
        # Renamed before the swap: at no moment does the old name stand for the other history.
        with translated(incoming), closing(sqlite3.connect(incoming)) as raw, raw:
            raw.execute("UPDATE state SET value = ? WHERE name = 'epoch'", (epoch,))
        kept = self._free_name(self.now_ns())
        with self._archive.replaced(incoming, kept), self._db.closed():
            if self._file_lock is not None:
                self._file_lock.note_checkpoint()
            swap_file(self.path, incoming, kept)
        logger.info('restored %s; the memory before is kept as %s', self.path, kept)
