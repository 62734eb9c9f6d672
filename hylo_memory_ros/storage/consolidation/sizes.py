"""Number and size of statements by kind, kept up to date row by row.

Whatever adds a statement or takes it away (a write, a purge, a move to the archive and back) is counted
by the database itself, in the same transaction.
"""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.storage.schema import (
    STATEMENT_BYTES,
    assertion,
    consolidated,
    embedding,
    held,
    identity,
    version,
)

__all__ = [
    'KindSize',
    'SizeRepository',
    'miscounted',
]


class KindSize(NamedTuple):
    """Amount of a kind, of a scope, or of working memory."""

    items: int
    """Accepted statements, duplicates too."""
    bytes: int
    """What they take with their vectors, about."""


def miscounted(connection: sa.Connection) -> list[str]:
    """Count everything once more, and return each difference in a sentence."""
    vectors = (
        sa.select(embedding.c.assertion_id, sa.func.sum(sa.func.length(embedding.c.vector)).label('bytes'))
        .group_by(embedding.c.assertion_id)
        .subquery()
    )
    size: sa.ColumnElement[int] = sa.literal_column(
        STATEMENT_BYTES.format(row='assertion')
    ) + sa.func.coalesce(vectors.c.bytes, 0)
    counted = (
        sa.select(identity.c.kind, sa.func.count(), sa.func.sum(size))
        .select_from(assertion)
        .join(identity, identity.c.identity_id == assertion.c.identity_id)
        .outerjoin(vectors, vectors.c.assertion_id == assertion.c.assertion_id)
        .group_by(identity.c.kind)
    )
    true = {kind: KindSize(items, total) for kind, items, total in connection.execute(counted)}
    told = SizeRepository(connection).held_by_kind()
    return [
        f'held: {kind} is counted as {tuple(told.get(kind, (0, 0)))}, and is {tuple(true.get(kind, (0, 0)))}'
        for kind in sorted(true.keys() | told.keys())
        if true.get(kind) != told.get(kind)
    ]


_overdue = sa.select(sa.func.count()).where(
    version.c.kind == sa.bindparam('of_kind'),
    version.c.to_seq.is_(None),
    version.c.valid_from_ns < sa.bindparam('before_ns'),
    version.c.valid_to_ns.is_(None),
    version.c.identity_id.not_in(sa.select(consolidated.c.summary)),
)


class SizeRepository:
    """Counts and sizes of what the main file holds, by kind."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def held_by_kind(self) -> dict[str, KindSize]:
        """Return how much of each kind the main file holds; kinds of which there is nothing are left out."""
        rows = self._connection.execute(
            sa.select(held.c.kind, held.c.statements, held.c.bytes).order_by(held.c.kind)
        )
        return {kind: KindSize(items, size) for kind, items, size in rows if items}

    def overdue(self, kind: str, before_ns: int) -> int:
        """Return how many open statements of a kind are from before a world time, summaries aside.

        Counted, summaries would be summarized again each time for their age alone.
        """
        found: int = self._connection.execute(
            _overdue, {'of_kind': kind, 'before_ns': before_ns}
        ).scalar_one()
        return found
