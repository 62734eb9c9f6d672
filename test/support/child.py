"""Work done in a process of its own: without privileges, on a small disk, or to be killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

NOBODY = 65534
TIMEOUT_S = 60

PRELUDE = """
import json, os, pathlib, resource, signal, sys, tempfile
from hylo_memory_ros.config import MemoryConfig
from hylo_memory_ros.errors import HyloMemoryError
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

# A shell that runs the tests in the background leaves it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

def fact(number, **fields):
    return MemoryItem(kind='semantic', key=f'k{number}', content=f'fact {number}', valid_from=1, **fields)

def tell(value):
    print(json.dumps(value), flush=True)

def attempt(act):
    try:
        return act()
    except HyloMemoryError as refusal:
        return {'refused': type(refusal).__name__, 'message': str(refusal)}
"""

_PLACE = """
folder = pathlib.Path(sys.argv[1])
path = folder / 'memory.db'
url = f'sqlite:///{path}'
"""

# Everything that is imported late is imported while it can be read.
_SERVE_UNPRIVILEGED = f"""
with tempfile.TemporaryDirectory() as spare, MemoryService.open(f'sqlite:///{{spare}}/m.db') as memory:
    memory.write([fact(0)])
    MemoryService.open(f'sqlite:///{{spare}}/m.db', read_only=True).close()
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
for line in sys.stdin:
    sys.argv[1:], code = json.loads(line)
    exec(code, dict(globals()))
"""


def script(code: str) -> list[str]:
    """Return the command line that runs `code`; the folder it works in follows as an argument."""
    return [sys.executable, '-W', 'error', '-c', PRELUDE + _PLACE + textwrap.dedent(code)]


class Unprivileged:
    """A process that may write only where everybody may."""

    def __init__(self) -> None:
        command = [sys.executable, '-W', 'error', '-c', PRELUDE + _SERVE_UNPRIVILEGED]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, code: str, folder: Path) -> Any:
        """Run `code`, and return what it told."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(([str(folder)], _PLACE + textwrap.dedent(code))) + '\n')
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=TIMEOUT_S)
        assert self._process.returncode == 0


def run_on_small_disk(code: str, folder: Path, kilobytes: int) -> Any:
    """Run `code` where no file can grow beyond a size: on a disk of its own, or else with a limit.

    What the disk held is copied to `folder` afterwards.
    """
    if _can_mount():
        mount = f'mount -t tmpfs -o size={kilobytes}k none "$1" && shift && "$@"; status=$?; '
        keep = f'cp -a "{folder}/." "{folder}.kept" && exit $status'
        shell = ['unshare', '-m', 'sh', '-c', mount + keep, 'sh', str(folder)]
        told = _last_told([*shell, *script(code), str(folder)])
        shutil.copytree(f'{folder}.kept', folder, dirs_exist_ok=True)
        return told
    limit = f'resource.setrlimit(resource.RLIMIT_FSIZE, ({kilobytes * 1024}, {kilobytes * 1024}))\n'
    return _last_told([*script(limit + textwrap.dedent(code)), str(folder)])


def _can_mount() -> bool:
    if os.geteuid() != 0 or shutil.which('unshare') is None:
        return False
    command = ['unshare', '-m', 'sh', '-c', 'mount -t tmpfs none /mnt']
    return subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False).returncode == 0


def _last_told(command: list[str]) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
