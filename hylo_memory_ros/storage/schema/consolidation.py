"""Tables of consolidations, lineage, sizes by kind (kept by triggers) and archived identities."""

from __future__ import annotations

import json

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from hylo_memory_ros.storage.schema.base import Purged, metadata, set_erasure

consolidation = Table(
    'consolidation',
    metadata,
    Column('number', Integer, primary_key=True),
    Column('begun_ns', BigInteger, nullable=False),
    Column('actor', Text, nullable=False, server_default=''),
    Column('asked', Text, nullable=False, comment='JSON: scope, budget, kinds'),
    Column('report', Text, comment='JSON, ids aside; null: it did not come to its end'),
    Column('reverted_ns', BigInteger, comment='when it was taken back; null: it was not'),
    comment='what was brought within a budget',
)

consolidated = Table(
    'consolidated',
    metadata,
    Column('number', ForeignKey('consolidation.number'), primary_key=True),
    Column('summary', Integer, primary_key=True, comment='identity of the summary'),
    Column('sequence', ForeignKey('txn.sequence'), nullable=False),
    Column('identities', Text, nullable=False, comment='JSON: identities that it replaces'),
    Column('reverted_seq', Integer, comment='the reversal that took it back'),
    Index('consolidated_summary', 'summary'),
    comment='summaries and the identities they replace',
    sqlite_with_rowid=False,
)


def _erase_scope(connection: sa.Connection, purged: Purged) -> None:
    number, request = consolidation.c.number, consolidation.c.asked
    for row in connection.execute(sa.select(number, request)).all():
        asked = json.loads(row.asked)
        if purged.touches_scope(asked.get('scope')):
            values = {'asked': json.dumps({**asked, 'scope': None}, sort_keys=True)}
            connection.execute(consolidation.update().where(number == row.number).values(values))


def _erase_lineage(connection: sa.Connection, purged: Purged) -> None:
    # A later identity may get the number of one that is gone: that of a summary becomes negative.
    gone = set(purged.identity_ids)
    for row in connection.execute(sa.select(consolidated)).all():
        members = json.loads(row.identities)
        left = [number for number in members if number not in gone]
        if row.summary in gone or len(left) < len(members):
            this = (consolidated.c.number == row.number) & (consolidated.c.summary == row.summary)
            summary = -row.summary if row.summary in gone else row.summary
            values = {'summary': summary, 'identities': json.dumps(left)}
            connection.execute(consolidated.update().where(this).values(values))


set_erasure(_erase_scope, consolidation)
set_erasure(_erase_lineage, consolidated)

held = Table(
    'held',
    metadata,
    Column('kind', Text, primary_key=True),
    Column('statements', Integer, nullable=False, comment='rows of assertion'),
    Column('bytes', Integer, nullable=False, comment='what they take, about'),
    comment='how much of each kind this file holds, kept by triggers',
    sqlite_with_rowid=False,
)

ROW_BYTES = 400
"""What a short statement takes beside its text, about: its row, its version, and their indexes."""
STATEMENT_BYTES = (
    f'{ROW_BYTES} + length(CAST({{row}}.content AS BLOB)) + coalesce(length(CAST({{row}}.detail AS BLOB)), 0)'
)
_VECTOR_BYTES = 'length({row}.vector)'
SIZE = f"""
    {STATEMENT_BYTES} + coalesce(CASE WHEN {{row}}.has_embedding THEN (
        SELECT sum({_VECTOR_BYTES.format(row='e')}) FROM embedding AS e
        WHERE e.assertion_id = {{row}}.assertion_id
    ) END, 0)
"""  # noqa: S608 - our own words
"""SQL: what a row of `assertion` counts for, with its vectors."""

_COUNT = """
CREATE TRIGGER {name} AFTER {event} ON {table} BEGIN
  INSERT INTO held (kind, statements, bytes)
  SELECT identity.kind, {number},
  {sign}({bytes})
  FROM {source}
  WHERE {key} ON CONFLICT (kind) DO UPDATE
  SET statements = statements + excluded.statements, bytes = bytes + excluded.bytes;
END
"""


def _trigger(table: str, event: str) -> str:
    row, sign = ('NEW', '') if event == 'INSERT' else ('OLD', '-')
    if table == 'assertion':
        source, key = 'identity', f'identity.identity_id = {row}.identity_id'
        number, size = f'{sign}1', STATEMENT_BYTES
    else:
        source = 'assertion JOIN identity ON identity.identity_id = assertion.identity_id'
        key, number, size = f'assertion.assertion_id = {row}.assertion_id', '0', _VECTOR_BYTES
    return _COUNT.format(
        name=f'held_{table}_{event.lower()}', event=event, table=table, number=number, sign=sign,
        bytes=size.format(row=row), source=source, key=key,
    )  # fmt: skip


TRIGGERS = tuple(
    _trigger(table, event) for table in ('assertion', 'embedding') for event in ('INSERT', 'DELETE')
)
"""They count every row; a file without the table `held` has none of them."""


set_erasure('counts', held)

archived = Table(
    'archived',
    metadata,
    Column('identity_id', ForeignKey('identity.identity_id'), primary_key=True),
    Column('before_ns', BigInteger, nullable=False, comment='assertions from before are in the archive file'),
    comment='identities whose past is in the archive file, and how far',
)
