"""Restorer: brings archived rows back before a transaction changes them.

The rows come back in the transaction itself, so it is all or nothing; they leave the archive file after the
commit. Until then they are in both files, and count in the main file alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.errors import StoreError
from hylo_memory_ros.storage.archive.archive_file import ArchiveFile, moved_tables, places_of
from hylo_memory_ros.storage.archive.state import ArchiveState, load_state, save_state
from hylo_memory_ros.storage.changeset import ArchivedRows
from hylo_memory_ros.storage.query.select import OpenFiles, matching_rows
from hylo_memory_ros.storage.query.spec import QuerySpec


class Restorer(ArchivedRows):
    """Archived rows of a memory that has an archive file.

    Parameters
    ----------
    connection : Connection
        The main file, in the transaction.
    file : ArchiveFile or None
        The archive file; None: the memory has no file.
    lost : StoreError or None
        Why it is not read: raised when something would have to come back.
    """

    def __init__(self, connection: sa.Connection, file: ArchiveFile | None, lost: StoreError | None) -> None:
        super().__init__(connection, matching_rows)
        self._lost = lost
        self._raw: Any = connection.connection.dbapi_connection
        self._file = file
        self.state: ArchiveState | None = None if file is None else load_state(connection)
        """State of the archive; None: there never was one."""
        self.identity_ids: set[int] = set()
        """Identities whose rows came back."""

    def __bool__(self) -> bool:
        """Return whether anything is archived."""
        return (
            self.state is not None
            and self._raw.execute('SELECT 1 FROM archived LIMIT 1').fetchone() is not None
        )

    def restore_from(self, earliest_ns: Mapping[int, int]) -> None:
        """Bring back the identities whose archived past a change from a world time on can touch.

        A change at the cut itself can: it may join what is on both sides.
        """
        if self and earliest_ns:
            pairs = json.dumps(list(earliest_ns.items()))
            self.restore(row[0] for row in self._raw.execute(_REACHED, (pairs,)))

    def restore_ids(self, item_ids: Collection[str], *, given: bool) -> None:
        """Bring back the identities of which an archived statement has one of these ids.

        Parameters
        ----------
        given : bool
            Whether the ids were given. A computed id can only equal one that was given.
        """
        if item_ids and self.state is not None and (given or self.state.any_given):
            self._restore_found(_NAMED, json.dumps(sorted(item_ids)))

    def restore_links(self, links: Collection[str]) -> None:
        """Bring back the identities of which an archived statement has one of these links, as in `tag`."""
        self._restore_found(_LINKED, json.dumps(sorted(links)))

    def restore_corrected(self, sequence: int) -> None:
        """Bring back the identities of which a correction moved or began archived rows."""
        self._restore_found(_CORRECTED, sequence)

    def restore_map(self, map_id: str) -> None:
        """Bring back the identities with an archived statement in a map."""
        self._restore_found(_IN_MAP, map_id)

    def restore_key(self, key: str, kind: str, at_ns: int) -> None:
        """Bring back the identities of a key whose past at a world time is archived."""
        if self:
            self.restore(row[0] for row in self._raw.execute(_HELD, (key, kind, at_ns)))

    def match(self, asked: QuerySpec, among: Sequence[int] | None) -> dict[int, float | None]:
        """Return the version rows that match a query; archived ones have come back."""
        if not self or self.state is None or not self.state.reaches(asked):
            return super().match(asked, among)
        with self._both() as archive:
            found: dict[int, float | None] = {}
            for connection, spec in OpenFiles(self._connection, archive).specs(asked):
                found |= matching_rows(connection, spec, among)
            raw: Any = archive.connection.dbapi_connection
            owners = [row[0] for row in raw.execute(_OWNERS, (json.dumps(list(found)),))]
        self.restore(owners)
        return found

    def _restore_found(self, statement: str, value: Any) -> None:
        if self:
            with self._raw_archive() as raw:
                found = [row[0] for row in raw.execute(statement, {'value': value})]
            self.restore(found)

    @contextmanager
    def _raw_archive(self) -> Iterator[Any]:
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

    def restore(self, identity_ids: Iterable[int]) -> None:
        """Bring back the archived past of those identities that have one."""
        wanted = json.dumps(sorted(set(identity_ids)))
        found = [row[0] for row in self._raw.execute(_ARE_ARCHIVED, (wanted,))]
        if not found:
            return
        assert self.state is not None
        if not self.identity_ids:
            self.state = self.state._replace(returns=self.state.returns + 1)
            save_state(self._connection, self.state)
        self.identity_ids.update(found)
        self._copy_back(found)

    def _copy_back(self, identity_ids: Sequence[int]) -> None:
        numbers = json.dumps(list(identity_ids))
        with self._raw_archive() as raw:
            assertions = [row[0] for row in raw.execute(_ASSERTIONS, (numbers,))]
            rows_of = json.dumps(assertions)
            places = json.dumps([row[0] for row in raw.execute(_PLACES, {'rows': rows_of})])
            of = {'spatial': places, 'forgetting': numbers}
            for table in moved_tables:
                name, columns = table.name, table.columns.keys()
                selected = f'SELECT {", ".join(columns)} FROM {name} WHERE {_KEYS.get(name, "assertion_id")}'  # noqa: S608
                wanted = of.get(name, rows_of)
                rows = raw.execute(f'{selected} IN (SELECT value FROM json_each(?))', (wanted,))  # noqa: S608
                inserted = f'INSERT OR IGNORE INTO {name} ({", ".join(columns)})'
                self._raw.executemany(f'{inserted} VALUES ({", ".join("?" * len(columns))})', rows)
        self._raw.execute(
            'DELETE FROM archived WHERE identity_id IN (SELECT value FROM json_each(?))', (numbers,)
        )


_KEYS = {'spatial': 'spatial_id', 'forgetting': 'identity_id'}
_REACHED = """
    SELECT c.identity_id FROM json_each(?) AS pair
    JOIN archived AS c ON c.identity_id = json_extract(pair.value, '$[0]')
    WHERE json_extract(pair.value, '$[1]') <= c.before_ns
"""
_HELD = """
    SELECT c.identity_id FROM identity AS i JOIN archived AS c ON c.identity_id = i.identity_id
    WHERE i.key = ? AND i.kind = ? AND c.before_ns > ?
"""
_ARE_ARCHIVED = 'SELECT identity_id FROM archived WHERE identity_id IN (SELECT value FROM json_each(?))'
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
_PLACES = places_of('', 'assertion_id IN (SELECT value FROM json_each(:rows))')
