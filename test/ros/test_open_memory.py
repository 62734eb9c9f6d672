"""The memory is opened in a thread of its own: a process that is to end waits for it, but not for long."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hylo_memory_ros.errors import NotActiveError
from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.ros.open_memory import open_memory
from hylo_memory_ros.service import MemoryService


@pytest.fixture
def go_on(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return what an opening waits for."""
    event, real = threading.Event(), MemoryService.open

    def slowly(*args: Any, **options: Any) -> MemoryService:
        event.wait()
        return real(*args, **options)

    monkeypatch.setattr(MemoryService, 'open', slowly)
    return event


def test_what_is_nearly_open_is_opened_to_be_closed_in_order(
    tmp_path: Path, go_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('hylo_memory_ros.ros.open_memory._GRACE_S', 60.0)
    config = NodeConfig(database_path=str(tmp_path / 'memory.db'))
    threading.Timer(0.2, go_on.set).start()
    with open_memory(config, time.time_ns, lambda: True) as memory:
        assert memory.sequence == 0
    assert not Path(f'{memory.path}-wal').exists()


def test_what_takes_longer_is_left(tmp_path: Path, go_on: threading.Event) -> None:
    config = NodeConfig(database_path=str(tmp_path))  # refused when its turn comes
    begun_s = time.monotonic()
    with pytest.raises(NotActiveError, match='the process ends; the file is opened no further'):
        open_memory(config, time.time_ns, lambda: True)
    assert time.monotonic() - begun_s < 5.0, 'launch files end a process by force then'
    go_on.set()
