"""Migrations: from any known schema to the tables of this version, as often as one likes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.engine.files import make_file, migrate
from hylo_memory_ros.storage.migrations import HEAD, _config, current_revision, is_known
from hylo_memory_ros.storage.schema import TRIGGERS, metadata


def schema_of(path: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            'SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name'
        ).fetchall()


def names_of(path: Path) -> set[tuple[str, ...]]:
    """Return names and lines of definitions, in any order: that of foreign keys is not fixed."""
    return {
        (name, table, *sorted(line.strip(' ,') for line in (sql or '').splitlines()))
        for _, name, table, sql in schema_of(path)
    }


def test_the_migrated_schema_is_that_of_the_tables(tmp_path: Path) -> None:
    make_file(tmp_path / 'memory.db')
    engine = sa.create_engine(f'sqlite:///{tmp_path}/memory.db')
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                'compare_type': True,
                'include_name': lambda name, kind, parents: (
                    kind != 'table' or not str(name).startswith(('item_text', 'summary_text'))
                ),
            },
        )
        differences = compare_metadata(context, metadata)
        tables = set(sa.inspect(connection).get_table_names())
    engine.dispose()
    assert differences == []
    assert tables - set(metadata.tables) == {
        'alembic_version', 'item_text', 'item_text_config', 'item_text_data', 'item_text_docsize',
        'item_text_idx', 'summary_text', 'summary_text_config', 'summary_text_data',
        'summary_text_docsize', 'summary_text_idx',
    }  # fmt: skip


def test_indexes_and_checks_are_those_of_the_tables(tmp_path: Path) -> None:
    make_file(tmp_path / 'memory.db')
    plain = sa.create_engine(f'sqlite:///{tmp_path}/plain.db')
    metadata.create_all(plain)
    with plain.begin() as connection:
        for trigger in TRIGGERS:
            connection.exec_driver_sql(trigger)
    plain.dispose()
    ours = ('item_text', 'summary_text', 'alembic')
    made = {name for name in names_of(tmp_path / 'memory.db') if not name[1].startswith(ours)}
    assert made == names_of(tmp_path / 'plain.db')


def test_running_it_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / 'memory.db'
    with MemoryService.open(f'sqlite:///{path}') as memory:
        memory.write([MemoryItem(kind='semantic', key='mug', content='red')])
    before = path.read_bytes()
    for _ in range(2):
        migrate(path)
    assert path.read_bytes() == before
    assert schema_of(path)
    with MemoryService.open(f'sqlite:///{path}') as memory:
        assert memory.query(MemoryQuery(key='mug')).total == 1


def test_a_step_that_was_interrupted_has_not_begun(tmp_path: Path) -> None:
    path = tmp_path / 'memory.db'
    path.touch()

    def interrupt(connection: object, cursor: object, statement: str, *_: object) -> None:
        if 'CREATE VIRTUAL TABLE' in statement:
            raise KeyboardInterrupt

    sa.event.listen(sa.Engine, 'before_cursor_execute', interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            migrate(path)
    finally:
        sa.event.remove(sa.Engine, 'before_cursor_execute', interrupt)
    assert schema_of(path) == []
    migrate(path)
    make_file(tmp_path / 'other.db')
    assert names_of(path) == names_of(tmp_path / 'other.db')


def test_the_newest_step_is_the_head() -> None:
    scripts = ScriptDirectory.from_config(_config())
    assert scripts.get_heads() == [HEAD]
    assert all(is_known(step.revision) for step in scripts.walk_revisions())
    assert not is_known('9999')


def test_the_revision_is_written_in_the_file(tmp_path: Path) -> None:
    make_file(tmp_path / 'memory.db')
    with closing(sqlite3.connect(tmp_path / 'memory.db')) as connection:
        assert current_revision(connection) == HEAD
    with closing(sqlite3.connect(':memory:')) as connection:
        assert current_revision(connection) is None
