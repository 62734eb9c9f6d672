"""Alembic environment: migrates through the connection of the package."""

from __future__ import annotations

from alembic import context

from hylo_memory_ros.storage.schema import metadata

connection = context.config.attributes['connection']
# SQLite can undo a half-made schema, but alembic does not expect it to.
context.configure(
    connection=connection, target_metadata=metadata, transaction_per_migration=True, transactional_ddl=True
)
with context.begin_transaction():
    context.run_migrations()
