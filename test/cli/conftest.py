"""A memory file with a known content, and the command line run on it."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hylo_memory_ros.cli import main
from hylo_memory_ros.model import MemoryItem, MemoryKind, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

S = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now_ns = 100 * S

    def __call__(self) -> int:
        return self.now_ns


def spatial(key: str, x: float, valid_from: float, label: str = 'mug', **fields: object) -> MemoryItem:
    covariance = [0.0] * 36
    covariance[0] = covariance[7] = covariance[14] = 0.04
    return MemoryItem(
        kind=MemoryKind.SPATIAL,
        key=key,
        label=label,
        content=f'the {key}',
        pose=Pose(frame_id='map', position=(x, 0.0, 0.0), covariance=covariance),
        valid_from=valid_from,
        scope={'map_id': 'flat'},
        **fields,
    )


@dataclass
class Written:
    """A memory that is open for writing, as a node holds it."""

    path: Path
    memory: MemoryService
    clock: Clock


def filled(path: Path, clock: Clock) -> MemoryService:
    memory = MemoryService.open(f'sqlite:///{path}', clock=clock)
    memory.write([spatial('red mug', 1.0, 10.0), spatial('lamp', 4.0, 20.0, 'lamp')])
    clock.now_ns = 200 * S
    memory.write([spatial('red mug', 2.0, 150.0)], actor='tester')
    memory.write([MemoryItem(kind=MemoryKind.EPISODIC, content='opened the door', valid_from=160.0)])
    clock.now_ns = 300 * S
    memory.forget(MemoryQuery(key='lamp'), reason='moved out')
    return memory


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    clock, path = Clock(), tmp_path / 'memory.db'
    with filled(path, clock) as memory:
        yield Written(path, memory, clock)


@pytest.fixture(scope='session')
def at_rest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp('cli') / 'memory.db'
    filled(path, Clock()).close()
    return path


@pytest.fixture
def file(at_rest: Path, tmp_path: Path) -> Path:
    """A copy of the same memory at rest."""
    return Path(shutil.copy(at_rest, tmp_path / 'memory.db'))


@dataclass
class Ran:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert 'Traceback' not in captured.err
        return Ran(code, captured.out, captured.err)

    return ran
