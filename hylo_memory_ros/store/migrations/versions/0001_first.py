"""The first schema."""

from __future__ import annotations

from alembic import op

from hylo_memory_ros.store import ledger as _ledger  # noqa: F401
from hylo_memory_ros.store.schema import CREATE_FULL_TEXT, metadata

revision = '0001'
down_revision = None


def upgrade() -> None:
    """Make every table."""
    metadata.create_all(op.get_bind())
    op.execute(CREATE_FULL_TEXT)
