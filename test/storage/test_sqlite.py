"""The contract, passed by a file and by memory alone."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest
from storage.contract import DurableContract, ManualClock, StoreContract

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.service import MemoryService


@pytest.fixture(scope='session')
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file that was made and closed and holds nothing: half a second less for each test."""
    path = tmp_path_factory.mktemp('empty') / 'memory.db'
    MemoryService.open(f'sqlite:///{path}').close()
    return path


class TestSqliteFile(StoreContract, DurableContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, empty_file: Path) -> None:
        self.paths = (tmp_path / f'memory{number}.db' for number in itertools.count())
        self.empty_file = empty_file

    def open_memory(
        self, clock: ManualClock, config: MemoryConfig | None = None, **options: Any
    ) -> MemoryService:
        path = next(self.paths)
        if config is None or config.identity_scope == MemoryConfig().identity_scope:
            shutil.copy(self.empty_file, path)
        return MemoryService.open(f'sqlite:///{path}', clock=clock, config=config, **options)

    def reopen(
        self, memory: MemoryService, clock: ManualClock, config: MemoryConfig | None = None, **options: Any
    ) -> MemoryService:
        memory.close()
        return MemoryService.open(f'sqlite:///{memory.path}', clock=clock, config=config, **options)


class TestInMemory(StoreContract):
    def open_memory(
        self, clock: ManualClock, config: MemoryConfig | None = None, **options: Any
    ) -> MemoryService:
        return MemoryService.open(clock=clock, config=config, **options)
