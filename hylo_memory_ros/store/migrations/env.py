"""Alembic's entry: migrate through the connection that the package hands over."""

from __future__ import annotations

from alembic import context

from hylo_memory_ros.store.schema import metadata

connection = context.config.attributes['connection']
context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
