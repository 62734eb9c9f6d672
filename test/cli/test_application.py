import subprocess
import sys
from pathlib import Path

import pytest

from hylo_memory_ros import __version__

from .conftest import Run

COMMANDS = ['info', 'query', 'history', 'changes', 'verify', 'snapshot', 'observations', 'plot', 'replay']


def test_help_names_every_command(run: Run) -> None:
    answer = run('--help')
    assert answer.code == 0
    assert all(f'  {command} ' in answer.out for command in COMMANDS)


@pytest.mark.parametrize('command', COMMANDS)
def test_each_command_explains_itself(run: Run, command: str) -> None:
    answer = run(command, '--help')
    assert answer.code == 0
    assert 'FILE' in answer.out


def test_the_version_is_that_of_the_package(run: Run) -> None:
    assert run('--version').out == f'hylo-memory {__version__}\n'


@pytest.mark.parametrize(
    ('arguments', 'named'),
    [
        (['--as-of', '2026-01-02T03:00'], ['--as-of', '2026-01-02T03:00', 'offset']),
        (['--known-at', 'soon'], ['--known-at', 'soon']),
        (['--near', '1', '2', '3'], ['--radius', '--near']),
        (['--radius', '3'], ['--near', '--radius']),
        (['--near', '1', 'x', '3', '--radius', '1'], ['--near', "'x'"]),
        (['--near', '1', '2', '3', '--radius', 'wide'], ['--radius', "'wide'"]),
        (['-k', 'many'], ['-k', "'many'"]),
        (['--kind', 'vague'], ['--kind', 'vague']),
        (['--nonsense'], ['--nonsense']),
    ],
)
def test_wrong_use_names_option_and_value(
    run: Run, file: Path, arguments: list[str], named: list[str]
) -> None:
    answer = run('query', file, *arguments)
    assert answer.code == 2
    assert answer.out == ''
    assert all(name in answer.err for name in named)


@pytest.mark.parametrize(
    ('arguments', 'named'),
    [
        (['--key', ' '], ['key', "' '", 'blank']),
        (['--near', '1', '2', '3', '--radius', '-1'], ['near', '-1']),
        (['--near', '1', '2', 'inf', '--radius', '1'], ['position', 'inf']),
        (['--near', '1', '2', '3', '--radius', '1', '--frame', '//map'], ['frame_id', '//map']),
        (['-k', '-1'], ['k: -1']),
        (['--min-confidence', '3'], ['min_confidence', '3']),
        (['--known-at', '5', '--known-seq', '1'], ['known_at', 'known_seq']),
        (['--cursor', 'torn'], ['cursor']),
        (['--key', 'a\x07'], ['control character']),
    ],
)
def test_a_refusal_names_field_value_and_rule(
    run: Run, file: Path, arguments: list[str], named: list[str]
) -> None:
    answer = run('query', file, *arguments)
    assert (answer.code, answer.out) == (1, '')
    assert len(answer.err.splitlines()) == 1
    assert all(name in answer.err for name in named)


def test_ros_is_not_imported() -> None:
    code = (
        'import sys, hylo_memory_ros.cli; '
        'sys.exit(any(name.split(".")[0] in ("rclpy", "matplotlib") for name in sys.modules))'
    )
    assert subprocess.run([sys.executable, '-c', code], check=False).returncode == 0
