"""A memory for the tests of episodes, in memory or in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.clock import ManualClock

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.service import MemoryService


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'memory.db'


@pytest.fixture
def reopen(path: Path, clock: ManualClock) -> Callable[..., MemoryService]:
    def opened(**config: Any) -> MemoryService:
        return MemoryService.open(f'sqlite:///{path}', clock=clock, config=MemoryConfig(**config))

    return opened


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[MemoryService]:
    """Whatever a test does, the memory verifies afterwards."""
    with MemoryService.open(clock=clock) as opened:
        yield opened
        report = opened.verify()
        assert report.ok, report.problems


@pytest.fixture
def kept(reopen: Callable[..., MemoryService]) -> Iterator[MemoryService]:
    """The same in a file."""
    with reopen() as opened:
        yield opened
    with reopen() as opened:
        report = opened.verify()
        assert report.ok, report.problems
