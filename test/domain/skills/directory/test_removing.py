"""A purge takes the files with it or names them; a restore leads to the files of the copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from domain.skills.directory.pieces import contents, names, opened, put
from domain.skills.examples import skill

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import StoreError
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.storage.skill_directory import SET_ASIDE


def test_a_purge_deletes_every_version_for_good(folder: Path, directory: Path) -> None:
    for name in sorted(names(directory)):
        if name.startswith('dock'):
            (directory / name).write_bytes(b'changed')
            break
    with opened(folder) as memory:
        assert len(memory.skill_report.set_aside) == 1
        assert memory.purge(MemoryQuery(key='dock'), dry_run=True) == 2
        assert len([name for name in names(directory) if name.startswith('dock')]) == 3
        assert memory.purge(MemoryQuery(key='dock')) == 2
        assert [name for name in names(directory) if 'dock' in name] == []
        assert memory.verify().ok
    with opened(folder) as memory:
        assert memory.skill_report.admitted == ()
        assert memory.query(MemoryQuery(key='dock', skill_status=('proposed', 'verified'))).total == 0


def test_no_byte_of_a_purged_skill_is_left_and_what_may_hold_some_is_named(tmp_path: Path) -> None:
    secrets = {'key': 'zebra', 'code': 'okapi()', 'trigger': 'quagga == 1', 'evidence': ['bag:gnu'] * 3}
    refused = skill('refuted', 'zebra', code='okapi(2)')
    with opened(tmp_path) as memory:
        memory.write([skill(**secrets)])
        memory.write([skill('refuted', **secrets)])
        memory.query(MemoryQuery(text='zebra', skill_status=('refuted',), state={'quagga': 1}), receipt=True)
    put(tmp_path / 'memory.db.skills', refused)
    with opened(tmp_path) as memory:
        ((aside, _),) = memory.skill_report.set_aside
        removal = memory.purge(MemoryQuery(key='zebra'))
        assert removal == 2
        assert removal.unreached == (str(tmp_path / 'memory.db.skills' / f'{aside}{SET_ASIDE}'),)
    Path(removal.unreached[0]).unlink()
    for path in tmp_path.rglob('*'):
        for word in ('zebra', 'okapi', 'quagga', 'gnu'):
            assert path.is_dir() or word.encode() not in path.read_bytes(), path
            assert word not in path.name


def test_files_in_a_directory_that_was_used_before_are_named(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.write([skill()])
    (file,) = (tmp_path / 'memory.db.skills').glob('dock-*.json')
    elsewhere = MemoryConfig(skill_directory=str(tmp_path / 'elsewhere'))
    with opened(tmp_path, config=elsewhere) as memory:
        removal = memory.purge(MemoryQuery(key='dock'))
        assert (removal, removal.unreached) == (1, (str(file),))


def test_a_purge_that_fails_puts_the_files_back(
    folder: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = contents(directory)
    with opened(folder) as memory:

        def fail(*_: Any, **__: Any) -> Any:
            raise StoreError('no')

        monkeypatch.setattr(memory._core.store, 'purge', fail)
        with pytest.raises(StoreError):
            memory.purge(MemoryQuery(key='dock'))
        assert contents(directory) == sound
        assert memory.verify().ok


def test_a_restore_leads_to_the_directory_of_the_copy(folder: Path, directory: Path) -> None:
    with opened(folder) as memory:
        before = contents(directory)
        memory.snapshot(str(folder / 'copy.db'))
        memory.write([skill('deprecated'), skill(key='later')])
        memory.purge(MemoryQuery(key='../etc/pass wd'))
        memory.restore(str(folder / 'copy.db'))
        report = memory.skill_report
        assert len(report.set_aside) == 2
        assert all('the restored memory does not know it' in reason for _, reason in report.set_aside)
        assert len(report.written) == 1
        assert {name: data for name, data in contents(directory).items() if SET_ASIDE not in name} == before
        assert memory.query(MemoryQuery(kinds=['skill'], state={})).total == 1
        assert memory.verify().ok
    with opened(folder) as memory:
        assert memory.skill_report.admitted == ()
        assert memory.verify().ok
