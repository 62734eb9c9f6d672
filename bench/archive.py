"""The archive: how fast what has ended is moved there, and what it costs to ask for it."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from bench._figure import at_least, at_most, medians, ratio
from hylo_memory_ros.model import MemoryItem, MemoryKind, MemoryQuery
from hylo_memory_ros.service import MemoryService

KEYS = int(os.environ.get('HYLO_BENCH_ARCHIVE_KEYS', '100000'))
EVENTS = int(os.environ.get('HYLO_BENCH_ARCHIVE_EVENTS', '50000'))
VERSIONS = 10
SLICE = 128
NOW_NS = 10**15
CALL = 5_000


def opened(path: Path) -> MemoryService:
    """Open a memory at a time behind all that is said in it."""
    return MemoryService.open(f'sqlite:///{path}', clock=lambda: NOW_NS)


def said(content: str, at_s: float, **fields: Any) -> MemoryItem:
    """Return a statement, without the time that validation takes."""
    return MemoryItem.model_construct(
        **{**_TEMPLATE.__dict__, 'content': content, 'valid_from_ns': round(at_s * 1e9), **fields}
    )


_TEMPLATE = MemoryItem(kind='semantic', content='x', valid_from=0)


def write_all(memory: MemoryService, items: Iterator[MemoryItem]) -> None:
    """Write items in large calls."""
    call: list[MemoryItem] = []
    for item in items:
        call.append(item)
        if len(call) == CALL:
            memory.write(call, durable=False)
            call = []
    if call:
        memory.write(call, durable=False)


class Archiving:
    """Moves everything that can be moved, slice by slice, and measures."""

    def __init__(self, memory: MemoryService, keep_keys: int = 0) -> None:
        store: Any = memory._core.store
        self.holds_s: list[float] = []
        self.holds_cpu_s: list[float] = []
        self.moved = 0
        database = store._transactions.database
        writing = database.writing

        @contextmanager
        def timed(**options: Any) -> Iterator[Any]:
            block: AbstractContextManager[Any] = writing(**options)
            with block as connection:
                start, cpu = time.perf_counter(), time.thread_time()
                yield connection
            self.holds_s.append(time.perf_counter() - start)
            self.holds_cpu_s.append(time.thread_time() - cpu)

        database.writing = timed
        began = time.process_time()
        start, after = time.perf_counter(), keep_keys
        while found := store.archive.archivable(after=after, limit=2_000):
            after = found[-1].identity_id
            slices: list[list[int]] = [[]]
            room = SLICE
            for one in found:
                if one.assertions > room:
                    slices.append([])
                    room = SLICE
                slices[-1].append(one.identity_id)
                room -= one.assertions
            self.moved += sum(store.archive.move(ids, limit=SLICE).assertions for ids in slices)
        self.seconds = time.perf_counter() - start
        self.computing_s = time.process_time() - began
        del database.writing


def move() -> Iterator[dict[str, Any]]:
    """Moving events that were forgotten, and what becomes of the main file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'memory.db'
        with opened(path) as memory:
            fields = {'kind': MemoryKind.EPISODIC, 'entities': ('ann',)}
            write_all(
                memory, (said(f'the robot saw thing {n} on a table', n, **fields) for n in range(EVENTS))
            )
            memory.forget(MemoryQuery(kinds=['episodic']))
        before = path.stat().st_size
        with opened(path) as memory:
            archiving = Archiving(memory)
            sizes = {'main_bytes_before': before, 'main_bytes_after': path.stat().st_size}
            with closing(sqlite3.connect(path)) as raw:
                free, pages = (
                    raw.execute(f'PRAGMA {of}').fetchone()[0] for of in ('freelist_count', 'page_count')
                )
            sizes |= {'archive_bytes': path.with_name('memory.db.archive').stat().st_size}
            write_all(
                memory, (said(f'the robot saw thing {n} on a shelf', n, **fields) for n in range(EVENTS // 2))
            )
        grown = path.stat().st_size / before
        seconds = archiving.seconds * 50_000 / EVENTS
        told = {
            'statements': archiving.moved,
            'computing_s': round(archiving.computing_s * 50_000 / EVENTS, 2),
        }
        yield at_most('move 50 000 events to the archive, s', seconds, 10.0, **told, **sizes)
        holds_ms = sorted(1e3 * hold_s for hold_s in archiving.holds_s)
        worst = {'median_ms': round(holds_ms[len(holds_ms) // 2], 2), 'longest_ms': round(holds_ms[-1], 2)}
        worst['median_computing_ms'] = round(1e3 * statistics.median(archiving.holds_cpu_s), 2)
        p99 = holds_ms[int(0.99 * len(holds_ms))]
        yield at_most(
            f'write lock held by a slice of {SLICE}, p99, ms', p99, 5.0, slices=len(holds_ms), **worst
        )
        yield at_least('pages that a move frees for what is written next, of all', free / pages, 0.3)
        yield at_most('main file after as much again as half of it, to before the move', grown, 1.05)


def ask() -> Iterator[dict[str, Any]]:
    """Asking about the past when half of it is archived, and about now."""
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        live, half = Path(folder) / 'live.db', Path(folder) / 'half.db'
        with opened(live) as memory:
            for version in range(VERSIONS):
                write_all(
                    memory,
                    (said(f'colour {version}', 1 + version, key=f'thing {n}') for n in range(KEYS)),
                )
        shutil.copy(live, half)
        with opened(live) as whole, opened(half) as archived:
            archiving = Archiving(archived, keep_keys=KEYS // 2)
            keys = [f'thing {rng.randrange(KEYS)}' for _ in range(300)]
            times = [rng.uniform(1, VERSIONS) for _ in keys]
            sequences = [rng.randrange(1, whole.sequence) for _ in keys]

            def past(memory: MemoryService) -> Any:
                return lambda n: memory.query(MemoryQuery(key=keys[n], as_of=times[n], k=1))

            def known(memory: MemoryService) -> Any:
                return lambda n: memory.query(MemoryQuery(key=keys[n], known_seq=sequences[n], k=1))

            def now(memory: MemoryService) -> Any:
                return lambda n: memory.query(MemoryQuery(key=keys[n], k=1))

            for name, side, target in (('as_of', past, 0.4), ('known_seq', known, 0.4), ('now', now, 0.95)):
                asked = medians(len(keys), side(whole), side(archived))
                told = {'archive': archiving.moved, 'median_ms': [round(1e3 * one, 3) for one in asked]}
                yield at_least(
                    f'answers a second, {name}, half archived to none', ratio(asked), target, **told
                )


FIGURES = {'move': move, 'ask': ask}
