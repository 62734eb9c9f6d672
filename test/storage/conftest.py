"""What the tests of the store share."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from storage.sample import ITEMS, fact, url
from support.child import script

from hylo_memory_ros.service import MemoryService

HOLD = """
with MemoryService.open(url) as memory:
    memory.write([fact(1000)])
    tell(os.getpid())
    sys.stdin.read()
"""


@pytest.fixture(scope='session')
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a closed memory of 300 facts."""
    path = tmp_path_factory.mktemp('filled') / 'memory.db'
    with MemoryService.open(url(path)) as memory:
        memory.write([fact(number) for number in range(ITEMS)])
    return path


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copy(filled, tmp_path / 'memory.db'))


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return another process that writes the file; it holds it until its input ends."""
    command = [*script(HOLD), str(path.parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        yield process
        process.kill()
