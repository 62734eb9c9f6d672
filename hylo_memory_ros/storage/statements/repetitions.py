"""Counting of repeated statements on the row of the first.

A statement repeated with equal content changes no timeline while no other statement lies in between, so
its row keeps how often it was repeated, in which transaction last, and the last world time. Before a
change can reach that time, the last repetition becomes a row: it is where the statement resumes after
a late fact. Of the repetitions between the first and the last only the number is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from hylo_memory_ros.domain.identity.statement import computed_id, statement_of
from hylo_memory_ros.model import MemoryItem, MemoryKind
from hylo_memory_ros.storage.changeset import Changeset
from hylo_memory_ros.storage.engine.database import chunks, insert_rows
from hylo_memory_ros.storage.schema import FULL_TEXT, assertion, identity, spatial, tag, txn
from hylo_memory_ros.storage.statements.mapper import (
    ASSERTION_COLUMNS,
    INSERT_TEXT,
    assertion_row,
    full_text_row,
    item_of,
    tags_of,
)

_SAME = ('valid_from_assumed', 'content', 'event_clock')
"""Columns of `assertion` in which a repetition agrees with its statement."""
_SHIFTED = ('event_start_ns', 'event_end_ns')
"""Columns that may differ by as much as the world times do."""


@dataclass(slots=True)
class Carrier:
    """A statement that repetitions may be counted on."""

    row: dict[str, Any]
    """Its columns of `assertion`."""
    episode: str
    """Episode of its transaction; empty: none."""
    is_changed: bool = False

    def carries(self, row: Mapping[str, Any], given_id: str | None, episode: str) -> bool:
        """Return True if a later row adds nothing but that the statement still holds.

        Its details add nothing; a given id or another episode needs a row.
        """
        if self.row['has_embedding'] or self.row['spatial_id'] is not None or self.episode != episode:
            return False
        if given_id not in (None, self.row['id']):
            return False
        by_ns = row['valid_from_ns'] - self.row['valid_from_ns']
        if self.row['detail'] != row['detail'] and _said_in(self.row['detail']) != _said_in(row['detail']):
            return False
        return all(self.row[name] == row[name] for name in _SAME) and all(
            self.row[name] == (row[name] if row[name] is None else row[name] - by_ns) for name in _SHIFTED
        )

    def count(self, at_ns: int, sequence: int) -> None:
        """Count a repetition."""
        self.row['repeats'] += 1
        self.row['last_seq'], self.row['last_ns'] = sequence, at_ns
        self.is_changed = True


def _said_in(detail: str | None) -> dict[str, Any]:
    said = json.loads(detail or '{}')
    return {name: value for name, value in said.items() if name not in ('evidence', 'provenance')}


class StoredRepetition(NamedTuple):
    """The last repetition of a statement, as a row of its own."""

    assertion_id: int
    identity_id: int
    valid_from_ns: int
    sequence: int
    content: bytes
    element: bytes
    id: str
    like: int
    """The statement that it repeats."""


def is_plain(item: MemoryItem) -> bool:
    """Return whether an item may be counted when it repeats a statement.

    Poses can be corrected, vectors are searched, and the files of skills are compared with the database.
    """
    return item.pose is None and not item.embeddings and item.kind is not MemoryKind.SKILL


def carriers(connection: sa.Connection, assertion_ids: Iterable[int]) -> dict[int, Carrier]:
    """Return the stored statements that repetitions may be counted on, by assertion."""
    found = {}
    for part in chunks(assertion_ids):
        for row in connection.execute(_carriers, {'ids': part}).mappings():
            if row['op'] == 'write':
                found[row['assertion_id']] = Carrier(dict(row), row['episode'])
    return found


def save_counts(connection: sa.Connection, counted: Iterable[Carrier]) -> None:
    """Store how often statements were repeated."""
    names = ('assertion_id', 'repeats', 'last_seq', 'last_ns')
    values = [{f'new_{name}': one.row[name] for name in names} for one in counted if one.is_changed]
    if values:
        connection.execute(_count, values)


def store_last(changeset: Changeset, assertion_ids: Sequence[int]) -> list[StoredRepetition]:
    """Give the last repetitions of statements rows of their own, and count them no longer."""
    stored, assertions, tags, texts = [], [], [], []
    for part in chunks(assertion_ids):
        for row in changeset.connection.execute(_repeated, {'ids': part}):
            by_ns = row.last_ns - row.first_ns
            item = _later(item_of(row[:_WIDTH]), by_ns)
            statement = statement_of(item, ())
            new = StoredRepetition(
                changeset.next_id('assertion'),
                row.identity_id,
                row.last_ns,
                row.last_seq,
                statement.content,
                statement.element,
                computed_id(item.kind.value, statement.content, row.digest, row.last_ns),
                row[0],
            )
            stored.append(new)
            own = {'id': new.id, 'assertion_id': new.assertion_id, 'identity_id': new.identity_id}
            own |= {'sequence': new.sequence, 'position': 0, 'spatial_id': None, 'withdrawn_seq': None}
            own |= {'repeats': 0, 'last_seq': None, 'last_ns': None, 'base_id': None}
            assertions.append(assertion_row(item, statement) | own)
            tags += [
                {'field': field, 'value': value, 'assertion_id': new.assertion_id}
                for field, value in tags_of(item)
            ]
            texts.append((new.assertion_id, *full_text_row(item)))
    connection = changeset.connection
    insert_rows(connection, assertion, assertions)
    insert_rows(connection, tag, tags)
    if texts:
        connection.exec_driver_sql(INSERT_TEXT.format(FULL_TEXT), texts)
    for part in chunks(assertion_ids):
        connection.execute(_uncount, {'ids': part})
    return stored


def _later(item: MemoryItem, by_ns: int) -> MemoryItem:
    assert item.valid_from_ns is not None
    values: dict[str, Any] = {'valid_from_ns': item.valid_from_ns + by_ns, 'id': None}
    if (span := item.event_time) is not None:
        end_ns = None if span.end_ns is None else span.end_ns + by_ns
        values['event_time'] = span.model_copy(update={'start_ns': span.start_ns + by_ns, 'end_ns': end_ns})
    return item.model_copy(update=values)


_WIDTH = len(ASSERTION_COLUMNS)
_ids: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
_carriers = (
    sa.select(assertion, txn.c.op, txn.c.episode)
    .join(txn, txn.c.sequence == assertion.c.sequence)
    .where(assertion.c.assertion_id.in_(_ids))
)
_repeated = (
    sa.select(
        *(column.label(f'c{place}') for place, column in enumerate(ASSERTION_COLUMNS)),
        assertion.c.identity_id,
        identity.c.digest,
        assertion.c.valid_from_ns.label('first_ns'),
        assertion.c.last_seq,
        assertion.c.last_ns,
    )
    .select_from(
        assertion.join(identity, identity.c.identity_id == assertion.c.identity_id).outerjoin(
            spatial, spatial.c.spatial_id == assertion.c.spatial_id
        )
    )
    .where(assertion.c.assertion_id.in_(_ids))
    .order_by(assertion.c.assertion_id)
)
_count = (
    assertion.update()
    .where(assertion.c.assertion_id == sa.bindparam('new_assertion_id'))
    .values({name: sa.bindparam(f'new_{name}') for name in ('repeats', 'last_seq', 'last_ns')})
)
_uncount = (
    assertion.update()
    .where(assertion.c.assertion_id.in_(_ids))
    .values(repeats=assertion.c.repeats - 1, last_seq=None, last_ns=None)
)
