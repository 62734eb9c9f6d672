"""Bringing back: before a transaction changes a past that is cold, it takes that into the main file again.

The rows come back in the transaction itself, so it is all of it or nothing; they leave the cold file after
the commit. Until then they are in both, and count in the main file alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.errors import StoreError
from hylo_memory_ros.storage.archive.file import ColdFile
from hylo_memory_ros.storage.archive.reader import TieredReader
from hylo_memory_ros.storage.archive.schema import moved_tables, places_of
from hylo_memory_ros.storage.archive.state import ArchiveState, mark_of, put_mark
from hylo_memory_ros.storage.query import select as asking
from hylo_memory_ros.storage.query.select import QuerySpec

__all__ = ['Restorer']


class Restorer:
    """What one transaction brings back.

    Parameters
    ----------
    connection : Connection
        The main file, in the transaction.
    file : ColdFile or None
        The cold file; None: there can be none.
    lost : StoreError or None
        Why it is not read; whatever would have to come back is refused so.
    """

    def __init__(self, connection: sa.Connection, file: ColdFile | None, lost: StoreError | None) -> None:
        self._lost = lost
        self._raw: Any = connection.connection.dbapi_connection
        self._connection = connection
        self._file = file
        self.mark: ArchiveState | None = None if file is None else mark_of(connection)
        """What the main file knows of the cold one; None: nothing is cold."""
        self.identity_ids: set[int] = set()
        """Whose rows came back."""

    def __bool__(self) -> bool:
        """Whether anything is cold."""
        return (
            self.mark is not None and self._raw.execute('SELECT 1 FROM cooled LIMIT 1').fetchone() is not None
        )

    def reached(self, earliest_ns: Mapping[int, int]) -> None:
        """Bring back the identities whose cold past a change from a world time on can touch.

        A change at the cut itself can: it may join what is on both sides.
        """
        if self and earliest_ns:
            pairs = json.dumps(list(earliest_ns.items()))
            self.bring(row[0] for row in self._raw.execute(_REACHED, (pairs,)))

    def named(self, item_ids: Collection[str], *, given: bool) -> None:
        """Bring back the identities of which something cold has one of these ids.

        Parameters
        ----------
        given : bool
            Whether they were given. Of those that follow from what is said only a given one can be the same.
        """
        if item_ids and self.mark is not None and (given or self.mark.any_given):
            self._bring_found(_NAMED, json.dumps(sorted(item_ids)))

    def linked(self, links: Collection[str]) -> None:
        """Bring back the identities of which something cold has one of these links, as tags hold them."""
        self._bring_found(_LINKED, json.dumps(sorted(links)))

    def corrected(self, sequence: int) -> None:
        """Bring back the identities of which a correction moved or began something that is cold."""
        self._bring_found(_CORRECTED, sequence)

    def in_map(self, map_id: str) -> None:
        """Bring back the identities of which something cold was said in a map."""
        self._bring_found(_IN_MAP, map_id)

    def held(self, key: str, kind: str, at_ns: int) -> None:
        """Bring back the identities of a key whose past at a world time is cold."""
        if self:
            self.bring(row[0] for row in self._raw.execute(_HELD, (key, kind, at_ns)))

    def matching(self, asked: QuerySpec, among: Sequence[int] | None) -> dict[int, float | None]:
        """Return the version rows that match, in both files; those that were cold have come back."""
        if not self or self.mark is None or not self.mark.reaches(asked):
            return asking.matching_rows(self._connection, asked, among)
        with self._both() as cold:
            found = TieredReader(self._connection, cold).matching(asked, among)
            raw: Any = cold.connection.dbapi_connection
            owners = [row[0] for row in raw.execute(_OWNERS, (json.dumps(list(found)),))]
        self.bring(owners)
        return found

    def _bring_found(self, statement: str, value: Any) -> None:
        if self:
            with self._cold() as raw:
                found = [row[0] for row in raw.execute(statement, {'value': value})]
            self.bring(found)

    @contextmanager
    def _cold(self) -> Iterator[Any]:
        with self._both() as connection:
            raw: Any = connection.connection.dbapi_connection
            yield raw

    @contextmanager
    def _both(self) -> Iterator[sa.Connection]:
        assert self._file is not None
        if self._lost is not None:
            raise self._lost
        with self._file.reading() as connection:
            yield connection

    def bring(self, identity_ids: Iterable[int]) -> None:
        """Bring back the cold past of identities, of those that have one."""
        wanted = json.dumps(sorted(set(identity_ids)))
        cold = [row[0] for row in self._raw.execute(_ARE_COLD, (wanted,))]
        if not cold:
            return
        assert self.mark is not None
        if not self.identity_ids:
            self.mark = self.mark._replace(returns=self.mark.returns + 1)
            put_mark(self._connection, self.mark)
        self.identity_ids.update(cold)
        self._take(cold)

    def _take(self, identity_ids: Sequence[int]) -> None:
        numbers = json.dumps(list(identity_ids))
        with self._cold() as raw:
            assertions = [row[0] for row in raw.execute(_ASSERTIONS, (numbers,))]
            said = json.dumps(assertions)
            places = json.dumps([row[0] for row in raw.execute(_PLACES, {'said': said})])
            of = {'spatial': places, 'forgetting': numbers}
            for table in moved_tables:
                name, columns = table.name, table.columns.keys()
                selected = f'SELECT {", ".join(columns)} FROM {name} WHERE {_KEYS.get(name, "assertion_id")}'  # noqa: S608
                those = of.get(name, said)
                rows = raw.execute(f'{selected} IN (SELECT value FROM json_each(?))', (those,))  # noqa: S608
                inserted = f'INSERT OR IGNORE INTO {name} ({", ".join(columns)})'
                self._raw.executemany(f'{inserted} VALUES ({", ".join("?" * len(columns))})', rows)
        self._raw.execute(
            'DELETE FROM cooled WHERE identity_id IN (SELECT value FROM json_each(?))', (numbers,)
        )


_KEYS = {'spatial': 'spatial_id', 'forgetting': 'identity_id'}
_REACHED = """
    SELECT c.identity_id FROM json_each(?) AS pair
    JOIN cooled AS c ON c.identity_id = json_extract(pair.value, '$[0]')
    WHERE json_extract(pair.value, '$[1]') <= c.before_ns
