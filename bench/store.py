"""Writing and asking against raw sqlite3 and a bare KD-tree."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sqlalchemy.dialects import sqlite

from bench._figure import at_least, at_most, medians, seconds
from hylo_memory_ros.model import MemoryItem, MemoryQuery, Pose
from hylo_memory_ros.service import MemoryService
from hylo_memory_ros.storage.statements.mapper import select_items

TABLES = ('txn', 'identity', 'spatial', 'assertion', 'version', 'change')
LARGE = int(os.environ.get('HYLO_BENCH_ITEMS', '1000000'))
AREA_M = 1000.0
# About 17 of a million landmarks in a square kilometre lie this near.
RADIUS_M = 2.3 * (1_000_000 / LARGE) ** 0.5


def landmarks(count: int, first: int = 0, stamp_ns: int = 10**18, seed: int = 1) -> list[MemoryItem]:
    """Return new landmarks at random places of a square kilometre."""
    rng = np.random.default_rng(seed + first)
    return [
        MemoryItem.model_construct(
            **{
                **_TEMPLATE.__dict__,
                'key': f'tree/{first + number:012x}',
                'pose': Pose(frame_id='map', position=(x, y, 0.0)),
                'valid_from_ns': stamp_ns + first + number,
            }
        )
        for number, (x, y) in enumerate(rng.uniform(0.0, AREA_M, (count, 2)).tolist())
    ]


_TEMPLATE = MemoryItem(
    kind='spatial', label='tree', content='tree', scope={'map_id': 'park'}, source='bench@1', valid_from=0
)


def rows_of(path: Path, table: str, least: int) -> tuple[str, list[Any]]:
    """Return the statement and the rows that put back what a write added to a table."""
    with sqlite3.connect(f'{path.as_uri()}?mode=ro', uri=True) as connection:
        key = {'version': 'from_seq', 'assertion': 'sequence', 'txn': 'sequence', 'change': 'sequence'}
        if table in key:
            rows = connection.execute(f'SELECT * FROM {table} WHERE {key[table]} = ?', (least,)).fetchall()
        else:
            of = f'SELECT {table}_id FROM assertion WHERE sequence = ?'
            rows = connection.execute(
                f'SELECT * FROM {table} WHERE {table}_id IN ({of})', (least,)
            ).fetchall()
    return f'INSERT INTO {table} VALUES ({",".join("?" * len(rows[0]))})', rows


def text_rows_of(path: Path, sequence: int) -> list[Any]:
    """Return what a write added to the full-text index."""
    with sqlite3.connect(f'{path.as_uri()}?mode=ro', uri=True) as connection:
        return connection.execute(
            "SELECT a.assertion_id, a.content, i.key, a.label, '' FROM assertion a JOIN identity i "
            'USING (identity_id) WHERE a.sequence = ?',
            (sequence,),
        ).fetchall()


def write() -> Iterator[dict[str, Any]]:
    """Writing 100 new items a call, against the same rows through sqlite3 alone."""
    rounds = 60
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        calls = [landmarks(100, 100 * number) for number in range(rounds + 1)]
        with MemoryService.open(f'sqlite:///{here / "source.db"}') as source:
            for call in calls:
                source.write(call)
            raw_calls = [
                [rows_of(here / 'source.db', table, number + 1) for table in TABLES]
                + [
                    (
                        'INSERT INTO item_text (rowid, content, key, label, entities) VALUES (?, ?, ?, ?, ?)',
                        text_rows_of(here / 'source.db', number + 1),
                    )
                ]
                for number in range(rounds + 1)
            ]
        with MemoryService.open(f'sqlite:///{here / "raw.db"}'):
            pass
        raw = sqlite3.connect(here / 'raw.db', isolation_level=None)
        for pragma in (
            'journal_mode = WAL',
            'synchronous = FULL',
            'foreign_keys = ON',
            'cache_size = -32000',
        ):
            raw.execute(f'PRAGMA {pragma}')
        # Items are built anew: what a call costs includes nothing remembered from the first time.
        fresh = [landmarks(100, 100 * number) for number in range(rounds + 1)]

        def ours(number: int) -> None:
            memory.write(fresh[number])

        def bare(number: int) -> None:
            raw.execute('BEGIN IMMEDIATE')
            for statement, rows in raw_calls[number]:
                raw.executemany(statement, rows)
            raw.execute('COMMIT')

        with MemoryService.open(f'sqlite:///{here / "ours.db"}') as memory:
            ours_s, bare_s = medians(rounds, ours, bare)
        raw.close()
        yield at_least(
            'write_100_items_rate_over_raw_executemany', bare_s / ours_s, 0.3,
            ours_ms=round(ours_s * 1e3, 3), raw_ms=round(bare_s * 1e3, 3),
            synchronous='FULL', disk=_disk(here),
        )  # fmt: skip


def _disk(path: Path) -> str:
    """Name the device that a path lies on."""
    device = path.stat().st_dev
    for line in Path('/proc/self/mountinfo').read_text().splitlines():
        fields = line.split()
        if fields[2] == f'{os.major(device)}:{os.minor(device)}':
            rest = fields[fields.index('-') + 1 :]
            return f'{rest[0]} on {rest[1]}'
    return 'unknown'


def large_file(path: Path) -> None:
    """Fill a file with `LARGE` landmarks."""
    with MemoryService.open(f'sqlite:///{path}') as memory:
        for first in range(0, LARGE, 10_000):
            memory.write(landmarks(min(10_000, LARGE - first), first), durable=False)


def near() -> Iterator[dict[str, Any]]:
    """Asking for the ten nearest whole items among a million, and hashing after one change."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'large.db'
        filled_s = seconds(lambda: large_file(path))
        opened: list[MemoryService] = []
        open_s = seconds(lambda: opened.append(MemoryService.open(f'sqlite:///{path}')))
        memory = opened[0]
        raw = sqlite3.connect(f'{path.as_uri()}?mode=ro', uri=True)
        rows = raw.execute(
            'SELECT v.version_row, s.x, s.y, s.z FROM version v JOIN spatial s USING (spatial_id)'
        ).fetchall()
        numbers = [row[0] for row in rows]
        tree = cKDTree(np.array([row[1:] for row in rows]))
        statement = _same_ten_rows()
        centres = np.random.default_rng(7).uniform(0.0, AREA_M, (2000, 2)).tolist()

        def ours(number: int) -> None:
            x, y = centres[number]
            centre = Pose(frame_id='map', position=(x, y, 0.0))
            result = memory.query(MemoryQuery(near=(centre, RADIUS_M), k=10, scope={'map_id': 'park'}))
            assert len(result) <= 10

        def bare(number: int) -> None:
            x, y = centres[number]
            _, places = tree.query((x, y, 0.0), k=10, distance_upper_bound=RADIUS_M)
            wanted = [numbers[place] for place in places.tolist() if place < len(numbers)]
            raw.execute(statement.format(','.join('?' * len(wanted))), wanted).fetchall()

        ours_s, bare_s = medians(1000, ours, bare)
        yield at_most('near_k10_at_1M_ms', ours_s * 1e3, 1.0, items=LARGE)
        yield at_most(
            'near_k10_at_1M_over_raw_fetch_and_ckdtree', ours_s / bare_s, 4.0, raw_ms=round(bare_s * 1e3, 4)
        )

        def change(number: int) -> None:
            memory.write(landmarks(1, LARGE + number))

        def snapshot(number: int) -> None:
            memory.snapshot()

        _, snapshot_s = medians(20, change, snapshot)
        yield at_most('snapshot_after_one_change_at_1M_ms', snapshot_s * 1e3, 50.0)
        yield at_most('open_at_1M_s', open_s, 30.0, filled_s=round(filled_s, 1), bytes=path.stat().st_size)
        raw.close()
        memory.close()


