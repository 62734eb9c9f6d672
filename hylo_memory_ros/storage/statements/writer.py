"""Repository and writer of statements: items become assertions and versions."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import asdict, dataclass, replace
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.domain.identity import Statement, statement_of
from hylo_memory_ros.domain.skills import Thresholds, problems_of_skill_item
from hylo_memory_ros.domain.timeline import CONSOLIDATE, FORGET, Point, Span, open_span, span_at
from hylo_memory_ros.errors import ClockError, IdConflictError, InvalidRequestError
from hylo_memory_ros.model import (
    AuditEntry,
    MemoryItem,
    MemoryKind,
    Removal,
    WriteEvent,
    WriteResult,
    depth_of,
)
from hylo_memory_ros.model.result import Outcome
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.engine.database import chunks, insert_rows
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.receipts import existing_ids
from hylo_memory_ros.storage.schema import (
    assertion,
    embedding,
    identity,
    request,
    spatial,
    tag,
)
from hylo_memory_ros.storage.skill_repository import Gate
from hylo_memory_ros.storage.statements.corrected_statements import corrected_among, repeat_corrections
from hylo_memory_ros.storage.statements.embeddings import digest_of_vector
from hylo_memory_ros.storage.statements.history import last_transaction
from hylo_memory_ros.storage.statements.mapper import (
    INSERT_TEXT,
    assertion_row,
    embedding_rows,
    full_text_row,
    spatial_row,
    tags_of,
    vector_of,
)
from hylo_memory_ros.storage.statements.merged_statements import load_statements
from hylo_memory_ros.storage.statements.removal import (
    Ending,
    Matched,
    end_versions,
    forget_versions,
    keep_audit,
    load_audit,
    matched_versions,
    retract_versions,
)
from hylo_memory_ros.storage.statements.repetitions import (
    Carrier,
    carriers,
    is_plain,
    save_counts,
)
from hylo_memory_ros.storage.statements.timeline_repository import Evidence, IdentityTimeline, Timelines


def check_items(items: Sequence[MemoryItem], config: MemoryConfig) -> None:
    """Refuse a call that breaks a limit, naming every problem of it.

    Raises
    ------
    InvalidRequestError
        With the field, the value and the rule.
    """
    if len(items) > config.max_items_per_write:
        raise InvalidRequestError(
            f'items: {len(items)} in one write, at most {config.max_items_per_write}',
            limit=config.max_items_per_write,
        )
    excesses = [excess for index, item in enumerate(items) for excess in _too_large(index, item, config)]
    if excesses:
        problems = [f'{found}, at most {limit}' for found, limit in excesses]
        raise InvalidRequestError(
            '; '.join(problems), problems=problems, limit=[limit for _, limit in excesses]
        )
    malformed = [
        f'items[{index}].{problem}'
        for index, item in enumerate(items)
        if item.kind is MemoryKind.SKILL
        for problem in problems_of_skill_item(item)
    ]
    if malformed:
        raise InvalidRequestError('; '.join(malformed), problems=malformed, field='payload')


def check_stamps(items: Sequence[MemoryItem], config: MemoryConfig) -> None:
    """Refuse resolved items with a stamp before the first valid one, naming every one.

    Raises
    ------
    ClockError
        Stamps are too early, or the service clock is, and was needed.
    """
    least_ns = round(config.min_valid_stamp_s * 1e9)
    early = [problem for index, item in enumerate(items) for problem in _too_early(index, item, least_ns)]
    if early:
        raise ClockError('; '.join(early), problems=early)


def _too_large(index: int, item: MemoryItem, config: MemoryConfig) -> Iterable[tuple[str, int]]:
    if item.payload:
        size = len(json.dumps(item.payload, ensure_ascii=False, separators=(',', ':')).encode())
        if size > config.max_payload_bytes:
            yield f'items[{index}].payload: {size} bytes', config.max_payload_bytes
        if (depth := depth_of(item.payload)) > config.max_payload_depth:
            yield f'items[{index}].payload: nested {depth} deep', config.max_payload_depth
    if len(item.content) > config.max_content_bytes // 4:
        size = len(item.content.encode())
        if size > config.max_content_bytes:
            yield f'items[{index}].content: {size} bytes', config.max_content_bytes


def _too_early(index: int, item: MemoryItem, least_ns: int) -> Iterable[str]:
    stamps = {
        'valid_from': item.valid_from_ns,
        'event_time.start': None if item.event_time is None else item.event_time.start_ns,
        'pose.stamp': None if item.pose is None else item.pose.stamp_ns,
    }
    for field, stamp_ns in stamps.items():
        if stamp_ns is not None and stamp_ns < least_ns:
            yield f'items[{index}].{field}: {stamp_ns} ns lies before the first valid stamp {least_ns} ns'


def resolved(item: MemoryItem, now_ns: int) -> MemoryItem:
    """Return the item with its ``valid_from``: given, else of the event, else of the pose, else now."""
    if item.valid_from_ns is not None:
        return item
    stamp_ns = item.event_time.start_ns if item.event_time else item.pose and item.pose.stamp_ns
    if stamp_ns is None:
        return item.model_copy(update={'valid_from_ns': now_ns, 'valid_from_assumed': True})
    return item.model_copy(update={'valid_from_ns': stamp_ns, 'valid_from_assumed': False})


@dataclass(slots=True)
class _Accepted:
    item: MemoryItem
    statement: Statement
    identity_id: int
    assertion_id: int


def _write(txn: Changeset, items: Sequence[MemoryItem]) -> WriteResult:
    """Store resolved items in list order, and return what each did to its timeline."""
    config = txn.config
    if named := {item.id for item in items if item.id is not None}:
        items = _as_first_asserted(txn, items, named)
    stated = [(item, statement_of(item, config.identity_scope)) for item in items]
    _refuse_conflicts(txn, stated)
    timelines = Timelines(txn)
    accepted = _intern(txn, timelines, stated)
    # Where nothing was said before, nothing is repeated.
    repeated = _repeated(txn, timelines, accepted) if timelines.evidence else {}
    rows = _Rows()
    gate = None
    if any(item.kind is MemoryKind.SKILL for item in items):
        gate = Gate(
            txn,
            Thresholds(config.skill_min_traces, config.skill_min_useful, config.skill_max_misleading_share),
        )
    events = []
    for position, entry in enumerate(accepted):
        rows.add(txn, entry, position, timelines)
        held = timelines[entry.identity_id]
        before = [] if gate is None else held.spans()
        events.append(_apply(txn, timelines, entry, position, repeated.get(entry.assertion_id)))
        if gate is not None and entry.item.kind is MemoryKind.SKILL:
            gate.admit(position, entry.item, entry.assertion_id, before, held.spans())
    if txn.op == 'write':
        idle = [entry for entry in accepted if entry.assertion_id in timelines.idle and is_plain(entry.item)]
        if idle:
            _count_repetitions(txn, timelines, rows, idle)
    rows.insert(txn)
    if gate is not None:
        gate.record([(entry.identity_id, entry.statement.id) for entry in accepted])
    if repeated:
        asserted = {entry.assertion_id: entry.item for entry in accepted}
        likes = {number: (like.assertion_id, asserted[number]) for number, like in repeated.items()}
        repeat_corrections(txn, likes)
    timelines.save()
    for event in events:
        txn.note(event.id, event.key, event.event)
    return WriteResult(tuple(events), txn.sequence)


def _as_first_asserted(txn: Changeset, items: Sequence[MemoryItem], named: set[str]) -> list[MemoryItem]:
    """Give an item whose id is known and that states no other time the time it was first asserted with.

    So the same write again is the same statement, also one whose time was assumed.
    """
    known: dict[str | None, tuple[int, bool]] = {}
    txn.archive.restore_ids(named, given=True)
    for part in chunks(named):
        for item_id, valid_from_ns, assumed in txn.connection.execute(_first_time, {'ids': part}):
            known.setdefault(item_id, (valid_from_ns, assumed))
    return [_at_first_time(item, *known[item.id]) if item.id in known else item for item in items]


def _at_first_time(item: MemoryItem, valid_from_ns: int, assumed: bool) -> MemoryItem:
    if not item.valid_from_assumed and item.valid_from_ns != valid_from_ns:
        return item
    return item.model_copy(update={'valid_from_ns': valid_from_ns, 'valid_from_assumed': bool(assumed)})


def _refuse_conflicts(txn: Changeset, stated: Sequence[tuple[MemoryItem, Statement]]) -> None:
    named: dict[str, tuple[bytes, int | None]] = {}
    txn.archive.restore_ids({statement.id for _, statement in stated}, given=False)
    for part in chunks({statement.id for _, statement in stated}):
        for item_id, content, valid_from_ns in txn.connection.execute(_same_id, {'ids': part}):
            named[item_id] = (content, valid_from_ns)
    for index, (item, statement) in enumerate(stated):
        this = (statement.content, item.valid_from_ns)
        if named.setdefault(statement.id, this) != this:
            raise IdConflictError(
                f'items[{index}].id: {statement.id!r} already names a statement with other content or '
                'another valid_from',
                id=statement.id,
            )


def _intern(
    txn: Changeset, timelines: Timelines, stated: Sequence[tuple[MemoryItem, Statement]]
) -> list[_Accepted]:
    """Give every item its identity, new or known, and load the timelines of the known ones."""
    known: dict[bytes, int] = {}
    for part in chunks({statement.identity for _, statement in stated}):
        known.update(tuple(row) for row in txn.connection.execute(_same_identity, {'digests': part}))
    earliest: dict[int, int] = {}
    for item, statement in stated:
        if (identity_id := known.get(statement.identity)) is not None:
            assert item.valid_from_ns is not None
            earliest[identity_id] = min(item.valid_from_ns, earliest.get(identity_id, item.valid_from_ns))
    timelines.load(earliest)
    fresh, accepted = [], []
    for item, statement in stated:
        if statement.identity not in known:
            identity_id = known[statement.identity] = txn.next_id('identity')
            kind = item.kind.value
            fresh.append(
                {'identity_id': identity_id, 'digest': statement.identity, 'kind': kind, 'key': item.key}
            )
            timelines.new(identity_id, kind, item.key)
        accepted.append(_Accepted(item, statement, known[statement.identity], txn.next_id('assertion')))
    if fresh:
        insert_rows(txn.connection, identity, fresh)
    return accepted


def _repeated(txn: Changeset, timelines: Timelines, accepted: Sequence[_Accepted]) -> dict[int, Point]:
    """Return the corrected points that are repeated, by the new assertion.

    A repetition of a statement from before the map moved means the same thing, not its old place.
    """
    likes = {}
    for entry in accepted:
        for point in reversed(timelines[entry.identity_id].points):
            known = timelines.evidence.get(point.assertion_id)
            # A statement without a key is identified by its content.
            if known is not None and (entry.item.key is None or known.id == entry.statement.id):
                likes[entry.assertion_id] = point
                break
    if not likes:
        return {}
    moved = corrected_among(txn.connection, {point.assertion_id for point in likes.values()})
    return {number: point for number, point in likes.items() if point.assertion_id in moved}


def _count_repetitions(
    txn: Changeset, timelines: Timelines, rows: _Rows, repeated: Sequence[_Accepted]
) -> None:
    """Count repetitions on the statements that they repeat, instead of storing them.

    Only what follows directly on its statement, and is followed by nothing at the same time, changes
    nothing by its absence.
    """
    new = rows.by_assertion()
    lines = {entry.identity_id: timelines[entry.identity_id].points for entry in repeated}
    points = {point.assertion_id: point for line in lines.values() for point in line if point.assertion_id}
    stored = carriers(txn.connection, points.keys() - new.keys())
    found = stored | {number: Carrier(new[number], txn.episode) for number in points.keys() & new.keys()}
    counted = set()
    for entry in sorted(repeated, key=lambda one: points[one.assertion_id][:3]):
        line, point = lines[entry.identity_id], points[entry.assertion_id]
        place = bisect_left(line, point)
        if place == 0 or line[place - 1].content != point.content:
            continue
        if place + 1 < len(line) and line[place + 1].valid_from_ns == point.valid_from_ns:
            continue
        carrier = found.get(line[place - 1].assertion_id)
        if carrier is not None and carrier.carries(new[point.assertion_id], entry.item.id, txn.episode):
            carrier.count(point.valid_from_ns, txn.sequence)
            counted.add(point.assertion_id)
            timelines[entry.identity_id].drop(point)
    rows.drop(counted)
    save_counts(txn.connection, stored.values())


def _apply(
    txn: Changeset, timelines: Timelines, entry: _Accepted, position: int, repeated: Point | None
) -> WriteEvent:
    held = timelines[entry.identity_id]
    at_ns = entry.item.valid_from_ns
    assert at_ns is not None
    content = entry.statement.content
    if repeated is not None and repeated.content is not None:
        content = repeated.content
        like = load_statements(txn.connection, [repeated.assertion_id])[repeated.assertion_id]
        item = timelines.items[entry.assertion_id].model_copy(update={'pose': like.pose})
        timelines.items[entry.assertion_id] = item
        timelines.evidence[entry.assertion_id] = timelines.evidence[entry.assertion_id]._replace(
            element=statement_of(item, txn.config.identity_scope).element,
            spatial_id=timelines.evidence[repeated.assertion_id].spatial_id,
        )
    before = held.spans()
    point = Point(at_ns, txn.sequence, position, content, entry.assertion_id)
    held.add(point)
    if not before:
        return WriteEvent('ADD', entry.statement.id, entry.item.key)
    return _event(before, held, point, entry.item.key, timelines)


def _event(
    before: Sequence[Span], held: IdentityTimeline, point: Point, key: str | None, timelines: Timelines
) -> WriteEvent:
    after = held.spans()

    def name(span: Span) -> str:
        return timelines.evidence[span.assertion_id].id

    here = span_at(after, point.valid_from_ns)
    assert here is not None, 'the latest assertion at a time holds at that time'
    if before == after:
        event: Outcome = 'MERGE' if timelines.merge(held, here, point) else 'SKIP_DUP'
        return WriteEvent(event, name(here), key, reason=_why_ended(here, held))
    was_open, is_open = open_span(before), open_span(after)
    if was_open is None or was_open == is_open:
        return WriteEvent('ADD', name(here), key)
    reopened = name(is_open) if is_open is not None and is_open != here else ''
    return WriteEvent('INVALIDATE', name(here), key, closed_id=name(was_open), reopened_id=reopened)


def _why_ended(span: Span, held: IdentityTimeline) -> str:
    if span.ended_by is not None:
        return 'forgotten' if span.ended_by == FORGET else 'ended'
    ended = any(
        point.ending == CONSOLIDATE and point.valid_from_ns == span.valid_to_ns for point in held.points
    )
    return 'consolidated' if ended else ''


class _Rows:
    """The rows of one call, inserted table by table."""

    def __init__(self) -> None:
        self._spatial: list[dict[str, Any]] = []
        self._assertion: list[dict[str, Any]] = []
        self._tag: list[dict[str, Any]] = []
        self._embedding: list[dict[str, Any]] = []
        self._text: list[tuple[Any, ...]] = []

    def add(self, txn: Changeset, entry: _Accepted, position: int, timelines: Timelines) -> None:
        item, assertion_id = entry.item, entry.assertion_id
        row = assertion_row(item, entry.statement)
        row |= {
            'assertion_id': assertion_id,
            'identity_id': entry.identity_id,
            'sequence': txn.sequence,
            'position': position,
            'spatial_id': None,
            'withdrawn_seq': None,
            'repeats': 0,
            'last_seq': None,
            'last_ns': None,
            'base_id': None,
        }
        if item.pose is not None:
            row['spatial_id'] = spatial_id = txn.next_id('spatial')
            place = spatial_row(item.pose, row['map_id'])
            self._spatial.append({'spatial_id': spatial_id, **place})
            txn.places[spatial_id] = (place['map_id'], place['frame_id'], place['x'], place['y'], place['z'])
        self._assertion.append(row)
        self._text.append((assertion_id, *full_text_row(item)))
        for field, value in tags_of(item):
            self._tag.append({'field': field, 'value': value, 'assertion_id': assertion_id})
        timelines.items[assertion_id] = item
        if item.embeddings:
            stored = {}
            for space, vector in embedding_rows(item):
                digest = digest_of_vector(vector)
                self._embedding.append(
                    {'assertion_id': assertion_id, 'space': space, 'digest': digest, 'vector': vector}
                )
                txn.vectors.append((assertion_id, entry.statement.id, space, digest, vector))
                stored[space] = vector_of(vector)
            timelines.items[assertion_id] = item.model_copy(update={'embeddings': stored})
        if item.kind is MemoryKind.SKILL:
            txn.skills.append((assertion_id, item.payload))
        timelines.evidence[assertion_id] = Evidence(
            entry.statement.id,
            entry.statement.element,
            row['spatial_id'],
            item.confidence,
            item.source,
            row['detail'],
        )

    def by_assertion(self) -> dict[int, dict[str, Any]]:
        """Return the rows of assertions by their number."""
        return {row['assertion_id']: row for row in self._assertion}

    def drop(self, assertion_ids: Set[int]) -> None:
        """Leave out assertions without a pose and vectors."""
        if assertion_ids:
            self._assertion = [row for row in self._assertion if row['assertion_id'] not in assertion_ids]
            self._tag = [row for row in self._tag if row['assertion_id'] not in assertion_ids]
            self._text = [row for row in self._text if row[0] not in assertion_ids]

    def insert(self, txn: Changeset) -> None:
        tables = (
            (spatial, self._spatial),
            (assertion, self._assertion),
            (tag, self._tag),
            (embedding, self._embedding),
        )
        for table, rows in tables:
            insert_rows(txn.connection, table, rows)
        if self._text:
            txn.connection.exec_driver_sql(INSERT_TEXT.format(txn.text_index), self._text)


_same_id = sa.select(assertion.c.id, assertion.c.content_digest, assertion.c.valid_from_ns).where(
    assertion.c.id.in_(sa.bindparam('ids', expanding=True))
)
_first_time = (
    sa.select(assertion.c.id, assertion.c.valid_from_ns, assertion.c.valid_from_assumed)
    .where(assertion.c.id.in_(sa.bindparam('ids', expanding=True)))
    .order_by(assertion.c.assertion_id)
)
_same_identity = sa.select(identity.c.digest, identity.c.identity_id).where(
    identity.c.digest.in_(sa.bindparam('digests', expanding=True))
)
_answer = sa.select(request.c.answer, request.c.sequence).where(
    request.c.request_id == sa.bindparam('request')
)
_expire_requests = request.delete().where(request.c.sequence < sa.bindparam('least'))


class StatementRepository:
    """Statements and the transactions that brought them."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def last_transaction(self) -> tuple[int, int]:
        """Return sequence and service time of the newest transaction; zeros before the first one."""
        return last_transaction(self._connection)

    def audit(self, after: int, limit: int, item_id: str | None) -> list[AuditEntry]:
        """Return records of removals after a sequence, oldest first, perhaps only those of one item."""
        return load_audit(self._connection, after, limit, item_id)

    def existing_ids(self, ids: Collection[str]) -> set[str]:
        """Return which ids the main file knows."""
        return existing_ids(self._connection, ids)


