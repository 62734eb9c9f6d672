"""`hylo-memory replay`: one command from a bag to a memory, and no traceback for a bad one."""

import sys
from pathlib import Path

import pytest

pytest.importorskip('rosbags', reason='rosbags is not installed')
pytest.importorskip('yaml', reason='PyYAML is not installed')

import yaml
from support.bags import PARAMETERS, Types, a_drive, write_bag

from .conftest import Run


@pytest.fixture(scope='module')
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    types = Types()
    return write_bag(tmp_path_factory.mktemp('bags') / 'drive', a_drive(types, seconds=3.0), types)


@pytest.fixture(scope='module')
def params(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp('params') / 'params.yaml'
    path.write_text(yaml.safe_dump({'hylo_memory': {'ros__parameters': PARAMETERS}}))
    return path


def test_a_bag_becomes_a_memory_file(run: Run, bag: Path, params: Path, tmp_path: Path) -> None:
    file = tmp_path / 'new' / 'memory.db'
    answer = run('replay', bag, '--params', params, '--database', file, '--json')

    assert answer.code == 0
    (told,) = answer.lines
    assert told['complete'] is True
    assert told['skipped'] == {'/camera': 'sensor_msgs/msg/Imu'}
    assert told['inputs']['boxes']['consumed'] == 30
    assert told['factor'] > 0.0
    assert run('snapshot', file).out.strip() == told['snapshot']
    assert run('verify', file).code == 0
    assert run('query', file, '--key', 'dock', '--json').lines[0]['label'] == 'dock'


@pytest.mark.parametrize(
    ('given', 'problem'),
    [
        ('databse_path:=x', "databse_path: {NONE}; did you mean 'database_path'?"),
        ('mispelt:=1', 'mispelt: {NONE}'),
        ('input.dok.frame:=map', "input.dok.*: inputs does not list 'dok'; did you mean 'dock'?"),
        ('input.dock.topc:=a', "input.dock.topc: {NONE}; did you mean 'input.dock.topic'?"),
        ('space.clip@1.dimension:=3', "space.clip@1.*: embedding_spaces does not list 'clip@1'"),
    ],
)  # fmt: skip
def test_a_name_that_is_no_parameter_is_refused(
    run: Run, bag: Path, params: Path, given: str, problem: str
) -> None:
    answer = run('replay', bag, '--params', params, '-p', given)
    assert answer.code != 0
    assert problem.replace('{NONE}', 'there is no parameter of this name') in ' '.join(answer.err.split())


def test_without_a_file_the_answer_is_the_same(run: Run, bag: Path, params: Path) -> None:
    once, twice = (
        run('replay', bag, '--params', params, '--json', *more).lines[0] for more in ([], ['--loops', '2'])
    )
    assert once['snapshot'] == twice['snapshot']
    assert twice['inputs']['boxes']['repeated'] == 30


def test_people_get_words(run: Run, bag: Path, params: Path) -> None:
    answer = run('replay', bag, '--params', params, '-p', 'input.dock.topic:=harbour')
    assert answer.code == 0
    for text in (
        'times as fast',
        'nothing on /harbour',
        '/camera (sensor_msgs/msg/Imu)',
        'sha256:',
        '30 consumed',
        '6 refused (marker_type)',
    ):
        assert text in ' '.join(answer.out.split())


def test_a_refusal_is_one_line_and_exit_code_1(run: Run, bag: Path, params: Path, tmp_path: Path) -> None:
    cut = tmp_path / 'cut.mcap'
    (file,) = bag.glob('*.mcap')
    cut.write_bytes(file.read_bytes()[:5000])
    bad = tmp_path / 'bad.yaml'
    bad.write_text('a: [')
    taken = tmp_path / 'taken'
    taken.write_text('no folder')
    for arguments, told in (
        ([tmp_path / 'none', '--params', params], 'there is no such bag'),
        ([cut, '--params', params], 'cut.mcap'),
        ([bag], 'the parameters declare none'),
        ([bag, '--params', bad], 'bad.yaml'),
        ([bag, '--params', tmp_path / 'none.yaml'], 'none.yaml'),
        ([bag, '--params', params, '-p', 'tf_timeout_s:=soon'], "tf_timeout_s: 'soon'"),
        ([bag, '--params', params, '--node', 'memory'], 'full name'),
        ([bag, '--params', params, '--remap', 'a'], 'from:=to'),
        ([bag, '--params', params, '--database', params], 'params.yaml'),
        ([bag, '--params', params, '--database', taken / 'memory.db'], 'taken'),
    ):
        answer = run('replay', *arguments)
        assert (answer.code, answer.out) == (1, ''), arguments
        assert told in answer.err, arguments
        assert answer.err.strip().splitlines()[-1].startswith('hylo-memory: ')


def test_wrong_use_is_exit_code_2(run: Run, bag: Path) -> None:
    assert run('replay').code == 2
    assert run('replay', bag, '--loops', '0').code == 2


def test_a_missing_library_is_named(
    run: Run, bag: Path, params: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setitem(sys.modules, 'rosbags.rosbag2', None)
    answer = run('replay', bag, '--params', params)
    assert answer.code == 1
    assert "pip install 'hylo-memory-ros[replay]'" in answer.err
    monkeypatch.setitem(sys.modules, 'yaml', None)
    assert "pip install 'hylo-memory-ros[replay]'" in run('replay', bag, '--params', params).err
