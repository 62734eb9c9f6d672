"""A closed memory with a part of its past in cold storage."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage.cold.pieces import cool, fill, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed memory with 11 statements in cold storage."""
    path = tmp_path / 'memory.db'
    with opened(path) as memory:
        fill(memory)
        assert cool(memory).assertions == 11
    return path
