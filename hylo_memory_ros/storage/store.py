"""Store over SQLite: one file, one writer, many readers.

Threads: every method may be called from any thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import Removal
from hylo_memory_ros.storage.archive.state import everything, nothing
from hylo_memory_ros.storage.backup import Backup
from hylo_memory_ros.storage.changeset import CommitResult
from hylo_memory_ros.storage.episodes import named_in
from hylo_memory_ros.storage.erasure.eraser import Eraser
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.reader import StatementReader
from hylo_memory_ros.storage.transaction_manager import TransactionManager
from hylo_memory_ros.storage.unit_of_work import ReadView, UnitOfWork, UnnumberedUnitOfWork


class SqliteStore:
    """A store in one SQLite file, or in memory.

    Parameters
    ----------
    url : str or None
        ``sqlite:////absolute/path.db``; None or ``sqlite://``: in memory.
    config : MemoryConfig
        Limits.
    clock : callable
        The service clock, nanoseconds.
    read_only : bool
        Read a file that another process may be writing; takes no lock.
    exclusive : bool
        Take the file's lock. Without it several writers share the file, each unaware of
        what the others' mirrors hold.

    Attributes
    ----------
    reader : StatementReader
        Statements, for queries and indexes.
    archive : Archive
        What may be moved to the archive file, and the moves there and back.

    Raises
    ------
    StoreError
        The file is refused: in use, damaged, newer, not writable. It is left untouched.
    ClockError
        Its last record lies far ahead of the clock.
    """

    def __init__(
        self,
        url: str | None,
        config: MemoryConfig,
        clock: Callable[[], int],
        *,
        read_only: bool = False,
        exclusive: bool = True,
    ) -> None:
        self._transactions = TransactionManager(url, config, clock, read_only=read_only, exclusive=exclusive)
        self._config = config
        self.path = self._transactions.path
        self.reader = StatementReader(self._transactions)
        self.archive = self._transactions.archive
        self._backup = Backup(self._transactions)
        self._eraser = Eraser(self._transactions)
        if not read_only:
            try:
                self._eraser.finish_interrupted()
            except BaseException:
                self.close()
                raise

    @property
    def epoch(self) -> str:
        """Name of the history."""
        return self._transactions.epoch

    @property
    def sequence(self) -> int:
        """Number of the newest transaction."""
        return self._transactions.sequence

    def now_ns(self) -> int:
        """Return the highest service time seen."""
        return self._transactions.now_ns()

    def clock_ns(self) -> int:
        """Return the service clock, which may lie behind the highest time seen."""
        return self._transactions.clock_ns()

    def read(self) -> AbstractContextManager[ReadView]:
        """Open a view of one consistent state, read-only, for the block."""
        return self._transactions.read()

    def begin(
        self, op: str, *, actor: str = '', durable: bool = True, dry_run: bool = False
    ) -> AbstractContextManager[UnitOfWork]:
        """Begin a numbered transaction: commit at a clean end of the block, else roll back."""
        return self._transactions.begin(op, actor=actor, durable=durable, dry_run=dry_run)

    def begin_unnumbered(self, *, durable: bool = False) -> AbstractContextManager[UnnumberedUnitOfWork]:
        """Begin a transaction that takes no sequence, for statistics, ledger and records."""
        return self._transactions.begin_unnumbered(durable=durable)

    def purge(
        self,
        asked: QuerySpec,
        among: Sequence[int] | None,
        unstored: Sequence[str] = (),
        *,
        reason: str,
        actor: str,
        dry_run: bool,
    ) -> tuple[Removal, CommitResult | None]:
        """Delete the identities of what matches, for good, and from every record what is named beside.

        Not on a unit of work: after its commit, pages, logs and unfinished files are rewritten too.
        """
        return self._eraser.purge(asked, among, unstored, reason=reason, actor=actor, dry_run=dry_run)

    def recall_episode(self, episode_id: str) -> None:
        """Bring back from the archive what was stated in an episode, and what its feed and verdicts name."""
        with self._transactions.archive.reading(everything, nothing) as reader:
            if reader.archive is None:
                return
            names = json.dumps(sorted(named_in(reader.live, episode_id)))
            found = reader.archive.execute(
                _ARCHIVED_OF_EPISODE, {'episode': episode_id, 'names': names}
            ).scalars()
            identity_ids = list(found)
        if identity_ids:
            self.archive.restore(identity_ids, limit=_ALL)

    def copy(self, target: Path) -> None:
        """Copy the whole memory to a new file."""
        self._backup.copy(target)

    def restore(self, source: Path, ready: Callable[[ReadView], None] | None = None) -> CommitResult:
        """Replace the whole memory by a verified copy, and begin a new epoch."""
        return self._backup.restore(source, ready)

    def close(self) -> None:
        """Close the store; safe to repeat."""
        self._transactions.close()


_ALL = 2**63 - 1
_ARCHIVED_OF_EPISODE = sa.text("""
    SELECT DISTINCT identity_id FROM assertion
    WHERE id IN (SELECT value FROM json_each(:names))
    OR sequence IN (SELECT sequence FROM txn WHERE episode != '' AND episode = :episode)
""")
