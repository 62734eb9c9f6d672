"""A memory in a file for the tests of consolidation; whatever a test does, it verifies afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from service.consolidation.pieces import NOW_S, SMALL
from support.clock import ManualClock

from hylo_memory_ros.service import MemoryService


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_S)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'memory.db'


@pytest.fixture
def memory(path: Path, clock: ManualClock) -> Iterator[MemoryService]:
    with MemoryService.open(f'sqlite:///{path}', clock=clock, config=SMALL) as opened:
        yield opened
        assert opened.verify().problems == ()
