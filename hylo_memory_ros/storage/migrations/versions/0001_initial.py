"""The first schema: all tables as `storage.schema` declares them."""

from __future__ import annotations

from alembic import op

from hylo_memory_ros.storage.schema import create_schema

revision = '0001'
down_revision = None


def upgrade() -> None:
    """Create every table, index, trigger and full-text index."""
    # Until a second step comes, the first one follows the tables; then its definitions must be frozen here.
    create_schema(op.get_bind())