"""
_HELD = """
    SELECT c.identity_id FROM identity AS i JOIN cooled AS c ON c.identity_id = i.identity_id
    WHERE i.key = ? AND i.kind = ? AND c.before_ns > ?
"""
_ARE_COLD = 'SELECT identity_id FROM cooled WHERE identity_id IN (SELECT value FROM json_each(?))'
_NAMED = 'SELECT DISTINCT identity_id FROM assertion WHERE id IN (SELECT value FROM json_each(:value))'
_LINKED = """
    SELECT DISTINCT a.identity_id FROM tag AS t JOIN assertion AS a ON a.assertion_id = t.assertion_id
    WHERE t.field = 'link' AND t.value IN (SELECT value FROM json_each(:value))
"""
_IN_MAP = 'SELECT DISTINCT identity_id FROM assertion WHERE map_id = :value'
_CORRECTED = """
    SELECT a.identity_id FROM corrected AS c JOIN assertion AS a ON a.assertion_id = c.assertion_id
    WHERE c.correction_seq = :value
    UNION SELECT identity_id FROM assertion WHERE sequence = :value
"""
_OWNERS = """
    SELECT DISTINCT identity_id FROM version WHERE version_row IN (SELECT value FROM json_each(?))
"""
_ASSERTIONS = 'SELECT assertion_id FROM assertion WHERE identity_id IN (SELECT value FROM json_each(?))'
_PLACES = places_of('', 'assertion_id IN (SELECT value FROM json_each(:said))')