def _same_ten_rows() -> str:
    """Return the product's own statement for item rows, to be run by sqlite3 alone."""
    return str(select_items.compile(dialect=sqlite.dialect())) + ' WHERE version.version_row IN ({})'


def as_of() -> Iterator[dict[str, Any]]:
    """Asking as of half-way, ten versions of each identity, against asking about now."""
    identities, versions = LARGE // 10, 10
    with MemoryService.open(clock=lambda: 2 * 10**18) as memory:
        for turn in range(versions):
            for first in range(0, identities, 10_000):
                count = min(10_000, identities - first)
                moved = landmarks(count, first, stamp_ns=10**18 + turn * 10**15, seed=turn)
                memory.write(moved)
        half_ns = 10**18 + versions // 2 * 10**15
        centres = np.random.default_rng(9).uniform(0.0, AREA_M, (1000, 2)).tolist()
        radius_m = RADIUS_M * 10**0.5

        def ask(number: int, at_ns: int | None) -> None:
            x, y = centres[number]
            centre = Pose(frame_id='map', position=(x, y, 0.0))
            memory.query(MemoryQuery(near=(centre, radius_m), k=10, scope={'map_id': 'park'}, as_of_ns=at_ns))

        then_s, now_s = medians(500, lambda number: ask(number, half_ns), lambda number: ask(number, None))
        yield at_most('near_as_of_half_way_over_now', then_s / now_s, 2.0, now_ms=round(now_s * 1e3, 3))


FIGURES = {'write': write, 'near': near, 'as_of': as_of}
