"""Archive: a second database file for ended statements, read and restored on demand.

What is archived is decided by the main file alone: of each identity everything that speaks from before its
row in the table `archived`. Whatever else the archive file holds was left by an interrupted move, and counts
for nothing.

Threads: every method may be called from any thread. Moves serialize on the archive file's lock, taken before
that of the database; who holds that of the database only reads the archive file.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import (
    DamagedFileError,
    InvalidRequestError,
    ReadOnlyError,
    StoreBusyError,
    StoreError,
    UnsupportedError,
)
from hylo_memory_ros.storage.archive.archive_file import ArchiveFile, read_file_state
from hylo_memory_ros.storage.archive.mover import (
    Archivable,
    ArchivedSlice,
    Cut,
    Move,
    clear_leftovers,
    copy_slice,
    delete_slice,
    differing_table,
    find_archivable,
    find_archivable_ids,
    find_cuts,
    is_overtaken,
    merge_archive,
)
from hylo_memory_ros.storage.archive.restorer import Restorer
from hylo_memory_ros.storage.archive.state import (
    ArchiveState,
    Reached,
    everything,
    load_state,
    nothing,
    read_state,
    save_state,
)
from hylo_memory_ros.storage.engine.connection import log_of
from hylo_memory_ros.storage.engine.database import Database, translated
from hylo_memory_ros.storage.engine.files import sync
from hylo_memory_ros.storage.engine.state import get_state
from hylo_memory_ros.storage.query.links import LIVE
from hylo_memory_ros.storage.query.select import OpenFiles
from hylo_memory_ros.storage.schema import SIZE, assertion
from hylo_memory_ros.storage.statements.history import last_transaction

logger = logging.getLogger(__name__)

# Moves that go on all the time commit some 100 times a second, and two files are opened within 0.2 ms.
_TRIES = 50
# Entry of a memory that replaced another: which archive file is to be renamed, and to what.
_REPLACED = 'archive_replaced'


class ArchiveInfo(NamedTuple):
    """Size of an archive."""

    file: str
    bytes: int = 0
    """Of the file."""
    statements: int = 0
    identities: int = 0
    """Identities with an archived statement."""
    lost: str = ''
    """Why it is not read; empty: it is."""


def archive_path_of(path: Path, config: MemoryConfig) -> Path:
    """Return where the archive file of a database stands."""
    if config.archive_path:
        return Path(config.archive_path).expanduser().absolute()
    return path.with_name(f'{path.name}.archive')


class Archive:
    """The archive of one database: opened, read, moved to, copied, erased and replaced with it.

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
    is_alone : bool
        Whether nobody else can archive anything of this database.
    """

    def __init__(
        self,
        database: Database,
        config: MemoryConfig,
        announce: Callable[[], None],
        now_ns: Callable[[], int],
        *,
        is_alone: bool = False,
    ) -> None:
        self._db = database
        self._announce = announce
        self._now_ns = now_ns
        self._config = config
        self._is_alone = is_alone
        self.is_empty = database.path is None
        """Whether it is certain that nothing was ever archived: readers and writers then do without it."""
        self.lost: StoreError | None = None
        """Why the archive file is not read, where the memory was opened without it."""
        self.file: ArchiveFile | None = None
        if database.path is not None:
            path = archive_path_of(database.path, config)
            self.file = ArchiveFile(path, database.path, config, read_only=database.read_only)

    def open(self) -> None:
        """Refuse a wrong archive file, and finish what a killed process left unfinished.

        Raises
        ------
        DamagedFileError, NewerSchemaError, ReadOnlyError
            The archive file is missing, or refused; nothing is changed.
        """
        file = self.file
        if file is None:
            return
        with self._db.reading() as connection:
            state, replaced = load_state(connection), get_state(connection, _REPLACED, b'')
            epoch = get_state(connection, 'epoch', b'').decode()
        if state is None:
            file.check_place()
        if replaced and not self._db.read_only:
            self._rename_replaced(file, **json.loads(replaced))
        try:
            if state is not None:
                is_ahead = file.check(state).moves > state.moves
            else:
                is_ahead = file.path.exists() and file.is_of(epoch)
            if is_ahead:
                self._refuse_newer(file)
        except StoreError as refused:
            if not self._config.accept_lost_archive:
                logger.info('accept_lost_archive opens a memory without its archive')
                raise
            self.lost = refused
            logger.error('%s; queries about the past that it holds are refused', refused)  # noqa: TRY400
            return
        if not self._db.read_only:
            self._tidy(file, state, epoch)
        self.is_empty = state is None and self._is_alone

    @staticmethod
    def _refuse_newer(file: ArchiveFile) -> None:
        """Refuse an archive file with rows that are in neither the main file nor its record of moves.

        A move whose end was lost left everything in the main file. Where it is not, the main file is a copy
        from before those rows were written.
        """
        with file.reading() as archive:
            strays = archive.exec_driver_sql(_STRAYS).scalar_one()
        if strays:
            raise DamagedFileError(
                f'archive file {file.path} is newer than its database: {strays} statements are in it alone; '
                'put the newer database back',
                path=str(file.path),
            )

    @contextmanager
    def reading(self, reached: Reached, needed: Reached | None = None) -> Iterator[OpenFiles]:
        """Read one consistent state of the main file, and of the archive where a query reaches it.

        Parameters
        ----------
        reached : Reached
            Decides from the state of the main file.
        needed : Reached, optional
            Whether an answer without the archive, where that is lost, would be wrong; none: it would.

        Raises
        ------
        StoreBusyError
            Moves went on whenever the two files were opened.
        StoreError
            The memory was opened without its archive, and that is needed.
        """
        with ExitStack() as opened:
            yield self._open_reader(opened, reached, needed or reached)

    def _open_reader(self, opened: ExitStack, reached: Reached, needed: Reached) -> OpenFiles:
        for _ in range(_TRIES):
            with ExitStack() as attempt:
                live = attempt.enter_context(self._db.reading())
                state = None if self.file is None or self.is_empty else load_state(live)
                if self.lost is not None and state is not None and needed(live, state):
                    raise self.lost
                if state is None or self.lost is not None or not reached(live, state):
                    opened.push(attempt.pop_all())
                    return OpenFiles(live)
                assert self.file is not None
                archive = attempt.enter_context(self.file.reading())
                raw: Any = archive.connection.dbapi_connection
                # The main file first: what it records as archived is there, unless it came back in between.
                same = read_state(raw, LIVE) == state and last_transaction(archive) == last_transaction(live)
                if same and read_file_state(raw).returns <= state.returns:
                    opened.push(attempt.pop_all())
                    return OpenFiles(live, archive)
        raise StoreBusyError(
            f'archive file {self.file}: moves go on whenever it is read; the call may be repeated'
        )

    def info(self) -> ArchiveInfo | None:
        """Return the size of the archive; None: there never was one."""
        with self.reading(everything, nothing) as files:
            if self.file is None or load_state(files.live) is None:
                return None
            where, lost = str(self.file.path), '' if self.lost is None else str(self.lost)
            if files.archive is None:
                return ArchiveInfo(where, lost=lost)
            statements, identities = files.archive.execute(_COUNTS).one()
            return ArchiveInfo(where, self.file.path.stat().st_size, statements, identities)

    def archivable(
        self,
        kinds: Collection[str] | None = None,
        scope: Mapping[str, str] | None = None,
        ended_before_ns: int | None = None,
        limit: int = 1000,
        *,
        after: int = 0,
    ) -> list[Archivable]:
        """Return identities with ended statements that may be archived, in order of their number.

        Parameters
        ----------
        kinds, scope : optional
            Only these kinds, and identities with every statement in this scope.
        ended_before_ns : int, optional
            Only what had ended at this world time, nanoseconds, or is not believed; None: now.
        limit : int
            Most identities.
        after : int
            Only identities with a greater number: the last one of the call before.
        """
        ended_ns = self._ended(ended_before_ns)
        with self._db.reading() as connection:
            return find_archivable(connection, ended_ns, limit, kinds=kinds, scope=scope, after=after)

    def archivable_ids(self, identity_ids: Sequence[int]) -> dict[int, list[str]]:
        """Return the ids of ended statements that may be archived, by identity, in order of world time."""
        with self._db.reading() as connection:
            return find_archivable_ids(connection, identity_ids, self._ended(None))

    def _ended(self, ended_before_ns: int | None) -> int:
        now_ns = self._now_ns()
        return now_ns if ended_before_ns is None else min(ended_before_ns, now_ns)

    def move(
        self, identity_ids: Sequence[int], *, ended_before_ns: int | None = None, limit: int = 128
    ) -> ArchivedSlice:
        """Move one slice of ended statements to the archive; a move changes no answer and no hash.

        Parameters
        ----------
        identity_ids : sequence of int
            In this order; those of which nothing may be moved, or not any more, are passed over.
        ended_before_ns : int, optional
            As in `archivable`.
        limit : int
            Most statements, those of one version together; 128 hold the write lock for less than 5 ms on a
            small computer.

        Returns
        -------
        ArchivedSlice
            Empty when there is nothing left, or somebody wrote to it meanwhile: the next call may move it.

        Raises
        ------
        UnsupportedError
            The memory has no file.
        StoreError
            The archive file is refused, or cannot be written; nothing has changed.
        """
        ended_ns = self._ended(ended_before_ns)
        file = self._movable(limit)
        with file.alone():
            with self._db.reading() as connection:
                raw = connection.connection.dbapi_connection
                chosen = find_cuts(raw, identity_ids, ended_ns, limit)
                before, epoch = load_state(connection), get_state(connection, 'epoch', b'').decode()
                sequence = last_transaction(connection)[0]
            if not chosen:
                return ArchivedSlice()
            state = before or self._create(file, epoch)
            self.is_empty = False
            with file.moving() as archive:
                self._settle(archive, state)
                return self._move(archive, chosen, before, state, sequence)

    def _move(
        self,
        archive: sqlite3.Connection,
        chosen: Sequence[Cut],
        before: ArchiveState | None,
        state: ArchiveState,
        sequence: int,
    ) -> ArchivedSlice:
        move = copy_slice(archive, chosen, state)
        self._announce()
        with self._db.writing(durable=False, references=False) as connection:
            now = load_state(connection)
            # A transaction that brought something back changed the state.
            if (
                move is not None
                and now == before
                and not self._is_outdated(connection, archive, move, sequence)
            ):
                save_state(connection, delete_slice(connection, move, state))
                return move.result
        if now == before:
            clear_leftovers(archive, state, [cut.identity_id for cut in chosen])
        # Else more may be left than this: the next move looks at all.
        return ArchivedSlice()

    @staticmethod
    def _is_outdated(
        connection: sa.Connection, archive: sqlite3.Connection, move: Move, sequence: int
    ) -> bool:
        """Return whether a slice changed since it was compared, or may not be moved any more."""
        if last_transaction(connection)[0] != move.sequence and differing_table(archive):
            return True
        return is_overtaken(connection, move, sequence)

    def restore(self, identity_ids: Sequence[int], *, limit: int = 128) -> ArchivedSlice:
        """Bring one slice back: as many whole identities as have about so many statements, at least one."""
        file = self._movable(limit)
        with self._db.reading() as connection:
            if load_state(connection) is None:
                return ArchivedSlice()
        with file.reading() as archive:
            raw: Any = archive.connection.dbapi_connection
            sizes = raw.execute(_SIZES, (json.dumps(list(identity_ids)),)).fetchall()
        chosen: list[Any] = []
        for size in sizes:
            if chosen and sum(one[1] for one in chosen) + size[1] > limit:
                break
            chosen.append(size)
        if not chosen:
            return ArchivedSlice()
        numbers = [size[0] for size in chosen]
        self._announce()
        with self._db.writing() as connection:
            restorer = self.restorer(connection)
            restorer.restore(numbers)
        self.settle(restorer)
        assertions, versions, size = (sum(one[place] for one in chosen) for place in (1, 2, 3))
        return ArchivedSlice(versions, assertions, size, tuple(numbers))

    def restorer(self, connection: sa.Connection) -> Restorer:
        """Return a restorer for a transaction of the main file."""
        return Restorer(connection, self.file, self.lost)

    def settle(self, restorer: Restorer) -> None:
        """Delete from the archive file what a transaction brought back, once it is committed.

        A failure is logged, and made good later: until then the rows are in both files, and count in one.
        """
        if self.file is None or restorer.state is None or not restorer.identity_ids:
            return
        try:
            with self.file.moving() as archive:
                self._settle(archive, restorer.state, sorted(restorer.identity_ids))
        except StoreError:
            logger.warning(
                '%s keeps what came back from it until the next move', self.file.path, exc_info=True
            )

    def _settle(self, archive: sqlite3.Connection, state: ArchiveState, returned: Sequence[int] = ()) -> None:
        """Delete from the archive file what an earlier move or return left there."""
        there = read_file_state(archive)
        if (there.moves, there.returns) == (state.moves, state.returns):
            return
        assert self._db.path is not None
        # What came back must be on the disk before it leaves the archive file.
        sync(self._db.path)
        if log_of(self._db.path).exists():
            sync(log_of(self._db.path))
        is_known = bool(returned) and (there.moves, there.returns) == (state.moves, state.returns - 1)
        clear_leftovers(archive, state, returned if is_known else None)

    def _movable(self, limit: int) -> ArchiveFile:
        if self.file is None:
            raise UnsupportedError('archive: a memory in memory has no file that could be spared anything')
        if self._db.read_only:
            raise ReadOnlyError(f'database {self._db.path} was opened for reading', path=str(self._db.path))
        if self.lost is not None:
            raise self.lost
        if limit < 1:
            raise InvalidRequestError(f'limit: {limit} is below 1', field='limit')
        return self.file

    @staticmethod
    def _create(file: ArchiveFile, epoch: str) -> ArchiveState:
        """Create the archive file of a memory that never had one; an unused one of its own is taken."""
        if file.path.exists():
            there = file.load_state()
            if there.epoch != epoch:
                raise DamagedFileError(
                    f'archive file {file.path} belongs to another memory; move it away', path=str(file.path)
                )
            return ArchiveState(there.id)
        state = ArchiveState(uuid.uuid4().hex)
        file.create(state, epoch)
        return state

    def tidy(self) -> None:
        """Delete from the archive file whatever is not archived."""
        if self.file is not None and self.file.path.exists():
            with self._db.reading() as connection:
                state, epoch = load_state(connection), get_state(connection, 'epoch', b'').decode()
            self._tidy(self.file, state, epoch)

    def _tidy(self, file: ArchiveFile, state: ArchiveState | None, epoch: str) -> None:
        if state is not None:
            there = file.load_state()
            if (there.moves, there.returns) != (state.moves, state.returns):
                with file.moving() as archive:
                    self._settle(archive, state)
        elif file.path.exists():
            # Nothing is archived yet: what a first move copied is still in the main file, whole.
            if file.is_of(epoch):
                file.remove()
            else:
                logger.warning('%s is no archive file of %s; it is left alone', file.path, self._db.path)

    def erase_remains(self) -> list[str]:
        """Erase what a purge deleted from the archive file; return the files that may still hold it."""
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
        """Let the archive file go with the memory that is replaced within the block.

        Parameters
        ----------
        incoming : Path
            The memory to be; it is complete, and records for the next opening what is left to rename.
        kept : Path
            The name that the memory before gets.

        Raises
        ------
        StoreBusyError
            A reader of an older state kept the archive file's log from being emptied.
        """
        file = self.file
        assert file is not None
        with self._db.reading() as connection:
            state, epoch = load_state(connection), get_state(connection, 'epoch', b'').decode()
        if state is None and self.lost is None and file.is_of(epoch):
            # Created for a move that then did not happen.
            file.remove()
        if state is None or self.lost is not None:
            yield
            return
        beside = kept.with_name(f'{kept.name}.archive')
        if file.path.parent != kept.parent:
            assert self._db.path is not None
            beside = file.path.with_name(file.path.name + kept.name.removeprefix(self._db.path.name))
        with translated(incoming), closing(sqlite3.connect(incoming)) as raw, raw:
            replaced = json.dumps({'id': state.id, 'kept': str(beside)}).encode()
            raw.execute('INSERT OR REPLACE INTO state (name, value) VALUES (?, ?)', (_REPLACED, replaced))
        if not file.checkpoint():
            raise StoreBusyError(
                f'archive file {file.path}: its log cannot be emptied while another program reads an older '
                'state; the call may be repeated',
                path=str(file.path),
            )
        file.close()
        yield
        self._rename_replaced(file, state.id, str(beside))

    @staticmethod
    def _rename_replaced(file: ArchiveFile, id: str, kept: str) -> None:
        """Rename the archive file of a memory that was replaced to stand beside that memory."""
        try:
            if file.path.exists() and file.load_state().id == id:
                file.rename(Path(kept))
        except StoreError:  # nothing of this memory is in it
            logger.warning('%s is left where it is', file.path, exc_info=True)

    def merge_into(self, copy: sqlite3.Connection) -> None:
        """Bring everything back in a copy of the main file."""
        if self.lost is not None:
            raise self.lost
        if self.file is not None:
            merge_archive(copy, self.file.path)

    def close(self) -> None:
        """Close the archive file, its log emptied; safe to repeat."""
        if self.file is None:
            return
        try:
            if self.lost is None:
                self.file.checkpoint()
        except StoreError:
            logger.warning('%s keeps its write-ahead log', self.file.path, exc_info=True)
        finally:
            self.file.close()


_COUNTS = sa.select(sa.func.count(), sa.func.count(assertion.c.identity_id.distinct()))
_SIZES = f"""
    SELECT a.identity_id, count(*),
           sum((SELECT count(*) FROM version AS v WHERE v.assertion_id = a.assertion_id)),
           sum({SIZE.format(row='a')})
    FROM json_each(?) AS wanted CROSS JOIN assertion AS a ON a.identity_id = wanted.value
    GROUP BY a.identity_id ORDER BY min(wanted.key)
"""  # noqa: S608 - constants of this package
# Rows that a move left behind count for nothing, and are in the main file still.
_STRAYS = f"""
    SELECT count(*) FROM main.assertion AS moved
    LEFT JOIN {LIVE}.archived AS c ON c.identity_id = moved.identity_id
    WHERE (c.identity_id IS NULL OR moved.valid_from_ns >= c.before_ns)
    AND NOT EXISTS (
        SELECT 1 FROM {LIVE}.assertion AS h
        WHERE h.assertion_id = moved.assertion_id AND h.content_digest = moved.content_digest
    )
"""  # noqa: S608 - constants of this package