class StatementWriter(StatementRepository):
    """Statements written, ended and removed in a numbered transaction.

    Parameters
    ----------
    changeset : Changeset
        The transaction.
    """

    def __init__(self, changeset: Changeset) -> None:
        super().__init__(changeset.connection)
        self._changeset = changeset

    def write(
        self, items: Sequence[MemoryItem], *, request_id: str | None = None, trusted: bool = False
    ) -> WriteResult:
        """Store items in list order, and return what each did to its timeline.

        Parameters
        ----------
        request_id : str, optional
            A repeated request gets its first answer again, and the transaction is discarded.
        trusted : bool
            The service itself wrote and stamped them: limits on callers' stamps do not apply.

        Raises
        ------
        ClockError
            A stamp is before the first valid one.
        SkillGateError
            A skill may not have its status.
        IdConflictError
            A given id already names another statement.
        """
        changeset, config = self._changeset, self._changeset.config
        if request_id is not None:
            row = self._connection.execute(_answer, {'request': request_id}).one_or_none()
            if row is not None:
                changeset.discarded = True
                return WriteResult(
                    tuple(WriteEvent(**event) for event in json.loads(row.answer)), row.sequence
                )
        items = [resolved(item, changeset.recorded_at_ns) for item in items]
        if not trusted:
            check_stamps(items, config)
        result = _write(changeset, items)
        if request_id is not None:
            answer = json.dumps([asdict(event) for event in result.events], ensure_ascii=False)
            kept = {'request_id': request_id, 'sequence': changeset.sequence, 'answer': answer}
            self._connection.execute(request.insert(), kept)
            self._connection.execute(
                _expire_requests, {'least': changeset.sequence - config.request_retention}
            )
        return result

    def forget(self, asked: QuerySpec, among: Sequence[int] | None, *, reason: str) -> Removal:
        """End what matches at the service time, and void what is scheduled.

        Assertions from a later time of a version are void too, those that it had superseded included:
        nothing resurfaces. Other assertions of its identity stay.
        """
        # The clock may have gone on since the query was resolved.
        now = replace(asked, at_ns=self._changeset.recorded_at_ns)
        return self._remove(now, among, forget_versions, reason)

    def retract(self, asked: QuerySpec, among: Sequence[int] | None, *, reason: str) -> Removal:
        """Withdraw every assertion of what matches: it was never true."""
        return self._remove(asked, among, retract_versions, reason)

    def _remove(
        self,
        asked: QuerySpec,
        among: Sequence[int] | None,
        remove: Callable[[Changeset, Sequence[Matched]], None],
        reason: str,
    ) -> Removal:
        matched = matched_versions(self._connection, self._changeset.archive.match(asked, among))
        remove(self._changeset, matched)
        # Skills of every status are meant, whatever was asked.
        query = asked.query.model_dump_json(exclude_defaults=True, exclude={'skill_status'})
        return self._removal(matched, reason, query)

    def end(self, endings: Sequence[Ending], *, kind: str, reason: str) -> Removal:
        """End what holds at the stated world times."""
        query: Any = {'end': endings, 'kind': kind}
        return self._removal(
            end_versions(self._changeset, endings, kind), reason, json.dumps(query, ensure_ascii=False)
        )

    def _removal(self, matched: Sequence[Matched], reason: str, query: str) -> Removal:
        if not matched:
            self._changeset.discarded = True
            return Removal(0, sequence=self._changeset.sequence - 1)
        ids = [one.id for one in matched]
        keep_audit(self._changeset, reason, query, ids, len(matched))
        return Removal(len(matched), ids, self._changeset.sequence)
