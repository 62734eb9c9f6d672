"""The whole job, over DDS, on the beginning of the drive: the same bag gives the same memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('rclpy', reason='ROS is not installed')
pytest.importorskip('rosbags', reason='rosbags is not installed')

from hylo_memory_ros.parameters import ParameterFile
from hylo_memory_ros.replay import Bag, replay

ROOT = Path(__file__).resolve().parents[2]
ROWS = 900
pytestmark = pytest.mark.ros


def demo(out: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    command = [sys.executable, '-m', 'demo', '--rows', str(ROWS), '--out', str(out), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    *report, last = done.stdout.splitlines()
    return json.loads(last), '\n'.join(report)


def replayed_without_ros(out: Path) -> str:
    given = ParameterFile()
    given.read(ROOT / 'demo' / 'params.yaml')
    with Bag(list(out.glob('victoria_park*'))) as bag:
        return replay(bag, given.configuration()).snapshot


@pytest.fixture(scope='module')
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """Return the folder of a run, its last line, and its report."""
    out = tmp_path_factory.mktemp('once')
    return (out, *demo(out))


def test_a_replay_over_dds_gives_the_memory_of_one_without(
    once: tuple[Path, dict[str, Any], str],
) -> None:
    out, ended, report = once
    assert ended['complete'] is True
    assert ended['pairwise_f1'] >= 0.99
    assert ended['landmarks'] >= ended['confirmed'] > 0
    assert ended['snapshot'].startswith('sha256:')
    assert 'now, as known half-way' in report
    assert (out / 'map.png').read_bytes().startswith(b'\x89PNG')
    assert replayed_without_ros(out) == ended['snapshot']


@pytest.mark.long
def test_a_looped_replay_gives_the_same_memory_as_one(
    once: tuple[Path, dict[str, Any], str], tmp_path: Path
) -> None:
    looped, _ = demo(tmp_path, '--loops', '2')
    assert {**looped, 'seconds': 0} == {**once[1], 'seconds': 0}


def test_a_node_that_does_not_start_ends_the_run_with_its_last_words(tmp_path: Path) -> None:
    parameters = tmp_path / 'params.yaml'
    parameters.write_text('hylo_memory: [this is no parameter file')
    code = (
        'import pathlib, sys, demo.node_process as node; '
        f'node._PARAMETERS = pathlib.Path({str(parameters)!r}); '
        f'from demo.__main__ import main; sys.exit(main(["--rows", "50", "--out", {str(tmp_path)!r}]))'
    )
    done = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 1
    assert 'the node ended' in done.stderr
    assert 'ROS does not start' in done.stderr
    assert done.stdout == ''


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    import fcntl

    with (tmp_path / '.lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, '-m', 'demo', '--out', str(tmp_path)],
            cwd=ROOT, capture_output=True, text=True, timeout=240, check=False, env={**os.environ},
        )  # fmt: skip
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr
