"""Where no file or directory can be made, read or written, nothing is changed by half."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from domain.skills.directory.pieces import contents, names, opened
from domain.skills.examples import skill
from support.child import Unprivileged, run_on_small_disk

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import ReadOnlyError


@pytest.fixture(scope='module')
def nobody() -> Iterator[Unprivileged]:
    process = Unprivileged()
    yield process
    process.close()


@pytest.fixture
def open_folder(taught: Path) -> Iterator[Path]:
    """Return a copy of the memory that everybody may write."""
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o777)
        folder = Path(shutil.copytree(taught, Path(parent) / 'folder'))
        for path in (folder, *folder.rglob('*')):
            path.chmod(0o777 if path.is_dir() else 0o666)
        yield folder
        (folder / 'memory.db.skills').chmod(0o777)


def test_a_directory_that_cannot_be_written_is_refused(nobody: Unprivileged, open_folder: Path) -> None:
    directory = open_folder / 'memory.db.skills'
    before = contents(directory)
    directory.chmod(0o555)
    told = nobody.run('tell(attempt(lambda: MemoryService.open(url).close()))', open_folder)
    assert (told['refused'], str(directory) in told['message']) == ('ReadOnlyError', True)
    assert contents(directory) == before
    directory.chmod(0o777)
    assert nobody.run('tell(attempt(lambda: MemoryService.open(url).close()))', open_folder) is None


@pytest.mark.parametrize('parent', ['/proc', '/dev/null', '/proc/self/nowhere'])
def test_a_named_directory_that_cannot_be_made_is_refused_when_opened(tmp_path: Path, parent: str) -> None:
    config = MemoryConfig(skill_directory=f'{parent}/skills')
    with pytest.raises(ReadOnlyError, match=f'^skill_directory: {parent}/skills cannot be written'):
        opened(tmp_path, config=config)
    opened(tmp_path).close()


def test_a_named_directory_is_made_when_opened(tmp_path: Path) -> None:
    opened(tmp_path, config=MemoryConfig(skill_directory=str(tmp_path / 'a' / 'b'))).close()
    assert (tmp_path / 'a' / 'b').is_dir()


def test_a_write_is_refused_whole_where_no_directory_can_be_made(
    nobody: Unprivileged, open_folder: Path
) -> None:
    code = """
    (folder / 'closed').mkdir()
    with MemoryService.open(f'sqlite:///{folder}/closed/other.db') as memory:
        (folder / 'closed').chmod(0o555)
        payload = {'params': {}, 'api_surface': 'a@1', 'status': 'proposed'}
        item = MemoryItem(kind='skill', key='dock', payload=payload)
        tell([attempt(lambda: memory.write([fact(0), item])), memory.sequence])
        (folder / 'closed').chmod(0o755)
    """
    refusal, sequence = nobody.run(code, open_folder)
    assert (refusal['refused'], sequence) == ('ReadOnlyError', 0)
    assert 'skill_directory' in refusal['message']


def test_a_file_that_cannot_be_read_is_set_aside_and_written_again(
    nobody: Unprivileged, open_folder: Path
) -> None:
    directory = open_folder / 'memory.db.skills'
    name = sorted(names(directory))[0]
    data = (directory / name).read_bytes()
    (directory / name).chmod(0o000)
    code = """
    with MemoryService.open(url) as memory:
        tell([memory.skill_report.set_aside, memory.skill_report.written, memory.verify().problems])
    """
    aside, written, problems = nobody.run(code, open_folder)
    assert aside == [[name, 'it cannot be read: Permission denied']]
    assert (written, problems) == ([name], [])
    assert (directory / name).read_bytes() == data


def test_a_full_disk_leaves_database_and_directory_as_they_were(tmp_path: Path) -> None:
    told = run_on_small_disk(
        """
        def skill(key, code):
            payload = {'code': code, 'api_surface': 'a@1', 'status': 'proposed'}
            return MemoryItem(kind='skill', key=key, payload=payload)

        def state(memory):
            directory = folder / 'memory.db.skills'
            files = sorted(path.name for path in directory.iterdir())
            return memory.sequence, memory.snapshot(), files

        refusal = None
        with MemoryService.open(url) as memory:
            memory.write([skill('first', 'x')])
            for number in range(100):
                before = state(memory)
                refusal = attempt(lambda: memory.write([skill(f'k{number}', 'x' * 200_000)]) and None)
                if refusal:
                    assert state(memory) == before
                    break
            problems = memory.verify().problems
        tell([refusal, problems, before[0]])
        """,
        tmp_path,
        kilobytes=3000,
    )
    refusal, problems, sequence = told
    assert (refusal['refused'], problems) == ('StoreFullError', [])
    with opened(tmp_path) as memory:
        assert memory.sequence == sequence
        assert memory.skill_report.files == sequence
        assert memory.verify().ok
        memory.write([skill()])
