"""Each version of a skill has its file, which is data; what is missing comes back."""

from __future__ import annotations

import shutil
from hashlib import sha256
from pathlib import Path

import pytest
from domain.skills.directory.pieces import contents, file_of, names, opened
from domain.skills.examples import skill

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import SkillGateError
from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.skill_directory import item_of_file


def test_each_version_has_a_file_that_its_digest_names(directory: Path) -> None:
    items = [skill(), skill('verified'), skill(key='../etc/pass wd')]
    assert contents(directory) == dict(map(file_of, items))
    for name, data in contents(directory).items():
        assert name.endswith(f'-{sha256(data).hexdigest()}.json')
        assert item_of_file(name, data) in items
    assert {name.rsplit('-', 1)[0] for name in names(directory)} == {'dock', '_._etc_pass_wd'}


def test_a_memory_without_skills_makes_no_directory(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.write([MemoryItem(kind='semantic', key='fact')])
        with pytest.raises(SkillGateError):
            memory.write([skill('verified')])
        memory.write([skill()], dry_run=True)
        assert memory.skill_directory == tmp_path / 'memory.db.skills'
    assert not (tmp_path / 'memory.db.skills').exists() or names(tmp_path / 'memory.db.skills') == set()
    with MemoryService.open() as memory:
        memory.write([skill()])
        assert memory.skill_directory is None


def test_the_directory_is_a_parameter(tmp_path: Path) -> None:
    config = MemoryConfig(skill_directory=str(tmp_path / 'else' / 'where'))
    for place in (tmp_path, None):
        url = place and f'sqlite:///{place}/memory.db'
        with MemoryService.open(url, config=config) as memory:
            if place:
                memory.write([skill(), skill('verified')])
            assert memory.skill_directory == tmp_path / 'else' / 'where'
            assert memory.query(MemoryQuery(key='dock')).total == 1
            assert memory.verify().ok
        assert len(names(tmp_path / 'else' / 'where')) == 2
    assert not (tmp_path / 'memory.db.skills').exists()


def test_nothing_is_written_twice(folder: Path, directory: Path) -> None:
    before = {name: (directory / name).stat().st_mtime_ns for name in names(directory)}
    with opened(folder) as memory:
        assert memory.skill_report.files == 3
        assert (
            memory.skill_report.set_aside == memory.skill_report.written == memory.skill_report.admitted == ()
        )
        assert memory.write([skill('verified')]).events[0].event == 'SKIP_DUP'
        assert memory.verify().ok
    assert {name: (directory / name).stat().st_mtime_ns for name in names(directory)} == before


@pytest.mark.parametrize('gone', ['a file', 'the directory'])
def test_what_is_missing_comes_back_from_the_database(folder: Path, directory: Path, gone: str) -> None:
    sound = contents(directory)
    if gone == 'the directory':
        shutil.rmtree(directory)
    else:
        (directory / sorted(sound)[0]).unlink()
    with opened(folder) as memory:
        assert len(memory.skill_report.written) == (3 if gone == 'the directory' else 1)
        assert memory.verify().ok
    assert contents(directory) == sound


def test_verify_tells_what_changed_while_it_is_open(folder: Path, directory: Path) -> None:
    with opened(folder) as memory:
        first, second, _ = sorted(names(directory))
        (directory / first).unlink()
        (directory / second).write_bytes(b'{}')
        (directory / 'stranger').touch()
        told = memory.verify().problems
        assert len(told) == 3
        for problem, (name, what) in zip(
            sorted(told),
            sorted([(first, 'is missing'), (second, 'does not hold'), ('stranger', 'not known')]),
            strict=True,
        ):
            assert name in problem
            assert what in problem


def test_a_version_that_was_forgotten_or_retracted_keeps_its_file(folder: Path, directory: Path) -> None:
    sound = contents(directory)
    with opened(folder) as memory:
        assert memory.forget(MemoryQuery(key='dock')) == 1
        assert memory.retract(MemoryQuery(key='../etc/pass wd')) == 1
    assert contents(directory) == sound
    with opened(folder) as memory:
        assert memory.skill_report.files == 3
        assert memory.query(MemoryQuery(kinds=['skill'])).total == 0
        assert memory.verify().ok


def test_a_copy_needs_no_directory(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as memory:
        memory.snapshot(str(tmp_path / 'memory.db'))
    with opened(tmp_path, read_only=True) as memory:
        assert memory.verify().ok
    assert not (tmp_path / 'memory.db.skills').exists()
    with opened(tmp_path) as memory:
        assert len(memory.skill_report.written) == 3
        assert memory.verify().ok


def test_code_is_data_and_never_runs(tmp_path: Path) -> None:
    trace = tmp_path / 'trace'
    code = f'open({str(trace)!r}, "w").write("ran")'
    lure = {'code': code, 'trigger': 'true', 'preconditions': ['battery > 0.1']}
    with opened(tmp_path) as memory:
        memory.write([skill(**lure), skill('verified', **lure)])
        (hit,) = memory.query(MemoryQuery(kinds=['skill'], text='how', state={'battery': 1, 'x': code}))
        assert hit.item.payload['code'] == code
        memory.render(MemoryQuery(key='dock'))
        memory.verify()
    with opened(tmp_path) as memory:
        memory.snapshot(str(tmp_path / 'copy.db'))
        memory.restore(str(tmp_path / 'copy.db'))
        memory.purge(MemoryQuery(key='dock'))
    assert not trace.exists()
