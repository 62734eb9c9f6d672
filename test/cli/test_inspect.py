import csv
import io
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.model import MemoryItem
from hylo_memory_ros.perception import Detections, InputSettings, LandmarkPipeline, LandmarkSettings, Message
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.transforms import TransformBuffer

from .conftest import Run, S, Written


def test_info_tells_what_a_file_holds(run: Run, file: Path) -> None:
    (facts,) = run('info', file, '--json').lines
    assert facts['counts'] == {'spatial': 1, 'episodic': 1}
    assert facts['sequence'] == 4
    assert facts['recorded_at_ns'] == 300 * S
    assert facts['maps'] == ['flat']
    assert facts['complete'] is True
    assert {kind: held['items'] for kind, held in facts['held'].items()} == {'episodic': 1, 'spatial': 3}
    assert facts['bytes'] == file.stat().st_size
    told = run('info', file).out
    assert facts['digest'] in told
    assert '1 spatial' in told
    assert '3 spatial in ' in told


def test_info_and_history_know_of_the_archive_file(run: Run, written: Written) -> None:
    path, store = written.path, written.memory._core.store
    history = run('history', path, '--key', 'mug', '--json').lines
    moved = store.archive.move([one.identity_id for one in store.archive.archivable()])
    assert moved.assertions > 0
    (facts,) = run('info', path, '--json').lines
    assert facts['archive']['statements'] == moved.assertions
    assert facts['archive']['file'] == f'{path}.archive'
    assert f'{moved.assertions} statements, ' in run('info', path).out
    assert run('history', path, '--key', 'mug', '--json').lines == history
    assert run('verify', path).code == 0
    written.memory.close()
    path.with_name(f'{path.name}.archive').unlink()
    answer = run('info', path)
    assert answer.code == 1
    assert f'{path}.archive is missing' in answer.err


def test_a_sound_file_is_verified(run: Run, file: Path) -> None:
    answer = run('verify', file)
    assert (answer.code, answer.err) == (0, '')
    assert answer.out.startswith('sound: 3 timelines')
    assert run('verify', file, '--json').lines[0]['ok'] is True


def test_a_file_that_was_tampered_with_is_found_out(run: Run, file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE assertion SET content = 'the blue mug' WHERE content = 'the red mug'")
    answer = run('verify', file)
    assert answer.code == 1
    assert 'content does not have the digest' in answer.out
    assert run('verify', file, '--json').lines[0]['ok'] is False


def test_the_snapshot_is_that_of_the_memory(run: Run, written: Written) -> None:
    digest = written.memory.snapshot()
    assert run('snapshot', written.path).out == f'{digest}\n'
    assert run('snapshot', written.path, '--json').lines[0]['digest'] == digest


def test_a_copy_is_whole_and_overwrites_nothing(run: Run, written: Written, tmp_path: Path) -> None:
    copy = tmp_path / 'copy.db'
    digest = run('snapshot', written.path, '--copy', copy).out
    written.memory.close()
    assert run('snapshot', copy).out == digest
    assert run('verify', copy).code == 0
    before = copy.read_bytes()
    refused = run('snapshot', written.path, '--copy', copy)
    assert refused.code == 1
    assert str(copy) in refused.err
    assert copy.read_bytes() == before


@pytest.fixture
def perceived(tmp_path: Path) -> Path:
    """A file with a ledger: a cup seen twice, a plate once, and one message too late."""
    path = tmp_path / 'perceived.db'
    settings = LandmarkSettings(
        inputs=(InputSettings(name='camera', topic='camera', type='vision_msgs/msg/Detection3DArray'),),
        confirm_n=2,
    )
    with MemoryService.open(f'sqlite:///{path}', clock=lambda: 100 * S, map_id='flat') as memory:
        pipeline = LandmarkPipeline(memory, TransformBuffer(), settings, map_id='flat')
        for stamp_ns, labels in ((10 * S, ('cup', 'plate')), (20 * S, ('cup',)), (5 * S, ('cup',))):
            columns = Detections(labels, np.array([(1.0, 2.0, 0.0), (3.0, 2.0, 0.0)])[: len(labels)])
            pipeline.offer(Message('camera', stamp_ns, 'map', stamp_ns // S, columns))
        pipeline.close()
    return path


def test_the_ledger_tells_whose_sighting_each_detection_was(run: Run, perceived: Path) -> None:
    rows = list(csv.reader(io.StringIO(run('observations', perceived, '--csv').out)))
    assert rows[0] == ['input', 'stamp_ns', 'index', 'landmark']
    assert [row[:3] for row in rows[1:]] == [
        ['camera', '10000000000', '0'],
        ['camera', '10000000000', '1'],
        ['camera', '20000000000', '0'],
    ]
    cup, plate, again = (row[3] for row in rows[1:])
    assert cup.startswith('cup/')
    assert plate.startswith('plate/')
    assert again == cup
    lines = run('observations', perceived, '--json', '--landmark', cup).lines
    assert [(line['stamp_ns'], line['index']) for line in lines] == [(10 * S, 0), (20 * S, 0)]
    assert run('observations', perceived, '--input', 'lidar').out == ''
    assert f'camera  1970-01-01T00:00:10Z  1  {plate}' in run('observations', perceived).out


def test_info_tells_of_inputs_and_landmarks(run: Run, perceived: Path) -> None:
    (facts,) = run('info', perceived, '--json').lines
    assert facts['landmarks'] == {'held': 2, 'confirmed': 1}
    assert facts['inputs']['camera']['late'] == 1
    assert facts['complete'] is False
    told = run('info', perceived).out
    assert '2, 1 of them confirmed' in told
    assert 'no: observations were dropped or late' in told


def test_csv_and_json_are_not_both(run: Run, perceived: Path) -> None:
    answer = run('observations', perceived, '--csv', '--json')
    assert answer.code == 2
    assert answer.out == ''


def test_a_file_with_another_identity_scope_is_read(run: Run, tmp_path: Path) -> None:
    path = tmp_path / 'fleet.db'
    config = MemoryConfig(identity_scope=('map_id', 'robot_id'))
    with MemoryService.open(f'sqlite:///{path}', config=config) as memory:
        for robot in ('r1', 'r2'):
            memory.write(
                [
                    MemoryItem(
                        kind='semantic', key='battery', content='low', scope={'robot_id': robot}, valid_from=1
                    )
                ]
            )
    assert len(run('query', path, '--key', 'battery', '--json').lines) == 2
    assert run('verify', path).code == 0


def broken(folder: Path, how: str, sound: Path) -> Path:
    path = folder / how
    if how == 'directory':
        path.mkdir()
    elif how == 'text':
        path.write_text('not a memory')
    elif how == 'empty':
        path.touch()
    elif how == 'half':
        path.write_bytes(sound.read_bytes()[: sound.stat().st_size // 2])
    elif how == 'foreign':
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute('CREATE TABLE note (text)')
    return path


@pytest.mark.parametrize('how', ['missing', 'directory', 'text', 'empty', 'half', 'foreign'])
@pytest.mark.parametrize('command', ['info', 'query', 'verify', 'snapshot', 'changes', 'observations'])
def test_what_is_no_memory_is_refused_and_left_alone(
    run: Run, file: Path, tmp_path: Path, how: str, command: str
) -> None:
    path = broken(tmp_path, how, file)
    before = path.read_bytes() if path.is_file() else None
    answer = run(command, path)
    assert answer.code == 1
    assert answer.out == ''
    assert answer.err.startswith('hylo-memory: ')
    assert str(path) in answer.err
    assert (path.read_bytes() if path.is_file() else None) == before
