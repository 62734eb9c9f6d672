"""Backup: copies of the whole memory and their record, and restoring one.

Threads: any; a restore serializes on the database's lock.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from hylo_memory_ros.errors import DamagedFileError, StoreError
from hylo_memory_ros.storage.archive.archive import Archive
from hylo_memory_ros.storage.archive.state import everything
from hylo_memory_ros.storage.changeset import CommitResult
from hylo_memory_ros.storage.engine.database import Database, translated
from hylo_memory_ros.storage.engine.files import (
    check_file,
    copy_database,
    migrate,
    refuse_place,
    remove_unfinished_copies,
    swap_file,
    unfinished_of,
)
from hylo_memory_ros.storage.engine.state import StateTable
from hylo_memory_ros.storage.integrity import verify_database
from hylo_memory_ros.storage.query.select import OpenFiles
from hylo_memory_ros.storage.transaction_manager import TransactionManager, new_epoch
from hylo_memory_ros.storage.unit_of_work import ReadView

KEPT = '.before-restore-'
"""What the name of a memory that a restore replaced has, between its own and the time."""

_STATE = 'copies'
_MOST = 1000


def noted_copies(state: StateTable) -> dict[str, int]:
    """Return the copies that were made, each with the newest transaction that may be in it."""
    noted: dict[str, int] = json.loads(state.get(_STATE, b'{}'))
    return noted


def note_copies(state: StateTable, copies: dict[str, int]) -> None:
    """Remember copies; those that are known to be gone are forgotten, and the oldest beyond a bound."""
    noted = {path: seq for path, seq in (noted_copies(state) | copies).items() if _standing(path)}
    noted |= copies
    newest = dict(sorted(noted.items(), key=lambda one: one[1])[-_MOST:])
    state.put(_STATE, json.dumps(newest, ensure_ascii=False).encode())


def copies_since(state: StateTable, sequence: int) -> list[str]:
    """Return the copies that may hold what a transaction wrote, but those that are known to be gone."""
    noted = (path for path, seq in noted_copies(state).items() if seq >= sequence)
    return [one for path in noted for one in _standing(path)]


def _standing(path: str) -> list[str]:
    """Return the files that a copy is in: its own, or one that a killed process did not finish."""
    copy = Path(path)
    try:
        # On a disk that is not mounted it may well be.
        if not copy.parent.is_dir():
            return [path]
        return [str(one) for one in (copy, unfinished_of(copy)) if one.exists()]
    except OSError:
        return [path]


def copies_beside(path: Path) -> list[str]:
    """Return the files beside one of a memory that a restore kept."""
    if not path.parent.is_dir():
        return []
    return [str(one) for one in path.parent.iterdir() if one.name.startswith(path.name + KEPT)]


def remove_unfinished(path: Path) -> None:
    """Delete what a restore left beside a memory when it was killed."""
    for one in path.parent.iterdir():
        if one.name.startswith((f'.{path.name}.restored', f'..{path.name}.restored.new')):
            one.unlink(missing_ok=True)


logger = logging.getLogger(__name__)


class Backup:
    """Copies of a memory, and the replacement of a memory by a copy.

    Parameters
    ----------
    transactions : TransactionManager
        The memory.
    """

    def __init__(self, transactions: TransactionManager) -> None:
        self._transactions = transactions
        if transactions.file_lock is not None:
            with transactions.read() as view:
                remove_unfinished_copies(noted_copies(view.state))

    def copy(self, target: Path) -> None:
        """Copy the whole memory to a new file, and note it for a later purge to name."""
        memory = self._transactions
        refuse_place(target)
        if not memory.read_only:
            noted = {str(target.absolute()): memory.sequence}
            try:
                with memory.begin_unnumbered(durable=True) as uow:
                    note_copies(uow.state, noted)
            except StoreError:  # what is left of a full disk can still be copied to another
                logger.warning('copy %s is not on record: no purge will name it', target, exc_info=True)
        # Without a transaction: in memory there is one connection, and SQLite copies nothing while it writes.
        with memory.database.exclusively() as raw:
            copy_database(raw, target, memory.archive.merge_into)

    def restore(self, source: Path, ready: Callable[[ReadView], None] | None = None) -> CommitResult:
        """Replace the whole memory by a verified copy, and begin a new epoch.

        Parameters
        ----------
        ready : callable, optional
            Given a view of the verified copy, before anything is replaced.
        """
        memory = self._transactions
        check_file(source, writable=False)
        if memory.path is not None and memory.path.samefile(source):
            raise StoreError(f'restore from {source}: it is the memory itself', path=str(source))
        epoch = new_epoch()
        with memory.read() as view:
            copies = noted_copies(view.state)
        candidate = Database(source, memory.config, read_only=True)
        archive = Archive(
            candidate, memory.config.model_copy(update={'archive_path': ''}), memory.announce, memory.now_ns
        )
        try:
            archive.open()
            with archive.reading(everything) as files:
                self._verify(source, files)
                if ready is not None:
                    ready(ReadView(files.live))
                raw: Any = files.live.connection.dbapi_connection
                self._replace(raw, epoch, archive.merge_into)
        finally:
            archive.close()
            candidate.close()
        with memory.begin('restore') as uow:
            uow.state.put('epoch', epoch)
            note_copies(uow.state, copies)
        assert uow.result is not None
        memory.epoch = epoch.decode()
        return uow.result

    def _verify(self, source: Path, files: OpenFiles) -> None:
        self._transactions.check_scope(files.live, source)
        report = verify_database(files.live, self._transactions.config.identity_scope, *files.all[1:])
        if not report.ok:
            raise DamagedFileError(f'restore from {source}: {"; ".join(report.problems)}', path=str(source))

    def _replace(self, source: Any, epoch: bytes, complete: Callable[[sqlite3.Connection], None]) -> None:
        path = self._transactions.path
        if path is None:
            with self._transactions.database.exclusively() as raw:
                source.backup(raw)
                complete(raw)
            return
        incoming = path.with_name(f'.{path.name}.restored')
        incoming.unlink(missing_ok=True)
        try:
            copy_database(source, incoming, complete)
            migrate(incoming)
            # Renamed before the swap: at no moment does the old name stand for the other history.
            with translated(incoming), closing(sqlite3.connect(incoming)) as raw, raw:
                raw.execute("UPDATE state SET value = ? WHERE name = 'epoch'", (epoch,))
            self._swap(path, incoming)
        finally:
            incoming.unlink(missing_ok=True)

    def _swap(self, path: Path, incoming: Path) -> None:
        memory = self._transactions
        # No file kept by an earlier restore has this name, also not one of the same time.
        names = (path.with_name(f'{path.name}{KEPT}{stamp}') for stamp in count(memory.now_ns()))
        kept = next(name for name in names if not name.exists())
        with memory.archive.replaced(incoming, kept), memory.database.closed():
            if memory.file_lock is not None:
                memory.file_lock.note_checkpoint()
            swap_file(path, incoming, kept)
