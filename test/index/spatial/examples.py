"""Rows to try an index with, and how long to wait for it."""

from __future__ import annotations

import random
from dataclasses import replace

from hylo_memory_ros.index.spatial import BelievedRow, SpatialIndex

TIMEOUT_S = 60.0

_ROW = BelievedRow(0, 0, 'lab', 'map', 0.0, 0.0, 0.0, 0, None, 1)


def row(version_row: int, x: float, y: float = 0.0, z: float = 0.0, **fields: object) -> BelievedRow:
    """Return a row of the map `lab` in the frame `map`, open and believed from sequence 1 on."""
    values = {'version_row': version_row, 'spatial_id': version_row, 'x': x, 'y': y, 'z': z, **fields}
    return replace(_ROW, **values)  # type: ignore[arg-type]


def scattered(n: int, seed: int, first: int = 1, side: float = 10.0) -> list[BelievedRow]:
    """Return rows at random places of a square."""
    rng = random.Random(seed)
    return [
        row(i, rng.uniform(-side, side), rng.uniform(-side, side), rng.uniform(-1, 1))
        for i in range(first, first + n)
    ]


def settle(index: SpatialIndex) -> None:
    """Rebuild every tree and wait for it."""
    index.rebuild()
    assert index.wait_idle(TIMEOUT_S)
