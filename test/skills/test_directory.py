"""Each version of a skill has its file; what does not belong is set aside, what is missing comes back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from skills.examples import payload, skill
from support.child import Unprivileged, run_on_small_disk, script

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import (
    ConfigurationError,
    FileInUseError,
    ReadOnlyError,
    SkillGateError,
    StoreError,
)
from hylo_memory_ros.identity import content_bytes
from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.store.skill_directory import MAX_FILE_BYTES, SET_ASIDE, file_name, item_of_file

LOCK = '.skills.lock'


def opened(folder: Path, **fields: Any) -> MemoryService:
    return MemoryService.open(f'sqlite:///{folder}/memory.db', **fields)


def file_of(item: MemoryItem) -> tuple[str, bytes]:
    data = content_bytes(item)
    return file_name(item.key or '', sha256(data).digest()), data


def put(directory: Path, *items: MemoryItem) -> list[str]:
    directory.mkdir(exist_ok=True)
    for name, data in map(file_of, items):
        (directory / name).write_bytes(data)
    return [file_of(item)[0] for item in items]


def names(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir()} - {LOCK}


def contents(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in names(directory)}


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


def _named(data: bytes, key: str = 'bad') -> Callable[[Path], str]:
    """Put bytes under the name that their digest asks for."""

    def write(directory: Path) -> str:
        name = file_name(key, sha256(data).digest())
        (directory / name).write_bytes(data)
        return name

    return write


def _canonical(**fields: Any) -> bytes:
    item = {'content': 'x', 'key': 'bad', 'kind': 'skill', 'payload': payload(), **fields}
    return json.dumps(item, sort_keys=True, separators=(',', ':'), ensure_ascii=False).encode()


def _placed(name: str, make: Callable[[Path], Any]) -> Callable[[Path], str]:
    def act(directory: Path) -> str:
        make(directory / name)
        return name

    return act


def _huge(path: Path) -> None:
    with path.open('wb') as file:
        file.truncate(MAX_FILE_BYTES + 1)


_HEX = 'ab' * 32
MALFORMED: dict[str, tuple[Callable[[Path], str], str]] = {
    'empty': (_named(b''), 'Expecting value'),
    'empty, of another name': (_placed(f'bad-{_HEX}.json', Path.touch), 'SHA-256'),
    'truncated': (_named(_canonical()[:-5]), 'file:'),
    'no JSON': (_named(b'hello'), 'Expecting value'),
    'two documents': (_named(_canonical() * 2), 'Extra data'),
    'no UTF-8': (_named(b'\xff\xfe'), 'no UTF-8 at byte 0'),
    'a list': (_named(b'[]'), 'list is no JSON object'),
    'NaN': (_named(_canonical(confidence=float('nan'))), r'$.confidence: nan'),
    'a key twice': (_named(_canonical()[:-1] + b',"key":"worse"}'), 'appears twice'),
    'too deep': (_named(b'{"a":' * 5000 + b'1' + b'}' * 5000), 'nested deeper'),
    'of another kind': (_named(_canonical(kind='semantic')), "$.kind: 'semantic'"),
    'without a kind': (_named(b'{"key":"bad"}'), '$.kind: None'),
    'a field of another type': (_named(_canonical(content=7)), 'content: Input should be a valid string'),
    'an unknown field': (_named(_canonical(other=1)), 'other: Extra inputs'),
    'no key': (_named(_canonical(key=None)), 'key: none'),
    'a malformed payload': (_named(_canonical(payload=payload(status='done'))), '$.status'),
    'a malformed predicate': (_named(_canonical(payload=payload(trigger='eval(1)'))), '$.trigger: at 1'),
    'a payload of another type': (_named(_canonical(payload=[1])), 'payload'),
    'a place': (
        _named(_canonical(pose={'frame_id': 'map', 'position': [0.0, 0.0, 0.0]})), 'a skill has no place',
    ),
    'not canonical': (_named(_canonical() + b'\n'), 'not in canonical form'),
    'more than a skill says': (_named(_canonical(source='somebody')), 'not in canonical form'),
    'of another key': (_named(_canonical(), key='good'), "not that of the key 'bad'"),
    'never proposed': (_named(_canonical(payload=payload('verified'))), "begins as 'proposed'"),
    'a name without a digest': (_placed('dock.json', Path.touch), 'its name is not that of a skill file'),
    'a name in capitals': (_placed(f'bad-{_HEX.upper()}.json', Path.touch), 'its name is not'),
    'a note': (_placed('README.txt', Path.touch), 'its name is not'),
    'a name of bytes': (_placed(os.fsdecode(b'\xff\xfe.json'), Path.touch), 'its name is not'),
    'a long name': (_placed('n' * 250, Path.touch), 'its name is not'),
    'a directory': (_placed(f'dir-{_HEX}.json', Path.mkdir), 'no plain file'),
    'a pipe': (_placed(f'pipe-{_HEX}.json', os.mkfifo), 'no plain file'),
    'a symbolic link': (
        _placed(f'link-{_HEX}.json', lambda path: path.symlink_to('/etc/passwd')), 'a symbolic link',
    ),
    'a link to nothing': (
        _placed(f'loose-{_HEX}.json', lambda path: path.symlink_to('gone')), 'a symbolic link',
    ),
    'a huge file': (_placed(f'huge-{_HEX}.json', _huge), f'at most {MAX_FILE_BYTES} are read'),
}  # fmt: skip


def test_what_does_not_belong_is_set_aside_and_told(folder: Path, directory: Path) -> None:
    sound = contents(directory)
    placed = {what: (make(directory), told) for what, (make, told) in MALFORMED.items()}
    with opened(folder, read_only=True) as memory:
        problems = memory.verify().problems
        assert len([problem for problem in problems if 'not known to the database' in problem]) == len(placed)
    with opened(folder) as memory:
        report = memory.skill_report
        aside = dict(report.set_aside)
        for what, (name, told) in placed.items():
            assert told in aside.pop(name, ''), what
            assert not os.path.lexists(directory / name)
        assert aside == {}
        assert (report.files, report.admitted, report.written, report.problems) == (3, (), (), ())
        assert memory.sequence == 2
        assert memory.verify().ok
    kept = {name for name in names(directory) if SET_ASIDE in name}
    assert len(kept) == len(placed)
    assert Path('/etc/passwd').exists()
    assert {name: data for name, data in sound.items() if (directory / name).read_bytes() != data} == {}
    with opened(folder) as memory:
        assert memory.skill_report.set_aside == ()


def test_a_changed_file_is_set_aside_and_written_again(folder: Path, directory: Path) -> None:
    sound = contents(directory)
    for name, data in sound.items():
        (directory / name).write_bytes(data.replace(b'0.2', b'9.9'))
    with opened(folder) as memory:
        report = memory.skill_report
        assert {name for name, _ in report.set_aside} == set(report.written) == set(sound)
        assert all('not those that its name says' in reason for _, reason in report.set_aside)
        assert memory.query(MemoryQuery(key='dock'))[0].item.payload['params'] == {'speed': 0.2}
        assert memory.verify().ok
    assert {name: data for name, data in contents(directory).items() if SET_ASIDE not in name} == sound


def test_a_name_is_set_aside_as_often_as_it_comes_back(folder: Path, directory: Path) -> None:
    for _ in range(3):
        (directory / 'note').write_text('hello')
        opened(folder).close()
    assert {name for name in names(directory) if SET_ASIDE in name} == {
        f'note{SET_ASIDE}', f'note{SET_ASIDE}1', f'note{SET_ASIDE}2',
    }  # fmt: skip


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


def test_a_sound_file_that_nobody_knows_passes_the_gate_in_order(tmp_path: Path) -> None:
    directory = tmp_path / 'memory.db.skills'
    admitted = put(directory, skill('deprecated'), skill('verified'), skill(), skill(key='idea'))
    strange = put(directory, skill('verified', 'alone'), skill('refuted', 'idea', trigger='else'))
    with opened(tmp_path) as memory:
        report = memory.skill_report
        assert set(report.admitted) == set(admitted)
        assert {name for name, _ in report.set_aside} == set(strange)
        assert [(step.actor, step.to_status) for step in memory.skill_transitions('dock')] == [
            ('skill directory', status) for status in ('proposed', 'verified', 'deprecated')
        ]
        assert memory.query(MemoryQuery(key='idea', skill_status=('proposed',))).total == 1
        assert memory.verify().ok


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

        monkeypatch.setattr(memory._store, 'purge', fail)
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
