"""Row and result types of the spatial index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

OPEN: int = 2**63 - 1
"""The "no end" of int64 columns, which have no null; never stored, never sent."""

VERSION, VALID_FROM, VALID_TO, SPATIAL, FROM_SEQ, TO_SEQ = range(6)

LARGEST_M = 1e100
"""Limit of a coordinate: beyond it a square overflows, so it counts as not finite."""

Rows = NDArray[np.int64]
"""Shape (6, m), one column of the table each; the constants above number them."""

Points = NDArray[np.float64]
"""Shape (n, 3), metres."""

Indices = NDArray[np.intp]

Key = tuple[str, str]
"""Map and frame."""

Window = tuple[int, int, int]
"""Times of a query, (low, high, seq): valid_from <= high, low < valid_to, believed at seq."""


@dataclass(frozen=True, slots=True)
class BelievedRow:
    """One row of the store's version table that has a pose.

    Attributes
    ----------
    version_row : int
        Number of the row; unique, at least 1.
    spatial_id : int
        The distinct (id, pose) of the row. Rows that share it share the position.
    map_id, frame_id : str
        The map and the fixed frame of the position.
    x, y, z : float
        Metres, in `frame_id` (REP-103).
    valid_from_ns : int
        Start of the world-time interval, inclusive.
    valid_to_ns : int or None
        Its end, exclusive; None while it is open.
    from_seq : int
        Sequence of the transaction that added the row.
    to_seq : int or None
        Sequence of the transaction that ended the belief in it; None while the row is believed.
    """

    version_row: int
    spatial_id: int
    map_id: str
    frame_id: str
    x: float
    y: float
    z: float
    valid_from_ns: int
    valid_to_ns: int | None
    from_seq: int
    to_seq: int | None = None


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Believed rows in columns of equal length n, for loading and for verification.

    Attributes
    ----------
    version_row, spatial_id : ndarray, shape (n,), int64
    map_id, frame_id : sequence of str, length n, or one str for all
    position : ndarray, shape (n, 3), float64
        Metres, x y z, each in its row's frame.
    valid_from_ns, valid_to_ns : ndarray, shape (n,), int64
        World time; `OPEN` for no end.
    from_seq, to_seq : ndarray, shape (n,), int64
        Believed interval; `OPEN` for no end.
    """

    version_row: NDArray[np.int64]
    spatial_id: NDArray[np.int64]
    map_id: Sequence[str] | str
    frame_id: Sequence[str] | str
    position: NDArray[np.float64]
    valid_from_ns: NDArray[np.int64]
    valid_to_ns: NDArray[np.int64]
    from_seq: NDArray[np.int64]
    to_seq: NDArray[np.int64]

    def __post_init__(self) -> None:
        n = len(self.version_row)
        for name in ('spatial_id', 'valid_from_ns', 'valid_to_ns', 'from_seq', 'to_seq'):
            if getattr(self, name).shape != (n,):
                raise ValueError(f'{name}: expected shape ({n},), got {getattr(self, name).shape}')
        for name in ('map_id', 'frame_id'):
            value = getattr(self, name)
            if not isinstance(value, str) and len(value) != n:
                raise ValueError(f'{name}: expected {n} entries, got {len(value)}')
        if self.position.shape != (n, 3):
            raise ValueError(f'position: expected shape ({n}, 3), got {self.position.shape}')

    def __len__(self) -> int:
        return len(self.version_row)

    @classmethod
    def from_tuples(cls, rows: Sequence[Sequence[Any]]) -> RowBatch:
        """Build the columns from tuples, as a database cursor yields them.

        Parameters
        ----------
        rows : sequence of tuples
            Fields in the order of `BelievedRow`. An end (valid_to_ns, to_seq) may be None or
            `OPEN`; `OPEN` is quicker. A coordinate that is None becomes NaN, which the index
            skips and counts.

        Returns
        -------
        RowBatch
        """
        if not rows:
            return cls.from_rows(())
        version, spatial, maps, frames, x, y, z, valid_from, valid_to, from_seq, to_seq = zip(
            *rows, strict=True
        )
        return cls(
            version_row=np.array(version, dtype=np.int64),
            spatial_id=np.array(spatial, dtype=np.int64),
            map_id=maps,
            frame_id=frames,
            position=np.column_stack([np.array(axis, dtype=np.float64) for axis in (x, y, z)]),
            valid_from_ns=np.array(valid_from, dtype=np.int64),
            valid_to_ns=_ends(valid_to),
            from_seq=np.array(from_seq, dtype=np.int64),
            to_seq=_ends(to_seq),
        )

    @classmethod
    def from_rows(cls, rows: Iterable[BelievedRow]) -> RowBatch:
        """Build the columns from rows."""
        rows = list(rows)
        if not rows:
            empty = np.empty(0, dtype=np.int64)
            return cls(empty, empty, (), (), np.empty((0, 3)), empty, empty, empty, empty)
        return cls.from_tuples([astuple(row) for row in rows])


