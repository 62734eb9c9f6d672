"""Asking by several things at once: words, a place and a time among 100 000 items."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench._figure import at_most, medians
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.retrieval.probability import probabilities_within
from hylo_memory_ros.service import MemoryService

ITEMS = 100_000
AREA_M = 200.0
RADIUS_M = 12.0
COLOURS = ('red', 'blue', 'green', 'white', 'black', 'yellow', 'grey', 'brown', 'pink', 'gold')
THINGS = ('mug', 'chair', 'table', 'lamp', 'book', 'shoe', 'box', 'plant', 'phone', 'bottle')


def things(seed: int) -> list[MemoryItem]:
    """Return things of ten colours and ten kinds, at random places of a hall of 200 m."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0.0, AREA_M, (ITEMS, 2)).tolist()
    kinds = rng.integers(0, 10, (ITEMS, 2)).tolist()
    return [
        MemoryItem(
            kind='spatial',
            key=f'thing/{number}',
            label=THINGS[thing],
            content=f'{COLOURS[colour]} {THINGS[thing]} seen in aisle {number % 97}',
            valid_from_ns=10**18 + number,
            pose=Pose(frame_id='map', position=(x, y, 0.0)),
        )
        for number, ((x, y), (colour, thing)) in enumerate(zip(places, kinds, strict=True))
    ]


def hybrid() -> Iterator[dict[str, Any]]:
    """Words that a tenth of all speak, a place with a thousand things, and a time: the ten best, fused."""
    seed = 5
    rng = np.random.default_rng(seed + 1)
    with tempfile.TemporaryDirectory() as folder:
        url = f'sqlite:///{Path(folder) / "hall.db"}'
        with MemoryService.open(url, clock=lambda: 2 * 10**18) as memory:
            items = things(seed)
            for first in range(0, ITEMS, 10_000):
                memory.write(items[first : first + 10_000], durable=False)
            centres = rng.uniform(RADIUS_M, AREA_M - RADIUS_M, (400, 2)).tolist()
            totals = []

            def ask(number: int, text: str | None) -> None:
                x, y = centres[number]
                near = (Pose(frame_id='map', position=(x, y, 0.0)), RADIUS_M)
                result = memory.query(MemoryQuery(text=text, near=near, as_of_ns=10**18 + ITEMS, k=10))
                totals.append(result.total)
                assert len(result) == 10

            def computing(number: int) -> float:
                before_s = time.thread_time()
                ask(number, 'mug')
                return time.thread_time() - before_s

            both_s, near_s = medians(200, lambda number: ask(number, 'mug'), lambda number: ask(number, None))
            matches, within = int(np.median(totals[0::2])), int(np.median(totals[1::2]))
            # What else the machine does lengthens a long question more than a short one.
            cpu_s = float(np.median([computing(number) for number in range(100)]))
    yield at_most(
        'hybrid_text_near_as_of_k10_at_100k_ms', both_s * 1e3, 5.0, near_ms=round(near_s * 1e3, 3),
        cpu_ms=round(cpu_s * 1e3, 3), matches=matches, within_radius=within,
        words_match=ITEMS // 10, seed=seed,
    )  # fmt: skip


def p_within() -> Iterator[dict[str, Any]]:
    """The probability of being within the radius, of ten hits."""
    rng = np.random.default_rng(7)
    covariance = np.diag([0.04, 0.02, 0.01, 0.0, 0.0, 0.0]).ravel()
    poses = [
        Pose(frame_id='map', position=tuple(place), covariance=covariance)
        for place in rng.normal(0.0, 0.5, (10, 3)).tolist()
    ]
    (of_ten_s,) = medians(500, lambda _: probabilities_within(poses, (0.0, 0.0, 0.0), 0.8))
    yield at_most('p_within_of_10_hits_ms', of_ten_s * 1e3, 1.0)


FIGURES = {'hybrid': hybrid, 'p_within': p_within}
