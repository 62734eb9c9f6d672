"""A closed memory with skills, and its directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from domain.skills.directory.pieces import opened
from domain.skills.examples import skill

from hylo_memory_ros.model import MemoryItem


@pytest.fixture(scope='module')
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a closed memory with a verified skill and a proposed one."""
    folder = tmp_path_factory.mktemp('taught')
    with opened(folder) as memory:
        memory.write([skill(), MemoryItem(kind='semantic', key='fact', content='no skill')])
        memory.write([skill('verified'), skill(key='../etc/pass wd')])
    return folder


@pytest.fixture
def folder(taught: Path, tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(taught, tmp_path / 'folder'))


@pytest.fixture
def directory(folder: Path) -> Path:
    """Return its directory of skills."""
    return folder / 'memory.db.skills'
