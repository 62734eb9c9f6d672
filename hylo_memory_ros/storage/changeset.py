"""Changeset of a numbered transaction: added and ended versions, hashes, counters, feed entry."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.identity import EMPTY_STATE, update_state
from hylo_memory_ros.model import Change
from hylo_memory_ros.storage.engine.state import get_state, put_state
from hylo_memory_ros.storage.schema import (
    FULL_TEXT,
    SUMMARY_TEXT,
    assertion,
    change,
    episode,
    identity,
    spatial,
    txn,
    version,
)

Match = Callable[[sa.Connection, Any, Sequence[int] | None], dict[int, float | None]]
"""Finds the version rows of one file that match a `QuerySpec`."""


class ArchivedRows:
    """Archived rows that a transaction brings back before it changes them; here nothing was ever archived.

    Parameters
    ----------
    connection : Connection
        The main file, in the transaction.
    match : Match
        Answers `match` from the main file alone.
    """

    state: Any = None
    """Highest row numbers ``spatial``, ``assertion`` and ``version`` that the archive has taken; or None."""

    def __init__(self, connection: sa.Connection, match: Match) -> None:
        self._connection = connection
        self._match = match

    def __bool__(self) -> bool:
        """Return True if anything is archived now."""
        return False

    def restore(self, identity_ids: Iterable[int]) -> None:
        """Bring back the archived past of those identities that have one."""

    def restore_from(self, earliest_ns: Mapping[int, int]) -> None:
        """Bring back the identities whose archived past a change from a world time on can touch."""

    def restore_ids(self, item_ids: Collection[str], *, given: bool) -> None:
        """Bring back the identities of which an archived statement has one of these ids.

        Parameters
        ----------
        given : bool
            Whether the ids were given. A computed id can only equal one that was given.
        """

    def restore_links(self, links: Collection[str]) -> None:
        """Bring back the identities of which an archived statement has one of these links, as in `tag`."""

    def restore_corrected(self, sequence: int) -> None:
        """Bring back the identities of which a correction moved or began archived rows."""

    def restore_map(self, map_id: str) -> None:
        """Bring back the identities with an archived statement in a map."""

    def restore_key(self, key: str, kind: str, at_ns: int) -> None:
        """Bring back the identities of a key whose past at a world time is archived."""

    def match(self, asked: Any, among: Sequence[int] | None) -> dict[int, float | None]:
        """Return the version rows that match a `QuerySpec`; archived ones have come back."""
        return self._match(self._connection, asked, among)


class VersionRow(NamedTuple):
    """One believed version, as the spatial mirror needs it and as `version` holds it."""

    version_row: int
    identity_id: int
    assertion_id: int
    spatial_id: int | None
    kind: str
    valid_from_ns: int
    valid_to_ns: int | None
    ended_by: str | None
    from_seq: int
    to_seq: None = None


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Changes that one transaction committed; the indexes follow from it."""

    change: Change
    """What the feed tells."""
    added: Sequence[VersionRow] = ()
    """Versions believed from now on."""
    ended: Sequence[int] = ()
    """Version rows believed no longer."""
    places: Mapping[int, tuple[str, str, float, float, float]] = field(default_factory=dict)
    """Map, frame, x, y, z of the spatial ids in `added`."""
    removed: Sequence[int] = ()
    """Version rows that are gone for good (purge)."""
    unsaid: Sequence[int] = ()
    """Assertions that are gone for good (purge)."""
    vectors: Sequence[tuple[int, str, str, bytes, bytes]] = ()
    """Assertion, item id, space, SHA-256 and float32 bytes of the vectors that came with it."""
    skills: Sequence[tuple[int, Mapping[str, Any]]] = ()
    """Assertion and payload of the skills that came with it."""


