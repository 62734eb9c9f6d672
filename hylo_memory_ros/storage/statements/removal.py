"""Removal of statements: forget, end and retract."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.timeline import END, FORGET, Point
from hylo_memory_ros.model import AuditEntry
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.engine.database import chunks
from hylo_memory_ros.storage.schema import assertion, audit, corrected, forgetting, identity, version
from hylo_memory_ros.storage.schema import txn as txn_table
from hylo_memory_ros.storage.statements.mapper import effective, says_now
from hylo_memory_ros.storage.statements.merged_statements import withdraw_assertions
from hylo_memory_ros.storage.statements.timeline_repository import IdentityTimeline, Timelines


class Matched(NamedTuple):
    """A version that a removal found."""

    version_row: int
    identity_id: int
    valid_from_ns: int
    valid_to_ns: int | None
    id: str
    key: str | None
    content: bytes

    def spans(self, point: Point) -> bool:
        """Return whether a point begins at a time at which this version holds."""
        return self.valid_from_ns <= point.valid_from_ns and (
            self.valid_to_ns is None or point.valid_from_ns < self.valid_to_ns
        )

    def covers(self, point: Point) -> bool:
        """Return whether a point is one of the assertions of this version."""
        return point.content == self.content and self.spans(point)


def matched_versions(connection: sa.Connection, version_rows: Iterable[int]) -> list[Matched]:
    """Return what a removal needs to know of versions, in order of their row."""
    found = []
    for part in chunks(version_rows):
        found += [Matched(*row) for row in connection.execute(_matched, {'rows': part})]
    return sorted(found)


def forget_versions(txn: Changeset, matched: Sequence[Matched]) -> None:
    """End current versions at the service time, and void scheduled ones.

    Assertions from a later time of a version are void too, those that it had superseded included:
    nothing resurfaces. Other assertions of its identity stay.
    """
    at_ns = txn.recorded_at_ns
    timelines = _loaded(txn, matched, at_ns)
    withdrawn: list[int] = []
    for one in matched:
        held = timelines[one.identity_id]
        later = [point for point in held.points if one.spans(point) and point.valid_from_ns > at_ns]
        withdrawn += _withdraw(held, later)
        if one.valid_from_ns <= at_ns:
            held.add(Point(at_ns, txn.sequence, 0, None, 0, FORGET))
            row = {'identity_id': one.identity_id, 'sequence': txn.sequence, 'forgotten_at_ns': at_ns}
            txn.connection.execute(forgetting.insert(), row)
    _finish(txn, timelines, matched, withdrawn, 'FORGET')


def retract_versions(txn: Changeset, matched: Sequence[Matched]) -> None:
    """Withdraw every assertion of the versions: they were never true."""
    timelines = _loaded(txn, matched)
    withdrawn: list[int] = []
    for one in matched:
        held = timelines[one.identity_id]
        withdrawn += _withdraw(held, [point for point in held.points if one.covers(point)])
    _finish(txn, timelines, matched, withdrawn, 'RETRACT')


def _loaded(txn: Changeset, matched: Sequence[Matched], at_ns: int | None = None) -> Timelines:
    timelines = Timelines(txn)
    earliest: dict[int, int] = {}
    for one in matched:
        begin = one.valid_from_ns if at_ns is None else at_ns
        earliest[one.identity_id] = min(begin, earliest.get(one.identity_id, begin))
    timelines.load(earliest)
    return timelines


def _withdraw(held: IdentityTimeline, points: Sequence[Point]) -> list[int]:
    for point in points:
        held.points.remove(point)
    return [point.assertion_id for point in points]


def _finish(
    txn: Changeset, timelines: Timelines, matched: Sequence[Matched], withdrawn: Sequence[int], outcome: str
) -> None:
    withdraw_assertions(txn, withdrawn)
    timelines.save()
    for one in matched:
        txn.note(one.id, one.key, outcome)


def load_audit(connection: sa.Connection, after: int, limit: int, item_id: str | None) -> list[AuditEntry]:
    """Return records of removals after a sequence, oldest first, perhaps only those of one item."""
    rows = connection.execute(_audit, {'after': after, 'most': limit, 'item': item_id})
    return [
        AuditEntry(
            row.sequence,
            row.recorded_at_ns,
            row.op,
            row[0],
            row.reason,
            row.actor,
            None if row.ids is None else tuple(json.loads(row.ids)),
            None if row.query is None else json.loads(row.query),
        )
        for row in rows
    ]


def keep_audit(txn: Changeset, reason: str, query: str | None, ids: Sequence[str] | None, count: int) -> None:
    """Keep who took what away and why, also in the feed; without query and ids nothing personal stays."""
    txn.reason = reason
    txn.connection.execute(
        audit.insert(),
        {
            'sequence': txn.sequence,
            'reason': reason,
            'query': query,
            'ids': None if ids is None else json.dumps(ids, ensure_ascii=False),
            'count': count,
        },
    )


_item: sa.BindParameter[Any] = sa.bindparam('item', type_=sa.Text)
_names = sa.func.json_each(audit.c.ids).table_valued('value')
_audit = (
    sa.select(
        audit.c['count'],
        audit.c.ids,
        audit.c.query,
        audit.c.reason,
        audit.c.sequence,
        txn_table.c.recorded_at_ns,
        txn_table.c.op,
        txn_table.c.actor,
    )
    .join(txn_table, txn_table.c.sequence == audit.c.sequence)
    .where(
        audit.c.sequence > sa.bindparam('after', type_=sa.BigInteger),
        sa.or_(_item.is_(None), sa.exists(sa.select(_names.c.value).where(_names.c.value == _item))),
    )
    .order_by(audit.c.sequence)
    .limit(sa.bindparam('most', type_=sa.BigInteger))
)
_matched = (
    sa.select(
        version.c.version_row,
        version.c.identity_id,
        version.c.valid_from_ns,
        version.c.valid_to_ns,
        assertion.c.id,
        identity.c.key,
        effective('content_digest'),
    )
    .join(assertion, assertion.c.assertion_id == version.c.assertion_id)
    .join(identity, identity.c.identity_id == version.c.identity_id)
    .outerjoin(corrected, says_now)
    .where(version.c.version_row.in_(sa.bindparam('rows', expanding=True)))
)


class Ending(NamedTuple):
    """The world time at which something ended."""

    key: str
    """Key of the identity."""
    at_ns: int
    """When, nanoseconds: it held before, and holds no more from here on."""
    map_id: str = ''
    """Map of the identity; empty: none."""
    reason: str = ''
    """Why, for the audit."""
    merged_into: str = ''
    """Key of the landmark it is merged into, reported as a merge in the feed; empty: it ended."""


def end_versions(txn: Changeset, endings: Sequence[Ending], kind: str) -> list[Matched]:
    """End the versions that hold at the times of the endings; return them.

    Assertions from a later time stay, whichever came first: they are evidence of their own. So the
    order of endings and assertions does not matter, except at equal time, where the later one wins.
    """
    found: dict[int, tuple[Matched, Ending]] = {}
    for ending in endings:
        at = {'key': ending.key, 'map_id': ending.map_id, 'at_ns': ending.at_ns}
        txn.archive.restore_key(ending.key, kind, ending.at_ns)
        rows = txn.connection.scalars(_held, {**at, 'kind': kind})
        for matched in matched_versions(txn.connection, rows):
            found[matched.identity_id] = matched, ending
    timelines = Timelines(txn)
    timelines.load({number: ending.at_ns for number, (_, ending) in found.items()})
    for number, (matched, ending) in found.items():
        at_ns = ending.at_ns
        timelines[number].add(Point(at_ns, txn.sequence, 0, None, 0, END))
        row = {'identity_id': number, 'sequence': txn.sequence, 'forgotten_at_ns': at_ns, 'is_end': True}
        txn.connection.execute(forgetting.insert(), row)
        txn.note(matched.id, matched.key, 'MERGE' if ending.merged_into else 'END')
    timelines.save()
    return [matched for matched, _ in found.values()]


_at = sa.bindparam('at_ns', type_=sa.BigInteger)
_held = (
    sa.select(version.c.version_row)
    .join(identity, identity.c.identity_id == version.c.identity_id)
    .join(assertion, assertion.c.assertion_id == version.c.assertion_id)
    .where(
        identity.c.key == sa.bindparam('key'),
        version.c.kind == sa.bindparam('kind'),
        assertion.c.map_id == sa.bindparam('map_id'),
        version.c.to_seq.is_(None),
        version.c.valid_from_ns <= _at,
        sa.or_(version.c.valid_to_ns.is_(None), version.c.valid_to_ns > _at),
    )
)
