"""A closed memory with a part of its past in the archive."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage.archive.pieces import archive_all, fill, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed memory with 11 statements in the archive."""
    path = tmp_path / 'memory.db'
    with opened(path) as memory:
        fill(memory)
        assert archive_all(memory).assertions == 11
    return path
