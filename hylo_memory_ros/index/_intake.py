"""Rows on their way from the store into runs: sorted by place, cleaned, in columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index._ball import LARGEST, Points
from hylo_memory_ros.index._part import VERSION, Rows
from hylo_memory_ros.index._rows import RowBatch

__all__ = ['Intake', 'by_place', 'is_sound']

Key = tuple[str, str]


class Intake:
    """Collects batches; used by one thread.

    Attributes
    ----------
    skipped : int
        Rows left out for a coordinate that is not finite.
    """

    def __init__(self) -> None:
        self.skipped = 0
        self._pieces: dict[Key, list[tuple[Rows, Points]]] = {}

    def add(self, batch: RowBatch) -> None:
        """Take in one batch."""
        for key, rows, points in by_place(batch):
            sound = is_sound(points)
            if not sound.all():
                rows, points = rows[:, sound], points[sound]
                self.skipped += len(sound) - len(points)
            self._pieces.setdefault(key, []).append((rows, points))

    def places(self) -> Iterator[tuple[Key, Rows, Points]]:
        """Hand out the rows of each place once, and let go of them; of a row that came twice, the later."""
        while self._pieces:
            key, pieces = self._pieces.popitem()
            rows = np.concatenate([rows for rows, _ in pieces], axis=1)
            points = np.concatenate([points for _, points in pieces])
            del pieces
            versions = rows[VERSION]
            if not (versions[1:] > versions[:-1]).all():
                last = len(points) - 1 - np.unique(versions[::-1], return_index=True)[1]
                rows, points = rows[:, last], points[last]
            yield key, rows, points


def is_sound(points: Points) -> NDArray[np.bool_]:
    """Tell which points have finite coordinates."""
    sound: NDArray[np.bool_] = np.abs(points).max(axis=1) <= LARGEST
    return sound


def by_place(batch: RowBatch) -> Iterator[tuple[Key, Rows, Points]]:
    """Split a batch by (map, frame), into copies."""
    rows = np.stack(
        [
            batch.version_row,
            batch.valid_from_ns,
            batch.valid_to_ns,
            batch.spatial_id,
            batch.from_seq,
            batch.to_seq,
        ]
    ).astype(np.int64, copy=False)
    points = np.array(batch.position, dtype=np.float64, order='C')
    keys, codes = _codes(batch)
    if codes is None:
        if len(points):
            yield keys[0], rows, points
        return
    for code, key in enumerate(keys):
        here = np.flatnonzero(codes == code)
        yield key, rows[:, here], points[here]


def _codes(batch: RowBatch) -> tuple[list[Key], NDArray[np.intp] | None]:
    """Give each row the number of its place; no numbers when there is one place."""
    maps, frames, n = batch.map_id, batch.frame_id, len(batch)
    if isinstance(maps, str) and isinstance(frames, str):
        return [(maps, frames)], None
    maps = [maps] * n if isinstance(maps, str) else maps
    frames = [frames] * n if isinstance(frames, str) else frames
    pairs = list(zip(maps, frames, strict=True))
    keys = list(dict.fromkeys(pairs))
    if len(keys) <= 1:
        return keys, None
    number = {key: code for code, key in enumerate(keys)}
    return keys, np.array([number[pair] for pair in pairs], dtype=np.intp)
