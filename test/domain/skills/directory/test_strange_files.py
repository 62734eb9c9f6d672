"""What does not belong is set aside and told; a sound file that nobody knows passes the gate."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from domain.skills.directory.pieces import contents, names, opened, put
from domain.skills.examples import payload, skill

from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.storage.skill_directory import MAX_FILE_BYTES, SET_ASIDE, file_name


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
    'a list': (_named(b'[]'), 'expected a JSON object, got list'),
    'NaN': (_named(_canonical(confidence=float('nan'))), '$.confidence: expected a finite number, got nan'),
    'a key twice': (_named(_canonical()[:-1] + b',"key":"worse"}'), 'appears twice'),
    'too deep': (_named(b'{"a":' * 5000 + b'1' + b'}' * 5000), 'nested deeper'),
    'of another kind': (_named(_canonical(kind='semantic')), "$.kind: 'semantic'"),
    'without a kind': (_named(b'{"key":"bad"}'), '$.kind: None'),
    'a field of another type': (_named(_canonical(content=7)), 'content: Input should be a valid string'),
    'an unknown field': (_named(_canonical(other=1)), 'other: Extra inputs'),
    'no key': (_named(_canonical(key=None)), 'key: expected a text, got None'),
    'a malformed payload': (_named(_canonical(payload=payload(status='done'))), '$.status'),
    'a malformed predicate': (_named(_canonical(payload=payload(trigger='eval(1)'))), '$.trigger: at 1'),
    'a payload of another type': (_named(_canonical(payload=[1])), 'payload'),
    'a place': (
        _named(_canonical(pose={'frame_id': 'map', 'position': [0.0, 0.0, 0.0]})), 'a skill has no place',
    ),
    'not canonical': (_named(_canonical() + b'\n'), 'not in canonical form'),
    'more than a skill says': (_named(_canonical(source='somebody')), 'not in canonical form'),
    'of another key': (_named(_canonical(), key='good'), "not that of the key 'bad'"),
    'never proposed': (_named(_canonical(payload=payload('verified'))), "expected 'proposed' for a new"),
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
