"""Taking away: a forget ends, a retract withdraws, a purge deletes for good."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.store.landmark import scrub
from hylo_memory_ros.store.receipt import scrub_receipts
from hylo_memory_ros.store.schema import (
    assertion,
    audit,
    change,
    corrected,
    correction,
    embedding,
    forgetting,
    identity,
    request,
    spatial,
    tag,
    version,
)
from hylo_memory_ros.store.timeline import Point
from hylo_memory_ros.store.timelines import Held, Timelines, effective, says_now
from hylo_memory_ros.store.transaction import Transaction, chunks

__all__ = [
    'Matched',
    'forget_versions',
    'keep_audit',
    'matched_versions',
    'purge_identities',
    'retract_versions',
]


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
        """Whether a point speaks from a time at which this version holds."""
        return self.valid_from_ns <= point.valid_from_ns and (
            self.valid_to_ns is None or point.valid_from_ns < self.valid_to_ns
        )

    def covers(self, point: Point) -> bool:
        """Whether a point is one of the assertions of this version."""
        return point.content == self.content and self.spans(point)


def matched_versions(connection: sa.Connection, version_rows: Iterable[int]) -> list[Matched]:
    """Return what a removal needs to know of versions, in order of their row."""
    found = []
    for part in chunks(version_rows):
        found += [Matched(*row) for row in connection.execute(_matched, {'rows': part})]
    return sorted(found)


def forget_versions(txn: Transaction, matched: Sequence[Matched]) -> None:
    """End current versions at the service time, and void scheduled ones.

    What was said from a later time of a version is void too, also what it had outdone at
    that time: nothing resurfaces. Whatever else its identity says stays.
    """
    at_ns = txn.recorded_at_ns
    timelines = _loaded(txn, matched, at_ns)
    withdrawn: list[int] = []
    for one in matched:
        held = timelines[one.identity_id]
        later = [point for point in held.points if one.spans(point) and point.valid_from_ns > at_ns]
        withdrawn += _withdraw(held, later)
        if one.valid_from_ns <= at_ns:
            held.add(Point(at_ns, txn.sequence, 0, None, 0))
            row = {'identity_id': one.identity_id, 'sequence': txn.sequence, 'forgotten_at_ns': at_ns}
            txn.connection.execute(forgetting.insert(), row)
    _finish(txn, timelines, matched, withdrawn, 'FORGET')


def retract_versions(txn: Transaction, matched: Sequence[Matched]) -> None:
    """Withdraw every assertion of the versions: they were never true."""
    timelines = _loaded(txn, matched)
    withdrawn: list[int] = []
    for one in matched:
        held = timelines[one.identity_id]
        withdrawn += _withdraw(held, [point for point in held.points if one.covers(point)])
    _finish(txn, timelines, matched, withdrawn, 'RETRACT')


def _loaded(txn: Transaction, matched: Sequence[Matched], at_ns: int | None = None) -> Timelines:
    timelines = Timelines(txn)
    earliest: dict[int, int] = {}
    for one in matched:
        begin = one.valid_from_ns if at_ns is None else min(one.valid_from_ns, at_ns)
        earliest[one.identity_id] = min(begin, earliest.get(one.identity_id, begin))
    timelines.load(earliest)
    return timelines


def _withdraw(held: Held, points: Sequence[Point]) -> list[int]:
    for point in points:
        held.points.remove(point)
    return [point.assertion_id for point in points]


def _finish(
    txn: Transaction, timelines: Timelines, matched: Sequence[Matched], withdrawn: Sequence[int], outcome: str
) -> None:
    for part in chunks(withdrawn):
        txn.connection.execute(_withdraw_assertions, {'ids': part, 'seq': txn.sequence})
    timelines.save()
    for one in matched:
        txn.note(one.id, one.key, outcome)


def keep_audit(
    txn: Transaction, reason: str, query: str | None, ids: Sequence[str] | None, count: int
) -> None:
    """Keep who took what away and why; without query and ids nothing personal stays."""
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


def purge_identities(txn: Transaction, identity_ids: Sequence[int]) -> int:
    """Delete identities with all that was ever said of them, and their ids from every record.

    Returns
    -------
    int
        How many assertions are gone.
    """
    gone = 0
    names: set[str] = set()
    keys: set[str] = set()
    said: list[str] = []
    for part in chunks(identity_ids):
        rows = list(txn.connection.execute(_purged_assertions, {'ids': part}))
        gone += len(rows)
        txn.unsaid += [row.assertion_id for row in rows]
        names |= {row.id for row in rows}
        said += [text for row in rows for text in (row.content, row.label, row.detail or '')]
        keys |= {row.key for row in rows if row.key is not None}
        for row in txn.connection.execute(_purged_versions, {'ids': part}):
            txn.removed.append(row.version_row)
            if row.to_seq is None:
                txn.count_version(row.kind, row.element, (row.valid_to_ns, row.forgotten), -1)
        scrub(txn.connection, {(row.map_id, row.key) for row in rows if row.key is not None})
        # The landmark states before a correction name keys: what is to leave no trace is in them too.
        txn.connection.execute(_drop_undo, {'maps': sorted({row.map_id for row in rows})})
        _delete_text(txn.connection, rows)
        _delete_rows(txn.connection, part, [row.assertion_id for row in rows])
    _scrub(txn.connection, names)
    scrub_receipts(txn.connection, names | keys, said)
    return gone


def _delete_text(connection: sa.Connection, rows: Sequence[Any]) -> None:
    words = [
        {
            'rowid': row.assertion_id,
            'content': row.content,
            'key': row.key or '',
            'label': row.label,
            'entities': ' '.join(json.loads(row.detail or '{}').get('entities', ())),
        }
        for row in rows
    ]
    if words:
        connection.execute(sa.text(_DELETE_TEXT), words)
        # Deleted words stay in older segments until they are merged away.
        connection.execute(sa.text("INSERT INTO item_text (item_text) VALUES ('optimize')"))


def _delete_rows(connection: sa.Connection, identity_ids: list[int], assertion_ids: list[int]) -> None:
    places: list[int] = []
    for part in chunks(assertion_ids):
        places += connection.execute(_places_of, {'ids': part}).scalars()
    connection.execute(version.delete().where(version.c.identity_id.in_(identity_ids)))
    for table in (tag, embedding, corrected, assertion):
        for part in chunks(assertion_ids):
            connection.execute(table.delete().where(table.c.assertion_id.in_(part)))
    for part in chunks(places):
        connection.execute(spatial.delete().where(spatial.c.spatial_id.in_(part)))
    for table in (forgetting, identity):
        connection.execute(table.delete().where(table.c.identity_id.in_(identity_ids)))


def _scrub(connection: sa.Connection, names: set[str]) -> None:
    """Take ids out of the feed, the audit and the kept answers."""
    for row in list(connection.execute(sa.select(change))):
        ids = json.loads(row.ids)
        if names.isdisjoint(ids):
            continue
        kept = [
            parts
            for parts in zip(ids, json.loads(row.keys), json.loads(row.outcomes), strict=True)
            if parts[0] not in names
        ]
        columns = list(zip(*kept, strict=True)) or [(), (), ('PURGED',)]
        values = dict(zip(('ids', 'keys', 'outcomes'), map(json.dumps, columns), strict=True))
        connection.execute(change.update().where(change.c.sequence == row.sequence).values(values))
    for audited in list(connection.execute(sa.select(audit).where(audit.c.ids.is_not(None)))):
        if not names.isdisjoint(json.loads(audited.ids)):
            where = audit.c.sequence == audited.sequence
            connection.execute(audit.update().where(where).values(ids=None, query=None))
    for asked in list(connection.execute(sa.select(request))):
        if not names.isdisjoint(event['id'] for event in json.loads(asked.answer)):
            connection.execute(request.delete().where(request.c.request_id == asked.request_id))


_DELETE_TEXT = (
    'INSERT INTO item_text (item_text, rowid, content, key, label, entities) '
    "VALUES ('delete', :rowid, :content, :key, :label, :entities)"
)
_ids: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
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
_withdraw_assertions = (
    assertion.update().where(assertion.c.assertion_id.in_(_ids)).values(withdrawn_seq=sa.bindparam('seq'))
)
_purged_assertions = (
    sa.select(
        assertion.c.assertion_id,
        assertion.c.id,
        assertion.c.map_id,
        assertion.c.content,
        assertion.c.label,
        assertion.c.detail,
        identity.c.key,
    )
    .join(identity, identity.c.identity_id == assertion.c.identity_id)
    .where(assertion.c.identity_id.in_(_ids))
)
_purged_versions = (
    sa.select(
        version.c.version_row,
        version.c.kind,
        version.c.valid_to_ns,
        version.c.forgotten,
        version.c.to_seq,
        effective('element'),
    )
    .join(assertion, assertion.c.assertion_id == version.c.assertion_id)
    .outerjoin(corrected, says_now)
    .where(version.c.identity_id.in_(_ids))
)
_drop_undo = (
    correction.update().where(correction.c.map_id.in_(sa.bindparam('maps', expanding=True))).values(undo=None)
)
_places_of = sa.union(
    *(
        sa.select(table.c.spatial_id).where(table.c.assertion_id.in_(_ids), table.c.spatial_id.is_not(None))
        for table in (assertion, corrected)
    )
)
