"""The cold half of a store: what may be moved there, the moves there and back, one slice a call.

Threads: every method may be called from any thread. Moves serialise on the cold file's lock, taken before that
of the database; whoever holds that of the database only reads the cold file.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

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
from hylo_memory_ros.store.cold.choosing import Coolable, coolable, cuts
from hylo_memory_ros.store.cold.copying import complete
from hylo_memory_ros.store.cold.file import ColdFile, state_of
from hylo_memory_ros.store.cold.mark import Mark, mark_in, mark_of, put_mark
from hylo_memory_ros.store.cold.moving import Cooled, clear_leftovers, copied, delete_copied, differs
from hylo_memory_ros.store.cold.reading import Halves
from hylo_memory_ros.store.cold.returning import Returning
from hylo_memory_ros.store.database import Database, log_of, translated
from hylo_memory_ros.store.files import sync
from hylo_memory_ros.store.filtering import Asked
from hylo_memory_ros.store.history import last_transaction
from hylo_memory_ros.store.home import HOT
from hylo_memory_ros.store.sizes import STATEMENT_BYTES
from hylo_memory_ros.store.transaction import get_state

__all__ = ['ColdStorage', 'asked_of', 'cold_path_of', 'everything', 'past_of']

logger = logging.getLogger(__name__)


# What the cold file of a memory that was replaced is, and what it is to be called.
_LEFT = 'cold_left'

Reached = Callable[[sa.Connection, Mark], bool]
"""Whether something needs the cold file, given the main file and what that knows of the cold one."""

# Moves that go on all the time commit some 100 times a second, and two files are opened within 0.2 ms.
_TRIES = 50


def everything(hot: sa.Connection, mark: Mark) -> bool:
    """Reach for whatever there is."""
    return True


def asked_of(asked: Asked) -> Reached:
    """Reach for the cold file where a question can have a match there."""

    def reached(hot: sa.Connection, mark: Mark) -> bool:
        if not mark.reaches(asked):
            return False
        keys = asked.query.all_keys
        return not keys or asked.query.depth > 1 or any_cooled(hot, keys)

    return reached


def past_of(key: str | None) -> Reached:
    """Reach for the cold file where the history of a key, or of an id, goes back to it."""
    return lambda hot, mark: key is None or any_cooled(hot, [key])


def any_cooled(hot: sa.Connection, keys: Sequence[str]) -> bool:
    """Return whether anything of these keys is cold."""
    raw: Any = hot.connection.dbapi_connection
    return raw.execute(_ANY_COOLED, (json.dumps(list(keys)),)).fetchone() is not None


def cold_path_of(path: Path, config: MemoryConfig) -> Path:
    """Return where the cold file of a database stands."""
    if config.cold_path:
        return Path(config.cold_path).expanduser().absolute()
    return path.with_name(f'{path.name}.cold')


class ColdStorage:
    """The cold file of one database.

    Parameters
    ----------
    database : Database
        The main file; in memory there is nothing to be gained, and every move is refused.
    config : MemoryConfig
        Limits and waiting times.
    announce : callable
        Notes, before a commit, that there may be one.
    """

    def __init__(self, database: Database, config: MemoryConfig, announce: Callable[[], None]) -> None:
        self._db = database
        self._announce = announce
        self.file: ColdFile | None = None
        if database.path is not None:
            path = cold_path_of(database.path, config)
            self.file = ColdFile(path, database.path, config, read_only=database.read_only)

    @contextmanager
    def reading(self, reached: Reached) -> Iterator[Halves]:
        """Read one consistent state of the main file, and of the cold file where a question reaches it.

        Parameters
        ----------
        reached : Reached
            Decides from the state of the main file.

        Raises
        ------
        StoreBusyError
            Moves went on whenever the two files were opened.
        """
        with ExitStack() as opened:
            yield self._halves(opened, reached)

    def _halves(self, opened: ExitStack, reached: Reached) -> Halves:
        for _ in range(_TRIES):
            with ExitStack() as attempt:
                hot = attempt.enter_context(self._db.reading())
                mark = None if self.file is None else mark_of(hot)
                if mark is None or not reached(hot, mark):
                    opened.push(attempt.pop_all())
                    return Halves(hot)
                assert self.file is not None
                cold = attempt.enter_context(self.file.reading())
                raw: Any = cold.connection.dbapi_connection
                # The main file first: what it says is cold is there, unless it came back in between.
                same = mark_in(raw, HOT) == mark and last_transaction(cold) == last_transaction(hot)
                if same and state_of(raw).returns <= mark.returns:
                    opened.push(attempt.pop_all())
                    return Halves(hot, cold)
        raise StoreBusyError(f'cold file {self.file}: moves go on whenever it is read; the call may be repeated')

    def open(self) -> None:
        """Refuse a cold file that is not the one, and finish what a killed process left unfinished.

        Raises
        ------
        DamagedFileError, NewerSchemaError, ReadOnlyError
            The cold file is missing, or refused; nothing is changed.
        """
        file = self.file
        if file is None:
            return
        with self._db.reading() as connection:
            mark, left = mark_of(connection), get_state(connection, _LEFT, b'')
            epoch = get_state(connection, 'epoch', b'').decode()
        if left and not self._db.read_only:
            self._put_away(file, **json.loads(left))
        if mark is not None:
            file.check(mark)
        if not self._db.read_only:
            self._tidy(file, mark, epoch)

    def tidy(self) -> None:
        """Delete from the cold file whatever is not cold."""
        if self.file is not None and self.file.path.exists():
            with self._db.reading() as connection:
                mark, epoch = mark_of(connection), get_state(connection, 'epoch', b'').decode()
            self._tidy(self.file, mark, epoch)

    def _tidy(self, file: ColdFile, mark: Mark | None, epoch: str) -> None:
        if mark is not None:
            if file.look()[2:] != (mark.moves, mark.returns):
                with file.moving() as cold:
                    self._settle(cold, mark)
            return
        if not file.path.exists():
            return
        # Nothing is cold yet. What was begun to be moved for the first time is still here, whole.
        try:
            if file.look().epoch == epoch:
                file.remove()
                return
        except StoreError:
            pass
        logger.warning('%s is no cold file of %s; it is left alone', file.path, self._db.path)

    @staticmethod
    def _put_away(file: ColdFile, id: str, kept: str) -> None:
        """Give the cold file of a memory that was replaced its name beside that memory."""
        if file.path.exists() and file.look().id == id:
            file.rename(Path(kept))

    def purged(self) -> list[str]:
        """Let nothing that was purged stay; return the files that it may still be in."""
        if self.file is None or not self.file.path.exists():
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
            mark = mark_of(connection)
        if mark is None:
            yield
            return
        beside = kept.with_name(f'{kept.name}.cold')
        if file.path.parent != kept.parent:
            beside = file.path.with_name(f'{file.path.name}{kept.name}')
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
        if self.file is not None:
            complete(copy, self.file.path)

    def choose(
        self,
        ended_before_ns: int,
        limit: int,
        *,
        kinds: Collection[str] | None = None,
        scope: Mapping[str, str] | None = None,
        after: int = 0,
    ) -> list[Coolable]:
        """Return identities of which something may become cold; see `choosing.coolable`."""
        with self._db.reading() as connection:
            return coolable(connection, ended_before_ns, limit, kinds=kinds, scope=scope, after=after)

    def cool(self, identity_ids: Sequence[int], ended_before_ns: int, limit: int) -> Cooled:
        """Move one slice to the cold file.

        Parameters
        ----------
        identity_ids : sequence of int
            In this order; those of which nothing may be moved are passed over.
        ended_before_ns : int
            Only what had ended at this world time, nanoseconds.
        limit : int
            Most statements; those of one version stay together.

        Returns
        -------
        Cooled
            Nothing, when somebody wrote to what was being moved: the next call may move it.
        """
        file = self._movable(limit)
        with self._db.reading() as connection:
            raw = connection.connection.dbapi_connection
            slices = cuts(raw, identity_ids, ended_before_ns, limit)
            before, epoch = mark_of(connection), get_state(connection, 'epoch', b'').decode()
        if not slices:
            return Cooled()
        if before is not None and not file.path.exists():
            file.check(before)
        mark = before or self._begun(file, epoch)
        with file.moving() as cold:
            self._settle(cold, mark)
            moving = copied(cold, slices, mark)
            self._announce()
            with self._db.writing(durable=False, references=False) as connection:
                # Written to since it was compared? Whoever brought something back left a mark.
                same = moving is not None and mark_of(connection) == before
                if same and last_transaction(connection)[0] != moving.seq:
                    same = not differs(cold)
                if same:
                    put_mark(connection, delete_copied(connection, moving, mark))
            if not same:
                clear_leftovers(cold, mark, [number for number, _ in slices])
                return Cooled()
        return moving.told

    def warm(self, identity_ids: Sequence[int], limit: int) -> Cooled:
        """Bring one slice back: as many whole identities as have about so many statements, at least one."""
        file = self._movable(limit)
        with self._db.reading() as connection:
            if mark_of(connection) is None:
                return Cooled()
        with file.reading() as cold:
            raw: Any = cold.connection.dbapi_connection
            sizes = raw.execute(_SIZES, (json.dumps(list(identity_ids)),)).fetchall()
        chosen: list[Any] = []
        for size in sizes:
            if chosen and sum(one[1] for one in chosen) + size[1] > limit:
                break
            chosen.append(size)
        if not chosen:
            return Cooled()
        numbers = [size[0] for size in chosen]
        self._announce()
        with self._db.writing() as connection:
            returning = self.returning(connection)
            returning.bring(numbers)
        self.settle(returning)
        return Cooled(
            sum(size[2] for size in chosen),
            sum(size[1] for size in chosen),
            sum(size[3] for size in chosen),
            tuple(numbers),
        )

    def close(self) -> None:
        """Close the cold file, its log emptied; safe to repeat."""
        if self.file is None:
            return
        try:
            self.file.checkpoint()
        except StoreError:
            logger.warning('%s keeps its write-ahead log', self.file.path, exc_info=True)
        finally:
            self.file.close()

    def returning(self, connection: sa.Connection) -> Returning:
        """Return what brings cold rows back into a transaction of the main file."""
        return Returning(connection, self.file)

    def settle(self, returning: Returning) -> None:
        """Take what a transaction brought back out of the cold file, once it is committed.

        What goes wrong is told and done again later: until then it is in both files, and counts in one.
        """
        if self.file is None or returning.mark is None or not returning.identity_ids:
            return
        try:
            with self.file.moving() as cold:
                self._settle(cold, returning.mark, sorted(returning.identity_ids))
        except StoreError:
            logger.warning(
                '%s keeps what came back from it until the next move', self.file.path, exc_info=True
            )

    def _movable(self, limit: int) -> ColdFile:
        if self.file is None:
            raise UnsupportedError(
                'cold storage: a memory in memory has no file that could be spared anything'
            )
        if self._db.read_only:
            raise ReadOnlyError(f'database {self._db.path} was opened for reading', path=str(self._db.path))
        if limit < 1:
            raise InvalidRequestError(f'limit: {limit} is below 1', field='limit')
        return self.file

    @staticmethod
    def _begun(file: ColdFile, epoch: str) -> Mark:
        """Make the cold file of a memory that never had one; one that was made and not used is taken."""
        if not file.path.exists():
            mark = Mark(uuid.uuid4().hex)
            file.make(mark, epoch)
            return mark
        state = file.look()
        if state.epoch != epoch:
            raise DamagedFileError(
                f'cold file {file.path} belongs to another memory; move it away', path=str(file.path)
            )
        return Mark(state.id)

    def _settle(self, cold: sqlite3.Connection, mark: Mark, returned: Sequence[int] = ()) -> None:
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


_ANY_COOLED = """
    SELECT 1 FROM identity AS i JOIN cooled AS c ON c.identity_id = i.identity_id
    WHERE i.key IN (SELECT value FROM json_each(?)) LIMIT 1
"""
_SIZES = f"""
    SELECT a.identity_id, count(*), sum((SELECT count(*) FROM version AS v WHERE v.assertion_id = a.assertion_id)),
           sum({STATEMENT_BYTES.format(row='a')})
    FROM json_each(?) AS wanted CROSS JOIN assertion AS a ON a.identity_id = wanted.value
    GROUP BY a.identity_id ORDER BY min(wanted.key)
"""  # noqa: S608 - our own words
