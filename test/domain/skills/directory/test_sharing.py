"""A directory belongs to one memory; one of something else is refused and left alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from domain.skills.directory.pieces import contents, opened, put
from domain.skills.examples import skill
from support.child import script

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ConfigurationError, FileInUseError, ReadOnlyError


@pytest.mark.parametrize('where', ['.', 'home'])
def test_a_directory_of_something_else_is_refused_and_left_alone(tmp_path: Path, where: str) -> None:
    home = tmp_path / 'home'
    home.mkdir()
    (home / 'notes.txt').write_text('mine')
    put(home, skill())
    config = MemoryConfig(skill_directory=str(tmp_path / where))
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r'skill_directory: .* holds other things, such as'):
            opened(tmp_path, config=config)
    assert (home / 'notes.txt').read_text() == 'mine'
    assert sorted(path.name for path in tmp_path.iterdir()) == ['home', 'memory.db', 'memory.db.lock']
    assert len(list(home.iterdir())) == 2
    opened(tmp_path).close()


def test_two_memories_cannot_share_a_directory(tmp_path: Path) -> None:
    shared = MemoryConfig(skill_directory=str(tmp_path / 'shared'))
    for name in ('one', 'other'):
        (tmp_path / name).mkdir()
    with opened(tmp_path / 'one', config=shared) as memory:
        memory.write([skill()])
        before = contents(tmp_path / 'shared')
        with pytest.raises(FileInUseError, match=f'skill_directory .*shared is in use by pid {os.getpid()}'):
            opened(tmp_path / 'other', config=shared)
        assert contents(tmp_path / 'shared') == before
    with opened(tmp_path / 'other', config=shared) as memory:
        assert len(memory.skill_report.admitted) == 1


HOLD = """
from hylo_memory_ros.model import MemoryItem
with MemoryService.open(url, config=MemoryConfig(skill_directory=str(folder / 'shared'))) as memory:
    payload = {'params': {}, 'api_surface': 'a@1', 'status': 'proposed'}
    memory.write([MemoryItem(kind='skill', key='dock', payload=payload)])
    tell(os.getpid())
    sys.stdin.read()
"""


def test_another_process_that_holds_it_is_named_and_a_killed_one_forgotten(tmp_path: Path) -> None:
    shared = MemoryConfig(skill_directory=str(tmp_path / 'shared'))
    (tmp_path / 'other').mkdir()
    with subprocess.Popen(
        [*script(HOLD), str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        with pytest.raises(FileInUseError, match=f'pid {pid} on host'):
            opened(tmp_path / 'other', config=shared)
        process.kill()
    with opened(tmp_path / 'other', config=shared) as memory:
        assert len(memory.skill_report.admitted) == 1


def test_what_takes_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / 'memory.db.skills').write_text('no directory')
    with pytest.raises(ReadOnlyError, match='skill_directory'):
        opened(tmp_path)
    assert (tmp_path / 'memory.db.skills').read_text() == 'no directory'
    (tmp_path / 'memory.db.skills').unlink()
    opened(tmp_path).close()
