"""What is older than it may be at hand: events that still hold, other than those that stand for others."""

from __future__ import annotations

import sqlalchemy as sa

from hylo_memory_ros.store.consolidation import consolidated
from hylo_memory_ros.store.schema import version

__all__ = ['overdue']


def overdue(connection: sa.Connection, kind: str, before_ns: int) -> int:
    """Return how many open statements of a kind are from before a world time, summaries aside.

    Those stand for what was overdue: counted, they would be summarised again each time for their age alone.
    """
    found: int = connection.execute(_overdue, {'of_kind': kind, 'before_ns': before_ns}).scalar_one()
    return found


_overdue = sa.select(sa.func.count()).where(
    version.c.kind == sa.bindparam('of_kind'),
    version.c.to_seq.is_(None),
    version.c.valid_from_ns < sa.bindparam('before_ns'),
    version.c.valid_to_ns.is_(None),
    version.c.identity_id.not_in(sa.select(consolidated.c.summary)),
)
