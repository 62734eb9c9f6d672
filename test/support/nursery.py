"""A process that has imported everything and forks one child for each kill; the child kills itself.

Steps are what reaches the file system or SQLite: opened files, renames, statements.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from support import effort
from support.child import PRELUDE

__all__ = ['Ended', 'Nursery']

# Every step takes minutes (a stride of 1 was tried); so many reach every part of an operation, each night.
KILLS = 8

NURSERY = (
    PRELUDE
    + """
import signal, sqlite3

STEPS = {'open', 'os.rename', 'os.link', 'os.remove', 'os.mkdir', 'os.truncate', 'fcntl.flock'}
steps = 0

def step(last):
    global steps
    steps += 1
    if steps == last:
        os.kill(os.getpid(), signal.SIGKILL)

def arm(last):
    connect = sqlite3.connect

    def traced(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(lambda statement: step(last))
        return connection

    sqlite3.connect = traced
    sys.addaudithook(lambda event, arguments: event in STEPS and step(last))

def acknowledge(word):
    os.write(acknowledged, word.encode() + b' ')

with tempfile.TemporaryDirectory() as spare, MemoryService.open(f'sqlite:///{spare}/m.db') as memory:
    memory.write([fact(0)])

for line in sys.stdin:
    folder, code, last = json.loads(line)
    child = os.fork()
    if child == 0:
        folder = pathlib.Path(folder)
        url = f'sqlite:///{folder}/memory.db'
        acknowledged = os.open(folder / 'acknowledged', os.O_CREAT | os.O_WRONLY)
        arm(last)
        exec(code)
        acknowledge(f'done after {steps}')
        os._exit(0)
    _, status = os.waitpid(child, 0)
    tell(status)
"""
)


class Ended(NamedTuple):
    """How a child ended, and what it had acknowledged."""

    status: int
    words: list[str]


class Nursery:
    """The process that forks."""

    def __init__(self) -> None:
        command = [sys.executable, '-c', NURSERY]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, folder: Path, code: str, last: int = 0) -> Ended:
        """Run `code` in a child that is killed before step `last`; 0: never."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps((str(folder), code, last)) + '\n')
        self._process.stdin.flush()
        status = json.loads(self._process.stdout.readline())
        return Ended(status, (folder / 'acknowledged').read_text().split())

    def kill_along(self, origin: Path, code: str, kills: int = KILLS) -> Iterator[tuple[Path, list[str]]]:
        """Kill the same operation on fresh copies of a folder, earlier and later."""
        whole = self._copy(origin, 'whole')
        ended = self.run(whole, code)
        assert (ended.status, ended.words[-3:-1]) == (0, ['done', 'after'])
        steps = int(ended.words[-1])
        yield whole, ended.words
        for last in range(1, steps + 1, steps // effort.kills(kills) + 1):
            folder = self._copy(origin, f'{last}')
            ended = self.run(folder, code, last)
            assert ended.status == 9, f'not killed at step {last} of {steps}'
            yield folder, ended.words

    @staticmethod
    def _copy(origin: Path, name: str) -> Path:
        return Path(shutil.copytree(origin, origin.with_name(f'{origin.name}-{name}')))

    def close(self) -> None:
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0
