"""A prompt of 50 hits, and what a receipt adds to a query."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench._figure import at_most, medians, ratio
from hylo_memory_ros.evidence.prompts import half_of_ascii, rendered, renderer_named
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService

ITEMS = 5000
HITS = 50
ROUNDS = 400


def filled() -> MemoryService:
    """Return a memory of things at random places of a hall, 100 m wide."""
    places = np.random.default_rng(1).uniform(0.0, 100.0, (ITEMS, 3))
    memory = MemoryService.open()
    memory.write([
        MemoryItem(
            kind='spatial', key=f'thing/{number}', label='thing', valid_from=100 + number,
            content=f'thing {number}, seen on a shelf beside the door of room {number % 40}',
            pose=Pose(frame_id='map', position=tuple(place)), confidence=0.9,
            payload={'grasp': 'side', 'mass_kg': 0.25}, entities=(f'room {number % 40}',),
        )
        for number, place in enumerate(places.tolist())
    ])  # fmt: skip
    return memory


def question(number: int, k: int) -> MemoryQuery:
    """Return a question about what is around a place; each another."""
    position = (float(number * 37 % 100), float(number * 53 % 100), 50.0)
    return MemoryQuery(near=(Pose(frame_id='map', position=position), 100.0), k=k)


def rendering() -> Iterator[dict[str, Any]]:
    """Measure the text of 50 hits, all digests included; what retrieves them is counted beside it."""
    with filled() as memory:
        renderer = renderer_named('')
        answers = [memory.query(question(number, HITS)) for number in range(64)]

        def render(number: int) -> object:
            text = rendered(answers[number % 64], renderer, half_of_ascii, 20_000)
            return text.digest, [segment.digest for segment in text.segments]

        def ask(number: int) -> object:
            return memory.query(question(number, HITS))

        wall_s, asked_s = medians(ROUNDS, render, ask)
        cpu_s = statistics.median(cpu_seconds(render, number) for number in range(ROUNDS))
    yield at_most(
        'render of 50 hits, ms of computing', cpu_s * 1e3, 2.0,
        wall_ms=round(wall_s * 1e3, 3), query_ms=round(asked_s * 1e3, 3),
    )  # fmt: skip


def cpu_seconds(act: Callable[[int], object], number: int) -> float:
    """Return the time of this thread alone: nothing is waited for, and other processes do not count."""
    start = time.thread_time()
    act(number)
    return time.thread_time() - start


def receipt() -> Iterator[dict[str, Any]]:
    """Measure a query with a receipt over one without, and the replay of one."""
    with filled() as memory:
        with_s, without_s = medians(
            4 * ROUNDS,
            lambda n: memory.query(question(n, 10), receipt=True),
            lambda n: memory.query(question(n, 10)),
        )
        yield at_most(
            'query with a receipt / without', with_s / without_s, 1.3,
            with_ms=round(with_s * 1e3, 3), without_ms=round(without_s * 1e3, 3),
        )  # fmt: skip
        name = memory.query(question(1, 10), receipt=True).receipt_id
        read = medians(ROUNDS, lambda _: memory.receipt(name), lambda n: memory.query(question(n, 10)))
        replayed = medians(
            ROUNDS, lambda _: memory.replay_receipt(name), lambda n: memory.query(question(n, 10))
        )
        yield at_most('replay of a receipt / query', ratio(replayed), 4.0, read_ms=round(read[0] * 1e3, 3))


FIGURES = {'rendering': rendering, 'receipt': receipt}
