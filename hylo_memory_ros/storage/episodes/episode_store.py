"""What a store does with episodes: it begins and ends them, and tells in which one something was said.

Threads: any. Where there never was an episode, only the first answer looks for one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import sqlalchemy as sa

from hylo_memory_ros.model import Episode, MemoryItem, WriteResult
from hylo_memory_ros.storage.archive.tiered_reader import everything, nothing
from hylo_memory_ros.storage.changeset import Changeset, CommitResult
from hylo_memory_ros.storage.episodes.facts import named_in
from hylo_memory_ros.storage.episodes.repository import any_episode, begin_episode, end_episode, said_in
from hylo_memory_ros.storage.statements.mapper import ItemRow
from hylo_memory_ros.storage.statements.writer import resolved, write_items
from hylo_memory_ros.storage.transacting import TransactingStore

__all__ = ['EpisodeStore']


_VERSION_ROW, _ASSERTION_ID = 0, 20
_ALL = 2**63 - 1
_ARCHIVED_OF_EPISODE = sa.text("""
    SELECT DISTINCT identity_id FROM assertion
    WHERE id IN (SELECT value FROM json_each(:names))
    OR sequence IN (SELECT sequence FROM txn WHERE episode != '' AND episode = :episode)
""")


class EpisodeStore(TransactingStore):
    """What a store over SQLite does with episodes; see `port.Store`."""

    _times_begun = 0
    _none_at = -1

    def begin_episode(
        self, episode_id: str, *, scope: Mapping[str, str], note: str, actor: str
    ) -> tuple[Episode, CommitResult | None]:
        """Begin an episode: every transaction from here on carries it."""
        self._look_for_episodes()
        return self._transact(
            'begin_episode', actor, lambda txn: begin_episode(txn, episode_id, scope=scope, note=note)
        )

    def end_episode(
        self,
        begun: Episode,
        *,
        ended_ns: int,
        outcome: str,
        note: str,
        actor: str,
        items: Sequence[MemoryItem],
        within: Callable[[sa.Connection, Episode], None],
    ) -> tuple[tuple[Episode, WriteResult], CommitResult | None]:
        """End the open episode and store what is to be remembered of it.

        It is bounded and stamped by the service itself: limits for callers could only keep an episode open.
        """

        def act(txn: Changeset) -> tuple[Episode, WriteResult]:
            ready = [resolved(item, txn.recorded_at_ns) for item in items]
            written = write_items(txn, ready, self._config.identity_scope)
            ended = end_episode(txn, begun, ended_ns=ended_ns, outcome=outcome, note=note)
            within(txn.connection, ended)
            return ended, written

        return self._transact('end_episode', actor, act)

    def episodes_said(self, rows: Sequence[ItemRow]) -> dict[int, str]:
        """Return the episode in which each of some item rows was said, by version row; without one, none."""
        times_begun = self._times_begun
        if not rows or self._none_at == times_begun:
            return {}
        wanted = {row[_ASSERTION_ID] for row in rows}
        with self._db.reading() as connection:
            found = said_in(connection, wanted) if any_episode(connection) else None
        if found is None:
            if self._is_only_writer:
                self._none_at = times_begun
            return {}
        if len(found) < len(wanted):
            with self._archive.reading(everything, nothing) as reader:
                for one in reader.all:
                    found |= said_in(one, wanted)
        said = ((row[_VERSION_ROW], found.get(row[_ASSERTION_ID])) for row in rows)
        return {version_row: name for version_row, name in said if name}

    def recall_episode(self, episode_id: str) -> None:
        """Bring back from the archive what was said in an episode, and what its feed and verdicts name."""
        with self._archive.reading(everything, nothing) as reader:
            if reader.archive is None:
                return
            names = json.dumps(sorted(named_in(reader.live, episode_id)))
            found = reader.archive.execute(
                _ARCHIVED_OF_EPISODE, {'episode': episode_id, 'names': names}
            ).scalars()
            identity_ids = list(found)
        if identity_ids:
            self._archive.restore(identity_ids, _ALL)

    def _look_for_episodes(self) -> None:
        """Another episode begins, or another file is in the place of the one before."""
        self._times_begun += 1
