"""What the hits of an answer are told of how far they have helped.

Threads: any. Where nothing is counted of anything, only the first answer after a change of side
tables looks.
"""

from __future__ import annotations

from collections.abc import Sequence

from hylo_memory_ros.model import Helpfulness
from hylo_memory_ros.store import feedback as _feedback  # noqa: F401 - a purge asks every table
from hylo_memory_ros.store.helpfulness import any_helpfulness, helpfulness_of
from hylo_memory_ros.store.rows import ItemRow
from hylo_memory_ros.store.transacting import TransactingStore

__all__ = ['JudgedStore']


class JudgedStore(TransactingStore):
    """What a store over SQLite tells of helpfulness; see `port.Store`."""

    _blank_at = -1

    def helpfulness(self, rows: Sequence[ItemRow]) -> dict[int, Helpfulness]:
        """Return what is counted of item rows, by version row; of what nothing is, none."""
        side_writes = self._side_writes
        if not rows or self._blank_at == side_writes:
            return {}
        with self._db.reading() as connection:
            if any_helpfulness(connection):
                return helpfulness_of(connection, rows)
        if self._is_only_writer:
            self._blank_at = side_writes
        return {}
