"""History of versions, and the feed of transactions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.domain.timeline import FORGET
from hylo_memory_ros.model import Change, Changes, Version
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.query.select import embeddings_of
from hylo_memory_ros.storage.schema import (
    assertion,
    audit,
    change,
    corrected,
    correction,
    forgetting,
    identity,
    txn,
    version,
)
from hylo_memory_ros.storage.statements.mapper import ITEM_COLUMNS, item_of, item_source, said_then

Place = tuple[int, int, int]
"""From which sequence, from which world time, and the version row."""

_began = txn.alias('began')
_ended = txn.alias('ended')
_said = txn.alias('said')


def identities_of(connection: sa.Connection, item_id: str) -> set[int]:
    """Return the identities of which a statement has an id."""
    named = sa.select(assertion.c.identity_id).where(assertion.c.id == item_id)
    return set(connection.scalars(named))


def versions_of(
    connection: sa.Connection,
    *,
    item_id: str | None = None,
    identity_ids: Collection[int] = (),
    kind: str | None = None,
    key: str | None = None,
    map_id: str | None = None,
    limit: int,
    offset: int = 0,
) -> list[tuple[Place, Version]]:
    """Return versions of identities, believed or not, each with its place in the order.

    Parameters
    ----------
    item_id : str, optional
        Marks its versions; their identities are `identity_ids`.
    kind, key, map_id : str, optional
        Of the identities.
    """
    where: Sequence[sa.ColumnElement[bool]] = [
        condition
        for value, condition in (
            (item_id, assertion.c.identity_id.in_(identity_ids)),
            (kind, version.c.kind == kind),
            (key, identity.c.key == key),
            (map_id, assertion.c.map_id == map_id),
        )
        if value is not None
    ]
    statement = (
        sa.select(
            *ITEM_COLUMNS,
            _began.c.recorded_at_ns.label('recorded_at_ns'),
            _began.c.op.label('cause'),
            _ended.c.recorded_at_ns.label('superseded_at_ns'),
            _ended.c.op.label('superseded_cause'),
            correction.c.correction_id,
            _said.c.episode.label('episode'),
        )
        .select_from(
            item_source.join(_began, _began.c.sequence == version.c.from_seq)
            .join(_said, _said.c.sequence == assertion.c.sequence)
            .outerjoin(_ended, _ended.c.sequence == version.c.to_seq)
            .outerjoin(corrected, said_then)
            .outerjoin(correction, correction.c.sequence == corrected.c.correction_seq)
        )
        .where(*where)
        .order_by(version.c.from_seq, version.c.valid_from_ns, version.c.version_row)
        .limit(limit)
        .offset(offset)
    )
    rows = connection.execute(statement).all()
    width = len(ITEM_COLUMNS)
    vectors = embeddings_of(connection, [row[:width] for row in rows])
    return [
        ((row.from_seq, row.valid_from_ns, row.version_row), _version_of(row, vectors, item_id))
        for row in rows
    ]


def _version_of(
    row: Any, vectors: Mapping[int, dict[str, tuple[float, ...]]], item_id: str | None
) -> Version:
    return Version(
        item=item_of(row[: len(ITEM_COLUMNS)], vectors.get(row.version_row)),
        valid_from_ns=row.valid_from_ns,
        valid_to_ns=row.valid_to_ns,
        forgotten=row.ended_by == FORGET,
        from_seq=row.from_seq,
        to_seq=row.to_seq,
        recorded_at_ns=row.recorded_at_ns,
        superseded_at_ns=row.superseded_at_ns,
        cause=row.cause,
        superseded_cause=row.superseded_cause,
        correction_id=row.correction_id or '',
        episode=row.episode,
        is_asked=row.id == item_id,
        ended_by=row.ended_by or '',
    )


def ends_of(connection: sa.Connection, version_rows: Collection[int]) -> dict[int, int]:
    """Return the transaction that ended each version that perception, a report or a move ended."""
    return {
        row.version_row: row.sequence
        for part in chunks(version_rows)
        for row in connection.execute(_ends, {'rows': part})
    }


def reasons_of(connection: sa.Connection, sequences: Collection[int]) -> dict[tuple[int, str], str]:
    """Return the reasons of ends by transaction and key, as far as a purge left them."""
    reasons = {}
    for part in chunks(sequences):
        for sequence, reason, query in connection.execute(_reasons, {'sequences': part}):
            for key, _, _, own, *_ in json.loads(query or '{}').get('end', ()):
                reasons[sequence, key] = own or reason
    return reasons


def last_transaction(connection: sa.Connection) -> tuple[int, int]:
    """Return sequence and service clock of the newest transaction; (0, 0) of an empty store."""
    row = connection.execute(_last).one_or_none()
    return (0, 0) if row is None else (row.sequence, row.recorded_at_ns)


def sequence_at(connection: sa.Connection, known_at_ns: int) -> int:
    """Return the last sequence whose service clock is not after a time; 0: none is."""
    found: int | None = connection.execute(_at, {'at': known_at_ns}).scalar()
    return found or 0


def changes_after(connection: sa.Connection, epoch: str, after: int, limit: int) -> Changes:
    """Return the feed after a sequence; `Changes.gap` is set when its beginning is gone."""
    last, _ = last_transaction(connection)
    rows = connection.execute(_feed, {'after': after, 'most': limit}).all()
    gap = after < last if not rows else rows[0].sequence > after + 1
    told = tuple(
        Change(
            row.sequence,
            row.recorded_at_ns,
            'PURGED' if row.outcomes == '["PURGED"]' else row.op,
            tuple(json.loads(row.ids)),
            tuple(json.loads(row.keys)),
            tuple(json.loads(row.outcomes)),
            row.actor,
            row.episode,
            {'reason': row.reason} if row.reason else {},
        )
        for row in rows
    )
    return Changes(epoch, told, last, gap)


def expire_changes(connection: sa.Connection, least: int) -> None:
    """Delete the feed of transactions before `least`."""
    connection.execute(change.delete().where(change.c.sequence < least))


_ends = (
    sa.select(version.c.version_row, forgetting.c.sequence)
    .join(
        forgetting,
        (forgetting.c.identity_id == version.c.identity_id)
        & (forgetting.c.forgotten_at_ns == version.c.valid_to_ns)
        & forgetting.c.is_end,
    )
    .where(version.c.version_row.in_(sa.bindparam('rows', expanding=True)))
    .order_by(forgetting.c.sequence)
)
_reasons = sa.select(audit.c.sequence, audit.c.reason, audit.c.query).where(
    audit.c.sequence.in_(sa.bindparam('sequences', expanding=True))
)
_last = sa.select(txn.c.sequence, txn.c.recorded_at_ns).order_by(txn.c.sequence.desc()).limit(1)
# Service clocks never decrease with the sequence, so the newest that is early enough is the last.
_at = (
    sa.select(txn.c.sequence)
    .where(txn.c.recorded_at_ns <= sa.bindparam('at', type_=sa.BigInteger))
    .order_by(txn.c.sequence.desc())
    .limit(1)
)
_feed = (
    sa.select(txn, change.c.ids, change.c['keys'], change.c.outcomes, audit.c.reason)
    .join(change, change.c.sequence == txn.c.sequence)
    .outerjoin(audit, audit.c.sequence == txn.c.sequence)
    .where(txn.c.sequence > sa.bindparam('after', type_=sa.Integer))
    .order_by(txn.c.sequence)
    .limit(sa.bindparam('most', type_=sa.Integer))
)
