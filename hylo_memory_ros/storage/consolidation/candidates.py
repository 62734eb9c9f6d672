"""Candidates for consolidation, and the number and size of statements by kind.

Whatever adds a statement or takes it away (a write, a purge, a move to the archive and back) is counted
by the database itself, in the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.consolidation.planner import ConsolidationCandidate
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.storage.schema import (
    ROW_BYTES,
    SIZE,
    STATEMENT_BYTES,
    assertion,
    consolidated,
    embedding,
    held,
    identity,
    version,
)
from hylo_memory_ros.storage.statements.mapper import detail_of, paired, to_json


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


IN_SCOPE = """
    (:map_id IS NULL OR {row}.map_id = :map_id) AND NOT EXISTS (
        SELECT 1 FROM json_each(:pairs) AS pair WHERE NOT EXISTS (
            SELECT 1 FROM tag AS t
            WHERE t.field = 'scope' AND t.value = pair.value AND t.assertion_id = {row}.assertion_id
        )
    )
"""
"""SQL: whether a row of `assertion` was said in the scope that `scope_values` gives."""

ANY_SCOPE = "(:map_id IS NULL AND :pairs = '[]')"
"""SQL: whether `IN_SCOPE` is so for every row."""


def scope_values(scope: Mapping[str, str] | None) -> dict[str, str | None]:
    """Return what `IN_SCOPE` asks for; None: any scope."""
    pairs = [paired(*pair) for pair in sorted((scope or {}).items()) if pair[0] != 'map_id']
    return {'map_id': (scope or {}).get('map_id'), 'pairs': json.dumps(pairs)}


def consolidable(
    connection: sa.Connection,
    before_ns: int,
    limit: int,
    *,
    now_ns: int,
    scope: Mapping[str, str] | None,
    after: tuple[int, int],
    open_episode: str = '',
) -> list[ConsolidationCandidate]:
    """Return happenings that hold now, oldest first.

    What has a key is looked up by it and superseded through it: it stays as it is. So does what belongs
    to an episode that is still open.

    Parameters
    ----------
    before_ns : int
        Only those that have been true from before this world time, nanoseconds.
    limit : int
        Most of them.
    now_ns : int
        Summaries are taken up to this world time, nanoseconds.
    scope : mapping of str to str, optional
        Only those of this scope.
    after : tuple of int
        Only those behind this (valid_from, version row).
    open_episode : str
        The episode that is open; empty: none is.
    """
    raw: Any = connection.connection.dbapi_connection
    bound = {
        'before': before_ns, 'now': now_ns, 'limit': limit, 'from': after[0], 'row': after[1],
        'open': open_episode, **scope_values(scope),
    }  # fmt: skip
    return [ConsolidationCandidate(*row) for row in raw.execute(_CONSOLIDABLE, bound)]


def amount_at_hand(
    connection: sa.Connection,
    kinds: Collection[str],
    scope: Mapping[str, str] | None,
    *,
    holding: bool = False,
) -> KindSize:
    """Return how much of some kinds the main file holds, perhaps only of one scope.

    Parameters
    ----------
    holding : bool
        Count only identities of which something still holds: without an archive, what has ended stays,
        and no budget could be met otherwise.
    """
    if not scope and not holding:
        held = SizeRepository(connection).held_by_kind()
        those = [held[kind] for kind in kinds if kind in held]
        return KindSize(sum(one.items for one in those), sum(one.bytes for one in those))
    raw: Any = connection.connection.dbapi_connection
    bound = {'kinds': json.dumps(sorted(kinds)), **scope_values(scope)}
    statement = f'{_AMOUNT} AND {_HOLDING}' if holding else _AMOUNT
    return KindSize(*raw.execute(statement, bound).fetchone())


def as_consolidable(item: MemoryItem, number: int, episode: str, level: int) -> ConsolidationCandidate:
    """Return a summary that is not stored as `consolidable` would if it were.

    Parameters
    ----------
    number : int
        Stands for its rows: below 0, and less the later it would be stored.
    """
    span, position = item.event_time, (0.0, 0.0, 0.0) if item.pose is None else item.pose.position
    assert span is not None
    map_id = item.scope.get('map_id', '')
    return ConsolidationCandidate(
        number, number, number, span.start_ns, span.start_ns, span.clock, item.label, item.content, map_id,
        None if len(item.scope) == bool(map_id) else to_json(item.scope),
        to_json([list(names) or None for names in (item.entities, item.object_ids)]),
        True, None if item.pose is None else item.pose.frame_id, *position, episode, item.source, level,
        1, size_of(item),
    )  # fmt: skip


def size_of(item: MemoryItem) -> int:
    """Return how many bytes a statement takes with its vectors, about, as `KindSize` counts them."""
    detail = detail_of(item, item.scope.get('map_id', ''))
    vectors = sum(4 * len(vector) for vector in item.embeddings.values())
    return ROW_BYTES + len(item.content.encode()) + len((detail or '').encode()) + vectors


_CONSOLIDABLE = f"""
    SELECT v.version_row, v.identity_id, a.assertion_id, v.valid_from_ns, a.event_start_ns, a.event_clock,
        a.label, a.content, a.map_id,
        json_extract(a.detail, '$.scope'),
        json_extract(a.detail, '$.entities', '$.object_ids'),
        coalesce(json_type(a.detail, '$.payload'), '') != '',
        s.frame_id, s.x, s.y, s.z, x.episode, a.source,
        CASE WHEN x.op != 'consolidate' THEN 0
            ELSE coalesce(json_extract(a.detail, '$.payload.consolidated.level'), 1) END,
        (SELECT count(*) FROM assertion AS b WHERE b.identity_id = v.identity_id),
        (SELECT sum({SIZE.format(row='b')}) FROM assertion AS b WHERE b.identity_id = v.identity_id)
    FROM version AS v INDEXED BY version_recent
    JOIN assertion AS a ON a.assertion_id = v.assertion_id
    JOIN identity AS i ON i.identity_id = v.identity_id
    JOIN txn AS x ON x.sequence = a.sequence
    LEFT JOIN spatial AS s ON s.spatial_id = v.spatial_id
    WHERE v.kind = 'episodic' AND v.to_seq IS NULL AND v.valid_to_ns IS NULL
    AND i.key IS NULL AND (:open = '' OR x.episode != :open)
    AND v.valid_from_ns <= :now AND (v.valid_from_ns < :before OR x.op = 'consolidate')
    AND (v.valid_from_ns, v.version_row) > (:from, :row) AND {IN_SCOPE.format(row='a')}
    ORDER BY v.valid_from_ns, v.version_row LIMIT :limit
"""  # noqa: S608 - our own words
_AMOUNT = f"""
    SELECT count(*), coalesce(sum({SIZE.format(row='a')}), 0)
    FROM assertion AS a JOIN identity AS i ON i.identity_id = a.identity_id
    WHERE i.kind IN (SELECT value FROM json_each(:kinds)) AND {IN_SCOPE.format(row='a')}
"""  # noqa: S608 - our own words
_HOLDING = """
    EXISTS (
        SELECT 1 FROM version AS v
        WHERE v.identity_id = a.identity_id AND v.to_seq IS NULL AND v.valid_to_ns IS NULL
    )
"""
