"""The tables of the cold file: those of the main file that hold what was said, under the same row numbers."""

from __future__ import annotations

from sqlalchemy import Column, Index, LargeBinary, MetaData, Table, Text

from hylo_memory_ros.storage import schema

__all__ = ['COLD_STATE', 'STAMPED', 'cold_metadata', 'moved_tables', 'places_of', 'said_tables', 'spatial']


said_tables = (schema.assertion, schema.version, schema.tag, schema.embedding, schema.corrected)
"""What an assertion is told by, each row with its number."""

spatial = schema.spatial
moved_tables = (spatial, *said_tables, schema.forgetting)
"""All that is moved; what others refer to comes first."""

STAMPED = {'assertion': 'valid_from_ns', 'version': 'valid_from_ns', 'forgetting': 'forgotten_at_ns'}
"""Columns that tell from when a row speaks, which decides whether it is cold."""

cold_metadata = MetaData()


def _twin(table: Table) -> Table:
    """Return a table without references: what it refers to may be in the other file."""
    columns = [
        Column(
            column.name,
            column.type,
            primary_key=column.primary_key,
            nullable=column.nullable,
            server_default=column.server_default and column.server_default.arg,  # type: ignore[attr-defined]
        )
        for column in table.columns
    ]
    options = {'sqlite_with_rowid': table.dialect_options['sqlite']['with_rowid']}
    twin = Table(table.name, cold_metadata, *columns, **options)
    for index in table.indexes:
        where = index.dialect_options['sqlite']['where']
        named = [twin.c[column.name] for column in index.columns]
        Index(index.name, *named, unique=index.unique, sqlite_where=where)
    return twin


for _table in moved_tables:
    _twin(_table)

# Not named `state`: a connection that has both files open must find that of the main file.
COLD_STATE = 'cold_state'
Table(
    COLD_STATE,
    cold_metadata,
    Column('name', Text, primary_key=True),
    Column('value', LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)


def places_of(prefix: str, where: str) -> str:
    """Return SQL for the numbers of the places that rows name.

    Parameters
    ----------
    prefix : str
        Of the names of tables: the schema, with its dot.
    where : str
        Which rows of the tables in `said_tables`, by their `assertion_id`.
    """
    return ' UNION '.join(
        f'SELECT spatial_id FROM {prefix}{table.name} WHERE ({where}) AND spatial_id NOT NULL'  # noqa: S608
        for table in said_tables
        if 'spatial_id' in table.c
    )
