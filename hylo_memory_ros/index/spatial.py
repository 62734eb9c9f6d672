"""The spatial mirror: believed rows near a point, answered from memory.

The mirror copies the poses of the store's version table. The store is written first and stays the
authority; the mirror follows each committed transaction and can be rebuilt at any time.

Threads: one writer at a time calls `apply`, `remove` and `load`; any number of readers query.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.errors import InvalidRequestError, LoadingError
from hylo_memory_ros.index._rows import OPEN, BelievedRow, Difference, RowBatch

__all__ = ['Excluded', 'Hits', 'Nearest', 'SpatialMirror']


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows within a radius, nearest first; equal distances by version row.

    Attributes
    ----------
    sequence : int
        The sequence that the answer is exact for.
    version_rows : ndarray, shape (n,), int64
    distances_m : ndarray, shape (n,), float64
        Equal to `math.dist` to the bit.
    valid_from_ns, valid_to_ns : ndarray, shape (n,), int64
        World time of each row; `OPEN` for no end.
    """

    sequence: int
    version_rows: NDArray[np.int64]
    distances_m: NDArray[np.float64]
    valid_from_ns: NDArray[np.int64]
    valid_to_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.version_rows)


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest matching row beyond a radius."""

    version_row: int
    distance_m: float


@dataclass(frozen=True, slots=True)
class Excluded:
    """Believed rows within the radius that a query left out, and why.

    Attributes
    ----------
    other_maps, other_frames : int
        Rows that match in time, in the same frame of other maps and in other frames of the map.
    not_yet_valid, ended : ndarray, int64
        Version rows in the searched place that begin later, and that ended before.
    """

    other_maps: int
    other_frames: int
    not_yet_valid: NDArray[np.int64]
    ended: NDArray[np.int64]


class SpatialMirror:
    """KD-trees over the believed rows of each (map, frame).

    Parameters
    ----------
    now_ns : callable, optional
        The highest service time seen, in nanoseconds. It only decides which rows count as closed
        when a tree is built, so it changes speed, never an answer.
    """

    def __init__(self, now_ns: Callable[[], int] | None = None) -> None:
        self._rows: dict[int, BelievedRow] = {}
        self._ends: dict[int, int] = {}
        self._sequence = 0
        self._skipped = 0
        self._ready = threading.Event()
        self._lock = threading.RLock()

    @property
    def sequence(self) -> int:
        """Sequence of the newest transaction that the mirror holds."""
        return self._sequence

    @property
    def ready(self) -> bool:
        """Whether the first load is complete."""
        return self._ready.is_set()

    @property
    def skipped(self) -> int:
        """Number of rows left out for a coordinate that is not finite."""
        return self._skipped

    def __len__(self) -> int:
        return len(self._rows)

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until the first load is complete; False after the timeout."""
        return self._ready.wait(timeout_s)

    def wait_idle(self, timeout_s: float | None = None) -> bool:
        """Wait until no rebuild is running; False after the timeout."""
        return True

    def rebuild(self) -> None:
        """Start to rebuild every tree in the background."""

    def close(self) -> None:
        """End background work. Safe to repeat."""

    def load(self, batches: Iterable[RowBatch], sequence: int) -> None:
        """Fill the mirror from the store, in the calling thread.

        `apply` and `remove` may be called meanwhile from the writer's thread; rows that arrive both
        ways are kept once.
        """
        for batch in batches:
            maps = [batch.map_id] * len(batch) if isinstance(batch.map_id, str) else batch.map_id
            frames = [batch.frame_id] * len(batch) if isinstance(batch.frame_id, str) else batch.frame_id
            rows = [
                BelievedRow(version, spatial, map_id, frame_id, x, y, z, start, None if end == OPEN else end,
                            first, None if last == OPEN else last)
                for version, spatial, map_id, frame_id, (x, y, z), start, end, first, last in zip(
                    batch.version_row.tolist(), batch.spatial_id.tolist(), maps, frames, batch.position.tolist(),
                    batch.valid_from_ns.tolist(), batch.valid_to_ns.tolist(), batch.from_seq.tolist(),
                    batch.to_seq.tolist(), strict=True)
            ]
            with self._lock:
                for row in rows:
                    self._add(row)
        with self._lock:
            self._sequence = max(self._sequence, sequence)
        self._ready.set()

    def apply(self, sequence: int, added: Sequence[BelievedRow] = (), ended: Sequence[int] = ()) -> None:
        """Follow one committed transaction.

        Parameters
        ----------
        sequence : int
        added : sequence of BelievedRow
            Rows believed from `sequence` on.
        ended : sequence of int
            Version rows believed no longer from `sequence` on.
        """
        with self._lock:
            for row in added:
                self._add(row)
            for version_row in ended:
                self._ends.setdefault(version_row, sequence)
            self._sequence = max(self._sequence, sequence)

    def remove(self, version_rows: Collection[int], sequence: int | None = None) -> None:
        """Delete rows for good; nothing of them stays behind (purge)."""
        with self._lock:
            for version_row in version_rows:
                self._rows.pop(version_row, None)
                self._ends.pop(version_row, None)
            if sequence is not None:
                self._sequence = max(self._sequence, sequence)

    def within(self, map_id: str | None, frame_id: str | Collection[str], center: Sequence[float], radius_m: float, *,
               at_ns: int | None = None, seq: int | None = None, horizontal: bool = False,
               tolerance_ns: int = 0) -> Hits:
        """Find the believed rows within a radius, its boundary included.

        Parameters
        ----------
        map_id : str or None
            None searches every map.
        frame_id : str or collection of str
            The frame of `center`; several frames are searched with the same numbers.
        center : sequence of 3 floats
            Metres, x y z, in `frame_id`.
        radius_m : float
            Metres, at least 0.
        at_ns : int, optional
            World time: ``valid_from <= at < valid_to``. None gives every believed version.
        seq : int, optional
            Believed as of this sequence; None for now.
        horizontal : bool
            Measure the distance over x and y only.
        tolerance_ns : int
            Rows that begin up to this much after `at_ns` count as begun.

        Returns
        -------
        Hits

        Raises
        ------
        InvalidRequestError
            The radius is negative or not finite, or the centre is not three finite numbers.
        LoadingError
            The first load is not complete.
        """
        with self._lock:
            at_seq, found = self._search(map_id, frame_id, center, radius_m, at_ns, seq, horizontal, tolerance_ns)
        return Hits(at_seq,
                    np.array([row.version_row for _, row in found], dtype=np.int64),
                    np.array([distance for distance, _ in found], dtype=np.float64),
                    np.array([row.valid_from_ns for _, row in found], dtype=np.int64),
                    np.array([_end(row.valid_to_ns) for _, row in found], dtype=np.int64))

    def ids_within(self, map_id: str | None, frame_id: str | Collection[str], center: Sequence[float],
                   radius_m: float, *, at_ns: int | None = None, seq: int | None = None, horizontal: bool = False,
                   tolerance_ns: int = 0) -> NDArray[np.int64]:
        """Find the version rows of `within`, in no particular order."""
        return self.within(map_id, frame_id, center, radius_m, at_ns=at_ns, seq=seq, horizontal=horizontal,
                           tolerance_ns=tolerance_ns).version_rows

    def nearest_outside(self, map_id: str | None, frame_id: str | Collection[str], center: Sequence[float],
                        radius_m: float, *, at_ns: int | None = None, seq: int | None = None,
                        horizontal: bool = False, tolerance_ns: int = 0) -> Nearest | None:
        """Find the nearest matching row beyond the radius, at any distance."""
        with self._lock:
            _, found = self._search(map_id, frame_id, center, math.inf, at_ns, seq, horizontal, tolerance_ns)
        return next((Nearest(row.version_row, d) for d, row in found if d > radius_m), None)

    def excluded(self, map_id: str | None, frame_id: str, center: Sequence[float], radius_m: float, *,
                 at_ns: int | None = None, seq: int | None = None, horizontal: bool = False,
                 tolerance_ns: int = 0) -> Excluded:
        """Count what lies within the radius and was left out by place or by time."""
        with self._lock:
            frames = {row.frame_id for row in self._rows.values()}
            maps = {row.map_id for row in self._rows.values()}
            args = (center, radius_m, at_ns, seq, horizontal, tolerance_ns)
            others = [] if map_id is None else [m for m in maps if m != map_id]
            other_maps = sum(len(self._search(other, frame_id, *args)[1]) for other in others)
            other_frames = len(self._search(map_id, frames - {frame_id}, *args)[1])
            here = self._search(map_id, frame_id, center, radius_m, None, seq, horizontal, 0)[1]
        low, high = (0, OPEN) if at_ns is None else (at_ns, at_ns + tolerance_ns)
        late = [r.version_row for _, r in here if r.valid_from_ns > high]
        over = [r.version_row for _, r in here if r.valid_from_ns <= high and _end(r.valid_to_ns) <= low]
        return Excluded(other_maps, other_frames, np.array(late, dtype=np.int64), np.array(over, dtype=np.int64))

    def verify(self, batches: Iterable[RowBatch], sequence: int, limit: int = 100) -> tuple[Difference, ...]:
        """Compare the mirror with rows streamed from the store, as of one sequence."""
        raise NotImplementedError

    def _add(self, row: BelievedRow) -> None:
        if not all(map(math.isfinite, (row.x, row.y, row.z))):
            self._skipped += 1
        elif row.version_row not in self._rows:
            self._rows[row.version_row] = row
            if row.to_seq is not None:
                self._ends.setdefault(row.version_row, row.to_seq)

    def _search(self, map_id: str | None, frame_id: str | Collection[str], center: Sequence[float], radius_m: float,
                at_ns: int | None, seq: int | None, horizontal: bool,
                tolerance_ns: int) -> tuple[int, list[tuple[float, BelievedRow]]]:
        if not self.ready:
            raise LoadingError('the spatial mirror is still loading')
        if not radius_m >= 0.0 or len(center) != 3 or not all(map(math.isfinite, center)):
            raise InvalidRequestError(f'near needs three finite numbers and a radius >= 0: {center}, {radius_m}')
        at_seq = self._sequence if seq is None else min(seq, self._sequence)
        axes = 2 if horizontal else 3
        frames = {frame_id} if isinstance(frame_id, str) else frame_id
        found = []
        for row in self._rows.values():
            if (map_id is not None and row.map_id != map_id) or row.frame_id not in frames:
                continue
            if not row.from_seq <= at_seq < self._ends.get(row.version_row, OPEN):
                continue
            begins = at_ns is None or row.valid_from_ns <= at_ns + tolerance_ns
            if not begins or (at_ns is not None and at_ns >= _end(row.valid_to_ns)):
                continue
            distance = math.dist((row.x, row.y, row.z)[:axes], tuple(center)[:axes])
            if distance <= radius_m:
                found.append((distance, row))
        found.sort(key=lambda hit: (hit[0], hit[1].version_row))
        return at_seq, found


def _end(end: int | None) -> int:
    return OPEN if end is None else end
