"""The spatial mirror against a bare KD-tree over the same points, and against itself."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bench._figure import at_most, medians, ratio, seconds
from hylo_memory_ros.index import OPEN, BelievedRow, RadiusQuery, RowBatch, SpatialIndex

LARGE = int(os.environ.get('HYLO_BENCH_ITEMS', '1000000'))
AREA_M = 1000.0
# About 17 of a million landmarks in a square kilometre lie this near.
RADIUS_M = 2.3 * (1_000_000 / LARGE) ** 0.5
ROUNDS = 4000
BATCH = 10_000
VERSIONS = 10
NOW = 10**9


class World:
    """Current landmarks at random places of a square kilometre, in a mirror and in a bare tree."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.points = np.column_stack([rng.uniform(0.0, AREA_M, (LARGE, 2)), rng.uniform(0.0, 2.0, LARGE)])
        self.centers = [tuple(point) for point in self.points[rng.integers(0, LARGE, ROUNDS)].tolist()]
        self.mirror = SpatialIndex(now_ns=lambda: NOW)
        resident = psutil.Process().memory_info().rss
        self.load_s = seconds(lambda: self.mirror.load(batches(self.points), 1))
        gc.collect()
        self.resident_mb = (psutil.Process().memory_info().rss - resident) / 1e6
        self.bare = cKDTree(self.points)
        self._rows = count(LARGE + 1)
        self._old = iter(rng.permutation(LARGE).tolist())

    def ask(self, number: int) -> object:
        """Ask the mirror for ids."""
        center = self.centers[number % ROUNDS]
        return self.mirror.ids_within(RadiusQuery('park', 'map', center, RADIUS_M, at_ns=NOW))

    def ask_bare(self, number: int) -> object:
        """Ask the bare tree, at another place than `ask`, so that neither warms the other's memory."""
        return self.bare.query_ball_point(self.centers[(number + ROUNDS // 2) % ROUNDS], RADIUS_M)

    def write(self) -> None:
        """Replace one landmark by a version a little farther on."""
        row, old = next(self._rows), next(self._old)
        x, y, z = self.points[old].tolist()
        sequence = self.mirror.sequence + 1
        added = BelievedRow(row, row, 'park', 'map', x + 0.1, y, z, NOW, None, sequence)
        self.mirror.apply(sequence, [added], [old + 1])


@lru_cache(maxsize=1)
def world() -> World:
    """Return the world, made once: building it takes longer than measuring."""
    return World()


def batches(points: NDArray[np.float64]) -> Iterator[RowBatch]:
    """Yield points as rows believed and valid since ever."""
    for start in range(0, len(points), BATCH):
        piece = points[start : start + BATCH]
        rows = np.arange(start + 1, start + 1 + len(piece))
        ones = np.ones(len(piece), np.int64)
        yield RowBatch(rows, rows, 'park', 'map', piece, ones, ones * OPEN, ones, ones * OPEN)


def ids() -> Iterator[dict[str, Any]]:
    """Ids within a radius among current landmarks, against the bare tree."""
    here = world()
    here.mirror.wait_idle()
    values = medians(ROUNDS, here.ask, here.ask_bare)
    hits = statistics.mean(
        len(here.mirror.within(RadiusQuery('park', 'map', c, RADIUS_M))) for c in here.centers[:200]
    )
    more = {'items': LARGE, 'hits': round(hits, 1), 'bare_us': round(values[1] * 1e6, 1)}
    yield at_most('mirror ids within r / bare cKDTree', ratio(values), 3.0, **more)


def ids_with_writes() -> Iterator[dict[str, Any]]:
    """The same with one write in ten queries; its share of following the commit counts too."""
    here = world()
    asked: list[float] = []
    bare: list[float] = []
    written: list[float] = []
    for number in range(ROUNDS):
        if number % 10 == 0:
            written.append(seconds(here.write))
        asked.append(_timed(here.ask, number))
        bare.append(_timed(here.ask_bare, number))
    value = (statistics.median(asked) + statistics.median(written) / 10) / statistics.median(bare)
    more = {'apply_us': round(statistics.median(written) * 1e6, 1)}
    yield at_most('mirror ids within r, a write in ten / bare cKDTree', value, 3.0, items=LARGE, **more)


def rebuild() -> Iterator[dict[str, Any]]:
    """The slowest query while every tree is rebuilt; beside it, the slowest of as many without a rebuild."""
    here = world()
    here.mirror.wait_idle()
    times: list[float] = []
    here.mirror.rebuild()
    start = time.perf_counter()
    while not here.mirror.wait_idle(0.0):
        times.append(_timed(here.ask, len(times)))
    took = time.perf_counter() - start
    quiet = [_timed(here.ask, number) for number in range(len(times))]
    more = {'queries': len(times), 'rebuild_s': round(took, 2), 'without_ms': round(max(quiet) * 1e3, 1)}
    yield at_most('mirror worst query during a rebuild, ms', max(times) * 1e3, 20.0, items=LARGE, **more)


def load() -> Iterator[dict[str, Any]]:
    """Loading from column batches, and what stays resident."""
    here = world()
    yield at_most('mirror load from batches, s', here.load_s, 3.0, items=LARGE)
    yield at_most('mirror resident, MB', here.resident_mb, 300.0, items=LARGE)


def as_of() -> Iterator[dict[str, Any]]:
    """Half-way back among ten versions of each identity, against now."""
    identities = LARGE // VERSIONS
    rng = np.random.default_rng(2)
    home = np.column_stack([rng.uniform(0.0, AREA_M, (identities, 2)), np.zeros(identities)])
    mirror = SpatialIndex(now_ns=lambda: NOW)
    mirror.load(_histories(home), VERSIONS)
    centers = [tuple(point) for point in home[rng.integers(0, identities, ROUNDS)].tolist()]
    radius = RADIUS_M * VERSIONS**0.5

    def ask(number: int, at_ns: int) -> object:
        return mirror.within(RadiusQuery('park', 'map', centers[number], radius, at_ns=at_ns))

    middle = VERSIONS // 2
    values = medians(ROUNDS, lambda number: ask(number, middle), lambda number: ask(-number, NOW))
    mirror.close()
    more = {'identities': identities, 'versions': VERSIONS, 'now_us': round(values[1] * 1e6, 1)}
    yield at_most('mirror within r, as_of half-way / now', ratio(values), 2.0, **more)


def _histories(home: NDArray[np.float64]) -> Iterator[RowBatch]:
    """Yield versions that follow one another; each but the last believed open, then believed closed."""
    n = len(home)
    ones = np.ones(n, np.int64)
    for version in range(1, VERSIONS + 1):
        spatial = np.arange(n) + version * n
        last = version == VERSIONS
        ended = ones * (OPEN if last else version + 1)
        starts = ones * version
        yield RowBatch(spatial, spatial, 'park', 'map', home, starts, ones * OPEN, starts, ended)
        if not last:
            again = spatial + VERSIONS * n
            yield RowBatch(again, spatial, 'park', 'map', home, starts, starts + 1, starts + 1, ones * OPEN)


def _timed(side: Callable[[int], object], number: int) -> float:
    start = time.perf_counter()
    side(number)
    return time.perf_counter() - start


FIGURES = {'load': load, 'ids': ids, 'ids_with_writes': ids_with_writes, 'rebuild': rebuild, 'as_of': as_of}
