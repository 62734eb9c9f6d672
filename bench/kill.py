"""Kill a writer at random moments, a hundred times: nothing acknowledged may be missing.

Not a measure of time: the figure counts what was acknowledged and is gone.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench._figure import at_least, at_most
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.service import MemoryService

KILLS = 100
# Some kills come before the first acknowledgement, at the start of the process or of the file.
EARLY = 0.2

_WRITER = """
import sys
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

print('begun', flush=True)
first = int(sys.argv[2])
with MemoryService.open(sys.argv[1]) as memory:
    for number in range(first, first + 1_000_000):
        pose = Pose(frame_id='map', position=(number % 100, number // 100, 0.0))
        item = MemoryItem(kind='spatial', key=f'k{number}', content=f'fact {number}', pose=pose, valid_from=1)
        print('write', number, memory.write([item]).sequence, flush=True)
        if number % 5 == 0 and memory.forget(MemoryQuery(key=f'k{number}')):
            print('forget', number, memory.sequence, flush=True)
"""


class Tally(NamedTuple):
    """What a series of kills left behind."""

    kills: int
    early: int
    """Kills before the first acknowledgement."""
    acknowledged: int
    missing: int
    problems: tuple[str, ...]
    """What verification found, after whichever kill."""


def kill_writers(folder: Path, kills: int, seed: int = 1) -> Tally:
    """Kill one writer after another on the same file, and look after each kill."""
    chance = random.Random(seed)
    url = f'sqlite:///{folder / "memory.db"}'
    said: dict[int, str] = {}
    early, problems = 0, []
    for _ in range(kills):
        answers = _killed_writer(url, max(said, default=0) + 1, chance)
        early += not answers
        said |= {number: what for what, number in answers}
        problems += _problems(url)
    return Tally(kills, early, len(said), _missing(url, said), tuple(problems))


def _killed_writer(url: str, first: int, chance: random.Random) -> list[tuple[str, int]]:
    """Start a writer, kill it at a random moment, and return what it acknowledged."""
    command = [sys.executable, '-c', _WRITER, url, str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline()]
        if chance.random() >= EARLY:
            lines += [writer.stdout.readline() for _ in range(chance.randrange(1, 30))]
        _let_pass(chance.uniform(0.0, 0.02))
        writer.kill()
        lines += writer.stdout.readlines()
    # A last line without its end was cut off by the kill: it was not acknowledged.
    whole = [line.split() for line in lines if line.endswith('\n')]
    return [(words[0], int(words[1])) for words in whole if len(words) == 3]


def _let_pass(seconds: float) -> None:
    # The kill must come at any moment, so here time itself is what is waited for.
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def _problems(url: str) -> tuple[str, ...]:
    if not Path(url.removeprefix('sqlite:///')).exists():
        return ()
    with MemoryService.open(url) as memory:
        return memory.verify().problems


def _missing(url: str, said: dict[int, str]) -> int:
    with MemoryService.open(url) as memory:
        missing = 0
        for number, what in said.items():
            found = memory.query(MemoryQuery(key=f'k{number}', include_invalidated=True))
            status = found[0].status if found else ''
            missing += not found or (what == 'forget' and status != 'forgotten')
    return missing


def kill() -> Iterator[dict[str, Any]]:
    """Kill a writer a hundred times."""
    with tempfile.TemporaryDirectory() as folder:
        tally = kill_writers(Path(folder), KILLS)
    yield at_most(
        'acknowledged_writes_missing_after_100_kills', tally.missing, 0, acknowledged=tally.acknowledged
    )
    yield at_most(
        'problems_found_after_100_kills', len(tally.problems), 0, first=json.dumps(tally.problems[:1])
    )
    yield at_least('kills_before_the_first_answer', tally.early, 1, kills=tally.kills)


FIGURES = {'kill': kill}