class Changeset:
    """A transaction being made, under the write lock.

    Parameters
    ----------
    connection : sqlalchemy.Connection
        In its transaction.
    config : MemoryConfig
        Identity scope and limits.
    clock_ns : int
        The service clock now; time never runs backwards in the file.
    op, actor : str
        What is done, and for whom.
    archive : ArchivedRows
        Brings back what is archived before it is changed.
    """

    def __init__(
        self,
        connection: sa.Connection,
        config: MemoryConfig,
        clock_ns: int,
        op: str,
        actor: str,
        archive: ArchivedRows,
    ) -> None:
        self.connection = connection
        self.config = config
        self.archive = archive
        self.op = op
        self.actor = actor
        row = connection.execute(_select_counters).one()
        last_ns: int = connection.execute(_select_last_time).scalar() or 0
        self.sequence: int = row[0] + 1
        self.recorded_at_ns: int = max(clock_ns, last_ns)
        self._last: dict[str, int] = dict(
            zip(('identity', 'spatial', 'assertion', 'version'), row[1:-1], strict=True)
        )
        if archive.state is not None:
            # The numbers of what was moved away are not given again.
            for table in ('spatial', 'assertion', 'version'):
                self._last[table] = max(self._last[table], getattr(archive.state, table))
        self.episode: str = row[-1] or ''
        self.discarded = False
        self.text_index = SUMMARY_TEXT if op == 'consolidate' else FULL_TEXT
        self.reason = ''
        self.added: list[VersionRow] = []
        self.ended: list[int] = []
        self.removed: list[int] = []
        self.places: dict[int, tuple[str, str, float, float, float]] = {}
        self.unsaid: list[int] = []
        self.skills: list[tuple[int, Mapping[str, Any]]] = []
        self.vectors: list[tuple[int, str, str, bytes, bytes]] = []
        self.ids: list[str] = []
        self.keys: list[str] = []
        self.outcomes: list[str] = []
        self._counts: dict[str, int] = {}
        self._elements: dict[str, list[bytes]] = {'open+': [], 'open-': [], 'line+': [], 'line-': []}
        connection.execute(
            txn.insert(),
            {
                'sequence': self.sequence,
                'recorded_at_ns': self.recorded_at_ns,
                'op': op,
                'actor': actor,
                'episode': self.episode,
            },
        )

    def next_id(self, table: str) -> int:
        """Return a fresh row number; the write lock makes it ours."""
        self._last[table] += 1
        return self._last[table]

    def count_version(
        self, kind: str, element: bytes, span: tuple[int | None, str | None], sign: int
    ) -> None:
        """Take a believed version into the hashes and counters (sign 1), or out of them (-1)."""
        valid_to_ns, ended_by = span
        mark = '+' if sign > 0 else '-'
        end = b'' if valid_to_ns is None else b'%d%s' % (valid_to_ns, (ended_by or '').encode())
        self._elements['line' + mark].append(element + end)
        if valid_to_ns is None:
            self._elements['open' + mark].append(element)
            self._counts[kind] = self._counts.get(kind, 0) + sign

    def note(self, item_id: str, key: str | None, outcome: str) -> None:
        """Tell the feed what happened to one id."""
        self.ids.append(item_id)
        self.keys.append(key or '')
        self.outcomes.append(outcome)

    def finish(self) -> CommitResult:
        """Write what is kept once for each transaction; call it last, before the commit."""
        self.connection.execute(
            change.insert(),
            {
                'sequence': self.sequence,
                'ids': json.dumps(self.ids, ensure_ascii=False),
                'keys': json.dumps(self.keys, ensure_ascii=False),
                'outcomes': json.dumps(self.outcomes),
            },
        )
        self._finish_hash('set_hash', 'open')
        self._finish_hash('timeline_hash', 'line')
        if any(self._counts.values()):
            counts = json.loads(get_state(self.connection, 'counts', b'{}'))
            for kind, by in self._counts.items():
                counts[kind] = counts.get(kind, 0) + by
            put_state(self.connection, 'counts', json.dumps(counts, sort_keys=True).encode())
        told = Change(
            self.sequence,
            self.recorded_at_ns,
            self.op,
            tuple(self.ids),
            tuple(self.keys),
            tuple(self.outcomes),
            self.actor,
            self.episode,
            {'reason': self.reason} if self.reason else {},
        )
        return CommitResult(
            told, self.added, self.ended, self.places, self.removed, self.unsaid, self.vectors, self.skills
        )

    def _finish_hash(self, name: str, elements: str) -> None:
        added, removed = self._elements[elements + '+'], self._elements[elements + '-']
        if added or removed:
            before = get_state(self.connection, name, EMPTY_STATE)
            put_state(self.connection, name, update_state(before, added, removed))


_select_counters = sa.select(
    *(
        sa.select(sa.func.coalesce(sa.func.max(column), 0)).scalar_subquery()
        for column in (
            txn.c.sequence,
            identity.c.identity_id,
            spatial.c.spatial_id,
            assertion.c.assertion_id,
            version.c.version_row,
        )
    ),
    # Only the newest can be open; it is found by an index.
    sa.select(episode.c.id)
    .where(
        episode.c.begin_seq == sa.select(sa.func.max(episode.c.begin_seq)).scalar_subquery(),
        episode.c.end_seq.is_(None),
    )
    .scalar_subquery(),
)
_select_last_time = sa.select(txn.c.recorded_at_ns).order_by(txn.c.sequence.desc()).limit(1)
