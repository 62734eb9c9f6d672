"""The cold half of a store: what may be moved there, the moves there and back, one slice a call.

Threads: every method may be called from any thread. Moves serialise on the cold file's lock, taken before
that of the database; whoever holds that of the database only reads the cold file.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.errors import (
    DamagedFileError,
    InvalidRequestError,
    ReadOnlyError,
    StoreBusyError,
    StoreError,
    UnsupportedError,
)
from hylo_memory_ros.storage.archive.file import ColdFile, state_of
from hylo_memory_ros.storage.archive.lifecycle import ArchiveLifecycle
from hylo_memory_ros.storage.archive.mover import (
    Cooled,
    Mover,
    clear_leftovers,
    copied,
    delete_copied,
    differs,
    overtaken,
)
from hylo_memory_ros.storage.archive.reader import Reached, TieredReader, everything, nothing
from hylo_memory_ros.storage.archive.restorer import Restorer
from hylo_memory_ros.storage.archive.selection import Coolable, Cut, coolable, cuts, leaving
from hylo_memory_ros.storage.archive.state import ArchiveState, mark_in, mark_of, put_mark
from hylo_memory_ros.storage.engine.state import get_state
from hylo_memory_ros.storage.query.links import HOT
from hylo_memory_ros.storage.schema import SIZE, assertion
from hylo_memory_ros.storage.statements.history import last_transaction

__all__ = ['ColdHeld', 'ColdStorage']

logger = logging.getLogger(__name__)

# Moves that go on all the time commit some 100 times a second, and two files are opened within 0.2 ms.
_TRIES = 50


class ColdHeld(NamedTuple):
    """What a cold file holds."""

    file: str
    bytes: int = 0
    """Of the file."""
    statements: int = 0
    identities: int = 0
    """Of which something is there."""
    lost: str = ''
    """Why it is not read; empty: it is."""


class ColdStorage(ArchiveLifecycle):
    """Reads from both files of a database, and moves between them."""

    @contextmanager
    def reading(self, reached: Reached, needed: Reached | None = None) -> Iterator[TieredReader]:
        """Read one consistent state of the main file, and of the cold file where a question reaches it.

        Parameters
        ----------
        reached : Reached
            Decides from the state of the main file.
        needed : Reached, optional
            Whether an answer without the cold file, where that is lost, would be wrong; none: it would.

        Raises
        ------
        StoreBusyError
            Moves went on whenever the two files were opened.
        StoreError
            The memory was opened without its cold file, and that is needed.
        """
        with ExitStack() as opened:
            yield self._halves(opened, reached, needed or reached)

    def _halves(self, opened: ExitStack, reached: Reached, needed: Reached) -> TieredReader:
        for _ in range(_TRIES):
            with ExitStack() as attempt:
                hot = attempt.enter_context(self._db.reading())
                mark = None if self.file is None else mark_of(hot)
                if self.lost is not None and mark is not None and needed(hot, mark):
                    raise self.lost
                if mark is None or self.lost is not None or not reached(hot, mark):
                    opened.push(attempt.pop_all())
                    return TieredReader(hot)
                assert self.file is not None
                cold = attempt.enter_context(self.file.reading())
                raw: Any = cold.connection.dbapi_connection
                # The main file first: what it says is cold is there, unless it came back in between.
                same = mark_in(raw, HOT) == mark and last_transaction(cold) == last_transaction(hot)
                if same and state_of(raw).returns <= mark.returns:
                    opened.push(attempt.pop_all())
                    return TieredReader(hot, cold)
        raise StoreBusyError(
            f'cold file {self.file}: moves go on whenever it is read; the call may be repeated'
        )

    def held(self) -> ColdHeld | None:
        """Return what the cold file holds; None: there never was anything in it."""
        with self.reading(everything, nothing) as halves:
            if mark_of(halves.hot) is None or self.file is None:
                return None
            where, lost = str(self.file.path), '' if self.lost is None else str(self.lost)
            if halves.cold is None:
                return ColdHeld(where, lost=lost)
            statements, identities = halves.cold.execute(_HELD).one()
            return ColdHeld(where, self.file.path.stat().st_size, statements, identities)

    def coolable(
        self,
        kinds: Collection[str] | None = None,
        scope: Mapping[str, str] | None = None,
        ended_before_ns: int | None = None,
        limit: int = 1000,
        *,
        after: int = 0,
    ) -> list[Coolable]:
        """Return identities of which something has ended and may become cold, in order of their number.

        Parameters
        ----------
        kinds, scope : optional
            Only these kinds, and identities of which everything was stated in this scope.
        ended_before_ns : int, optional
            Only what had ended at this world time, nanoseconds, or is not believed; None: now.
        limit : int
            Most identities.
        after : int
            Only identities with a greater number: the last one of the call before.
        """
        ended_ns = self._ended(ended_before_ns)
        with self._db.reading() as connection:
            return coolable(connection, ended_ns, limit, kinds=kinds, scope=scope, after=after)

    def leaving(self, identity_ids: Sequence[int]) -> dict[int, list[str]]:
        """Return the ids of what has ended and may become cold, by identity, in order of world time."""
        with self._db.reading() as connection:
            return leaving(connection, identity_ids, self._ended(None))

    def _ended(self, ended_before_ns: int | None) -> int:
        now_ns = self._now_ns()
        return now_ns if ended_before_ns is None else min(ended_before_ns, now_ns)

    def cool(
        self, identity_ids: Sequence[int], *, ended_before_ns: int | None = None, limit: int = 128
    ) -> Cooled:
        """Move one slice of what has ended of identities to the cold file.

        Parameters
        ----------
        identity_ids : sequence of int
            In this order; those of which nothing may be moved, or not any more, are passed over.
        ended_before_ns : int, optional
            As in `coolable`.
        limit : int
            Most statements, those of one version together; 128 hold the write lock for less than 5 ms on a
            small computer.

        Returns
        -------
        Cooled
            Nothing when there is nothing left, or somebody wrote to it meanwhile: the next call may move it.

        Raises
        ------
        UnsupportedError
            The memory has no file.
        StoreError
            The cold file is refused, or cannot be written; nothing has changed.
        """
        ended_ns = self._ended(ended_before_ns)
        file = self._movable(limit)
        with file.alone():
            with self._db.reading() as connection:
                raw = connection.connection.dbapi_connection
                chosen = cuts(raw, identity_ids, ended_ns, limit)
                before, epoch = mark_of(connection), get_state(connection, 'epoch', b'').decode()
                seq = last_transaction(connection)[0]
            if not chosen:
                return Cooled()
            mark = before or self._begun(file, epoch)
            with file.moving() as cold:
                self._settle(cold, mark)
                return self._moved(cold, chosen, before, mark, seq)

    def _moved(
        self,
        cold: sqlite3.Connection,
        chosen: Sequence[Cut],
        before: ArchiveState | None,
        mark: ArchiveState,
        seq: int,
    ) -> Cooled:
        moving = copied(cold, chosen, mark)
        self._announce()
        with self._db.writing(durable=False, references=False) as connection:
            now = mark_of(connection)
            # Whoever brought something back left a mark.
            if moving is not None and now == before and not self._written_to(connection, cold, moving, seq):
                put_mark(connection, delete_copied(connection, moving, mark))
                return moving.told
        if now == before:
            clear_leftovers(cold, mark, [cut.identity_id for cut in chosen])
        # Else more may be left than this: the next move looks at all.
        return Cooled()

    @staticmethod
    def _written_to(connection: sa.Connection, cold: sqlite3.Connection, moving: Mover, seq: int) -> bool:
        """Return whether a slice is not as it was compared any more, or not to be moved as it was chosen."""
        if last_transaction(connection)[0] != moving.seq and differs(cold):
            return True
        return overtaken(connection, moving, seq)

    def warm(self, identity_ids: Sequence[int], *, limit: int = 128) -> Cooled:
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

    def returning(self, connection: sa.Connection) -> Restorer:
        """Return what brings cold rows back into a transaction of the main file."""
        return Restorer(connection, self.file, self.lost)

    def settle(self, returning: Restorer) -> None:
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
        if self.lost is not None:
            raise self.lost
        if limit < 1:
            raise InvalidRequestError(f'limit: {limit} is below 1', field='limit')
        return self.file

    def _begun(self, file: ColdFile, epoch: str) -> ArchiveState:
        """Make the cold file of a memory that never had one; one that was made and not used is taken."""
        where = str(file.path) if self._config.archive_path else ''
        if not file.path.exists():
            mark = ArchiveState(uuid.uuid4().hex, path=where)
            file.make(mark, epoch)
            return mark
        state = file.look()
        if state.epoch != epoch:
            raise DamagedFileError(
                f'cold file {file.path} belongs to another memory; move it away', path=str(file.path)
            )
        return ArchiveState(state.id, path=where)


_HELD = sa.select(sa.func.count(), sa.func.count(assertion.c.identity_id.distinct()))
_SIZES = f"""
    SELECT a.identity_id, count(*),
           sum((SELECT count(*) FROM version AS v WHERE v.assertion_id = a.assertion_id)),
           sum({SIZE.format(row='a')})
    FROM json_each(?) AS wanted CROSS JOIN assertion AS a ON a.identity_id = wanted.value
    GROUP BY a.identity_id ORDER BY min(wanted.key)
"""  # noqa: S608 - our own words