class RadiusQuery(NamedTuple):
    """A ball, or with `horizontal` a vertical cylinder, at a point of both time axes."""

    map_id: str | None
    """None searches every map."""
    frame_id: str
    """Frame of the centre."""
    center: Sequence[float]
    """Metres, x y z, in the frame."""
    radius_m: float
    """Metres, at least 0; the boundary is included."""
    at_ns: int | None = None
    """World time: ``valid_from <= at < valid_to``. None gives every believed version."""
    seq: int | None = None
    """Believed as of this sequence; None for now."""
    horizontal: bool = False
    """Measure the distance over x and y only."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Row on which the index and the store disagree.

    Attributes
    ----------
    version_row : int
    kind : str
        ``missing`` from the index, ``extra`` in it, or ``differs``.
    fields : tuple of str
        The columns that differ; empty for ``missing`` and ``extra``.
    """

    version_row: int
    kind: str
    fields: tuple[str, ...] = ()


# Not frozen: that alone would cost a query 1.5 us.
@dataclass(slots=True)
class Hits:
    """Rows within a radius, nearest first; ties by version row.

    Attributes
    ----------
    sequence : int
        The sequence at which the answer is exact.
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
    """The nearest matching row beyond a radius.

    Attributes
    ----------
    version_row : int
    distance_m : float
        Metres from the centre, by `math.dist`.
    """

    version_row: int
    distance_m: float


@dataclass(frozen=True, slots=True)
class Excluded:
    """Believed rows that a query excludes, by reason.

    Attributes
    ----------
    other_maps, other_frames : ndarray, int64
        Version rows that match in time in other maps, and in other frames of the map, at any place: numbers
        of two frames cannot be compared.
    not_yet_valid, ended : ndarray, int64
        Version rows within the radius that begin later, and that ended before.
    outside : int
        Number of rows that match in time beyond the radius.
    """

    other_maps: NDArray[np.int64]
    other_frames: NDArray[np.int64]
    not_yet_valid: NDArray[np.int64]
    ended: NDArray[np.int64]
    outside: int


class RowCollector:
    """Batches of a load, sorted by partition, cleaned, in columns; used by one thread.

    Attributes
    ----------
    skipped : int
        Rows left out for a coordinate that is not finite.
    """

    def __init__(self) -> None:
        self.skipped = 0
        self._pieces: dict[Key, list[tuple[Rows, Points]]] = {}

    def add(self, batch: RowBatch) -> None:
        """Add one batch."""
        for key, rows, points in split_by_partition(batch):
            finite = within_range(points)
            if not finite.all():
                rows, points = rows[:, finite], points[finite]
                self.skipped += len(finite) - len(points)
            self._pieces.setdefault(key, []).append((rows, points))

    def partitions(self) -> Iterator[tuple[Key, Rows, Points]]:
        """Yield the rows of each partition once and release them; of duplicate rows the later wins."""
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


def within_range(points: Points) -> NDArray[np.bool_]:
    """Test which points have finite coordinates that can be squared."""
    finite: NDArray[np.bool_] = np.abs(points).max(axis=1) <= LARGEST_M
    return finite


def not_erased(rows: Rows) -> NDArray[np.bool_]:
    """Test which rows have not been erased."""
    present: NDArray[np.bool_] = rows[TO_SEQ] >= 0
    return present


def split_by_partition(batch: RowBatch) -> Iterator[tuple[Key, Rows, Points]]:
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
    keys, codes = _partition_codes(batch)
    if codes is None:
        if len(points):
            yield keys[0], rows, points
        return
    for code, key in enumerate(keys):
        members = np.flatnonzero(codes == code)
        yield key, rows[:, members], points[members]


def _partition_codes(batch: RowBatch) -> tuple[list[Key], NDArray[np.intp] | None]:
    """Return the partitions, and the number of that of each row; None when there is at most one."""
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


def _ends(column: Sequence[int | None]) -> NDArray[np.int64]:
    if None in column:
        column = [OPEN if end is None else end for end in column]
    return np.array(column, dtype=np.int64)
