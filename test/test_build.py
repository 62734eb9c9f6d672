"""What ./dev says when something is missing, and what `pip install .` brings."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with ./dev and nothing made yet."""
    shutil.copy(ROOT / 'dev', tmp_path / 'dev')
    shutil.copytree(ROOT / 'requirements', tmp_path / 'requirements')
    return tmp_path


def dev(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(folder / 'dev'), *arguments]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=60
    )


def python_without(tmp_path: Path, pattern: str, answer: str) -> str:
    """Return an interpreter that gives `answer` to command lines that match the shell pattern."""
    path = tmp_path / 'python-without'
    path.write_text(f'#!/bin/sh\ncase "$*" in {pattern}) {answer} ;; esac\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_usage_names_every_command(checkout: Path) -> None:
    shown = dev(checkout)
    assert shown.returncode == 0
    for command in ('demo', 'test', 'node', 'bench', 'lint', 'build'):
        assert f'\n  {command} ' in shown.stdout


def test_unknown_command_is_refused(checkout: Path) -> None:
    refused = dev(checkout, 'biuld')
    assert refused.returncode == 1
    assert 'unknown command: biuld' in refused.stderr


def test_missing_compiler_is_named(checkout: Path) -> None:
    refused = dev(checkout, 'build', PYTHON=sys.executable, CXX='no-such-compiler')
    assert refused.returncode == 1
    assert 'no C++ compiler: no-such-compiler' in refused.stderr
    assert not (checkout / '.venv').exists()


def test_unsuitable_python_is_named(checkout: Path) -> None:
    refused = dev(checkout, 'build', PYTHON='/bin/false')
    assert refused.returncode == 1
    assert 'no Python 3.10 to 3.13 found (tried /bin/false)' in refused.stderr


def test_missing_headers_are_named(checkout: Path, tmp_path: Path) -> None:
    python = python_without(tmp_path, '*sysconfig*', 'echo /nowhere/Python.h; exit')
    refused = dev(checkout, 'build', PYTHON=python)
    assert refused.returncode == 1
    assert 'no /nowhere/Python.h' in refused.stderr


def test_missing_venv_module_is_named(checkout: Path, tmp_path: Path) -> None:
    python = python_without(tmp_path, '"-m venv "*', 'exit 1')
    refused = dev(checkout, 'build', PYTHON=python)
    assert refused.returncode == 1
    assert 'python3-venv' in refused.stderr


def test_wheel_is_the_core_with_its_migrations_and_command(tmp_path: Path) -> None:
    source = tmp_path / 'source'
    source.mkdir()
    for name in ('pyproject.toml', 'setup.py', 'README.md', 'LICENSE'):
        shutil.copy(ROOT / name, source / name)
    for name in ('hylo_memory_ros', 'requirements'):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns('__pycache__'))
    pip = [
        sys.executable,
        '-m',
        'pip',
        'wheel',
        '--quiet',
        '--no-deps',
        '--no-build-isolation',
        '-w',
        '..',
        '.',
    ]
    subprocess.run(pip, cwd=source, check=True, timeout=100)
    (wheel,) = tmp_path.glob('*.whl')
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        (entries,) = (packed.read(n).decode() for n in names if n.endswith('entry_points.txt'))
    assert wheel.name.endswith('-py3-none-any.whl')
    assert 'hylo-memory = hylo_memory_ros.cli:main' in entries
    sources = {
        str(path.relative_to(ROOT))
        for path in (ROOT / 'hylo_memory_ros').rglob('*')
        if path.is_file() and '__pycache__' not in path.parts
    }
    assert any('/storage/migrations/' in name for name in sources)
    assert {name for name in names if name.startswith('hylo_memory_ros/')} == sources


def test_core_imports_without_ros(tmp_path: Path) -> None:
    program = (
        'import sys\n'
        'for name in ("rclpy", "tf2_ros", "geometry_msgs", "std_msgs"): sys.modules[name] = None\n'
        'import hylo_memory_ros.service, hylo_memory_ros.perception, hylo_memory_ros.cli\n'
    )
    subprocess.run([sys.executable, '-c', program], cwd=tmp_path, check=True, timeout=60)
