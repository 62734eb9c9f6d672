"""Consolidating 100 000 happenings to half while a planner goes on asking, and the past before and after."""

from __future__ import annotations

import gc
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench._figure import at_least, at_most
from bench._past import answers, random_questions
from hylo_memory_ros.model import Budget, MemoryItem, MemoryQuery, Pose, TimeSpan
from hylo_memory_ros.service import MemoryService

ITEMS = 100_000
QUESTIONS = 1000
# A planner that asks 20 times a second.
ASKS_EVERY_S = 0.05
IDLE_S = 20.0
NOW_NS = 2 * 10**18
THINGS = ('mug', 'cup', 'chair', 'door', 'box', 'person', 'table', 'plant', 'shoe', 'ball')
DEEDS = ('saw', 'passed', 'moved', 'opened', 'closed', 'touched', 'avoided', 'lost', 'found', 'heard')
PLACES = ('kitchen', 'hall', 'office', 'dock', 'lab')


def happenings(count: int, seed: int) -> list[MemoryItem]:
    """Return what a robot did and saw, one thing every six seconds on average."""
    rng = random.Random(seed)
    embed = np.random.default_rng(seed)
    stamp_ns, found = 10**18, []
    for number in range(count):
        stamp_ns += int(rng.expovariate(1 / 6) * 1e9)
        thing, place = rng.choice(THINGS), rng.choice(PLACES)
        words = f'{rng.choice(DEEDS)} the {thing} of shelf{rng.randrange(400)} in the {place}'
        position = (rng.uniform(0, 50), rng.uniform(0, 50), 0.0)
        vector = {'toy@1': tuple(embed.normal(size=8).tolist())} if number % 10 == 0 else {}
        found.append(
            MemoryItem(
                kind='episodic',
                content=words,
                label=thing,
                entities=(place,),
                scope={'robot_id': f'r{number % 2}'},
                pose=Pose(frame_id='map', position=position) if number % 3 == 0 else None,
                event_time=TimeSpan(start_ns=stamp_ns, end_ns=stamp_ns + 10**9),
                embeddings=vector,
            )
        )
    return found


def _write(memory: MemoryService, items: list[MemoryItem], size: int = 1000) -> list[str]:
    ids: list[str] = []
    for first in range(0, len(items), size):
        ids += memory.write(items[first : first + size], durable=False).ids
    return ids


class _Planner(threading.Thread):
    """Asks, on and on, and keeps how long each answer took."""

    def __init__(self, memory: MemoryService) -> None:
        super().__init__()
        self._memory = memory
        self._over = threading.Event()
        self.times_s: list[float] = []
        self.computed_s = 0.0

    def run(self) -> None:
        rng = random.Random(3)
        while not self._over.wait(ASKS_EVERY_S):
            begun_s = time.perf_counter()
            self._memory.query(_question(rng))
            self.times_s.append(time.perf_counter() - begun_s)
        self.computed_s = time.thread_time()

    def end(self) -> list[float]:
        self._over.set()
        self.join()
        return self.times_s


def _question(rng: random.Random) -> MemoryQuery:
    centre = Pose(frame_id='map', position=(rng.uniform(0, 50), rng.uniform(0, 50), 0.0))
    choice = rng.randrange(3)
    if choice == 0:
        return MemoryQuery(text=f'shelf{rng.randrange(400)} {rng.choice(THINGS)}', k=10)
    if choice == 1:
        return MemoryQuery(near=(centre, 2.0), k=10)
    return MemoryQuery(near=(centre, 10.0), labels=(rng.choice(THINGS),), k=10)


def consolidation() -> Iterator[dict[str, Any]]:
    """How long it takes, what it does to answers meanwhile, and that the past stays as it was."""
    items = happenings(ITEMS, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        url = f'sqlite:///{Path(folder) / "memory.db"}'
        with MemoryService.open(url, clock=lambda: NOW_NS) as memory:
            ids = _write(memory, items)
            questions = random_questions(items, ids, memory.sequence, QUESTIONS, seed=2)
            known = answers(memory, questions)
            # As the node does: else the collector goes through what the bench holds, and stops both threads.
            gc.collect()
            gc.freeze()
            planner = _Planner(memory)
            planner.start()
            time.sleep(IDLE_S)
            idle_s = planner.end()
            idle_cpu_ms = planner.computed_s / len(idle_s) * 1e3
            planner = _Planner(memory)
            planner.start()
            begun_s, computed_s = time.perf_counter(), time.thread_time()
            report = memory.consolidate(budget=Budget(items=ITEMS // 2))
            took_s = time.perf_counter() - begun_s
            computed_s = time.thread_time() - computed_s
            meanwhile_s = planner.end()
            meanwhile_cpu_ms = planner.computed_s / len(meanwhile_s) * 1e3
            load = os.getloadavg()[0]
            same = sum(a == b for a, b in zip(known, answers(memory, questions), strict=True))
    yield at_most(
        'consolidate_100k_episodic_to_half_s', took_s, 30.0, cpu_s=round(computed_s, 1), load=round(load, 1),
        items_after=report.items_after, merged=len(report.merged), summarized=len(report.summarized),
        aged=len(report.aged),
    )  # fmt: skip
    idle, during = (float(np.percentile(times_s, 99)) for times_s in (idle_s, meanwhile_s))
    yield at_most(
        'query_p99_beside_consolidation_over_idle', during / idle, 2.0, idle_ms=round(idle * 1e3, 2),
        meanwhile_ms=round(during * 1e3, 2), longest_idle_ms=round(max(idle_s) * 1e3, 2),
        longest_meanwhile_ms=round(max(meanwhile_s) * 1e3, 2), asked=len(meanwhile_s),
        cpu_idle_ms=round(idle_cpu_ms, 2), cpu_meanwhile_ms=round(meanwhile_cpu_ms, 2),
    )  # fmt: skip
    yield at_most('longest_query_beside_consolidation_ms', max(meanwhile_s) * 1e3, 50.0)
    yield at_least('answers_known_before_a_consolidation_that_stay', same / QUESTIONS, 1.0, asked=QUESTIONS)


FIGURES = {'consolidation': consolidation}
