"""Believed rows, as the store hands them over: one at a time, and in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ['OPEN', 'BelievedRow', 'Difference', 'RowBatch']

OPEN: int = 2**63 - 1
"""Stands for "no end" in int64 columns, where there is no null; never stored, never sent."""


@dataclass(frozen=True, slots=True)
class BelievedRow:
    """One row of the store's version table that has a pose.

    Attributes
    ----------
    version_row : int
        Number of the row; unique, at least 1.
    spatial_id : int
        The distinct (id, pose) that the row stands at. Rows that share it share the position.
    map_id, frame_id : str
        The map and the fixed frame of the position.
    x, y, z : float
        Metres, in `frame_id` (REP-103).
    valid_from_ns : int
        Start of the world-time interval, inclusive.
    valid_to_ns : int or None
        Its end, exclusive; None while it is open.
    from_seq : int
        Sequence at which the store began to hold the row to be so.
    to_seq : int or None
        Sequence at which it ceased to; None while the row is believed.
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
                raise ValueError(f'{name} has shape {getattr(self, name).shape}, expected ({n},)')
        for name in ('map_id', 'frame_id'):
            value = getattr(self, name)
            if not isinstance(value, str) and len(value) != n:
                raise ValueError(f'{name} has {len(value)} entries, expected {n}')
        if self.position.shape != (n, 3):
            raise ValueError(f'position has shape {self.position.shape}, expected ({n}, 3)')

    def __len__(self) -> int:
        return len(self.version_row)

    @classmethod
    def from_tuples(cls, rows: Sequence[Sequence[Any]]) -> RowBatch:
        """Build the columns from tuples, as a database cursor yields them.

        Parameters
        ----------
        rows : sequence of tuples
            Fields in the order of `BelievedRow`. An end (valid_to_ns, to_seq) may be None or
            `OPEN`; `OPEN` is quicker. A coordinate that is None becomes NaN, which the mirror
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
            none = np.empty(0, dtype=np.int64)
            return cls(none, none, (), (), np.empty((0, 3)), none, none, none, none)
        return cls.from_tuples(
            [
                (
                    r.version_row,
                    r.spatial_id,
                    r.map_id,
                    r.frame_id,
                    r.x,
                    r.y,
                    r.z,
                    r.valid_from_ns,
                    r.valid_to_ns,
                    r.from_seq,
                    r.to_seq,
                )
                for r in rows
            ]
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """One row on which the mirror and the store disagree.

    Attributes
    ----------
    version_row : int
    kind : str
        ``missing`` from the mirror, ``extra`` in it, or ``differs``.
    fields : tuple of str
        The columns that differ; empty for ``missing`` and ``extra``.
    """

    version_row: int
    kind: str
    fields: tuple[str, ...] = ()


def _ends(column: Sequence[int | None]) -> NDArray[np.int64]:
    if None in column:
        column = [OPEN if end is None else end for end in column]
    return np.array(column, dtype=np.int64)
