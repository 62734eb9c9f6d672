"""Sizes by kind, counted row by row by triggers as statements and vectors come and go, never by a scan."""

from __future__ import annotations

from sqlalchemy import Column, Integer, Table, Text

from hylo_memory_ros.storage.schema.base import metadata
from hylo_memory_ros.storage.schema.erasure import set_erasure

__all__ = ['ROW_BYTES', 'SIZE', 'STATEMENT_BYTES', 'TRIGGERS', 'held']

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
