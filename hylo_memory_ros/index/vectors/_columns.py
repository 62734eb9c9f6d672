"""Growing columns: appended to by one writer, read by any number of readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index.spatial.rows import OPEN

__all__ = ['Growing', 'Versions']

_FIRST = 1024


class Growing:
    """One column that grows at its end; what a reader took stays as it was but for ends set in place."""

    def __init__(self, dtype: Any = np.int64) -> None:
        self._data: NDArray[Any] = np.empty(_FIRST, dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> NDArray[Any]:
        return self._data[: self._count]

    def extend(self, values: Sequence[int] | NDArray[Any]) -> None:
        needed = self._count + len(values)
        if needed > len(self._data):
            grown: NDArray[Any] = np.empty(max(needed, 2 * len(self._data)), self._data.dtype)
            grown[: self._count] = self.values
            self._data = grown
        self._data[self._count : needed] = values
        self._count = needed


class Versions:
    """The version rows of one space, each with the slot of its vector."""

    def __init__(self) -> None:
        self.version_row = Growing()
        self.slot = Growing()
        self.valid_from_ns = Growing()
        self.valid_to_ns = Growing()
        self.from_seq = Growing()
        self.to_seq = Growing()
        # The rows of a slot as a chain, so that candidates find theirs without a pass over all.
        self.following = Growing()
        self.first_of = Growing()

    def __len__(self) -> int:
        return len(self.version_row)

    def add_slots(self, count: int) -> None:
        self.first_of.extend(np.full(count, -1, np.int64))

    def add(self, rows: NDArray[np.int64]) -> None:
        """Append rows: version row, slot, valid from, valid to, from seq, to seq; in order of the row."""
        start = len(self)
        known = self.version_row.values
        rows = rows[~np.isin(rows[:, 0], known)] if start and rows[0, 0] <= known[-1] else rows
        heads = self.first_of.values
        chain = np.empty(len(rows), np.int64)
        for index, slot in enumerate(rows[:, 1].tolist()):
            chain[index] = heads[slot]
            heads[slot] = start + index
        self.following.extend(chain)
        columns = (self.slot, self.valid_from_ns, self.valid_to_ns, self.from_seq, self.to_seq)
        for position, column in enumerate(columns, start=1):
            column.extend(rows[:, position])
        # Last: a reader counts the rows by it.
        self.version_row.extend(rows[:, 0])

    def columns(self) -> NDArray[np.int64]:
        """Return a copy of all rows, as `add` takes them."""
        parts = (
            self.version_row, self.slot, self.valid_from_ns, self.valid_to_ns, self.from_seq, self.to_seq
        )  # fmt: skip
        return np.column_stack([part.values[: len(self)] for part in parts])

    def end(self, ended: Sequence[int], sequence: int) -> None:
        known = self.version_row.values
        if not len(known) or not len(ended):
            return
        wanted = np.asarray(ended, np.int64)
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        here = places[known[places] == wanted]
        to_seq = self.to_seq.values
        to_seq[here] = np.minimum(to_seq[here], sequence)

    def holding(self, places: NDArray[np.int64] | slice, window: tuple[int, int, int]) -> NDArray[np.bool_]:
        """Tell which rows hold at a world time and a sequence: (begun by, not over at, sequence)."""
        not_over_ns, begun_ns, sequence = window
        held: NDArray[np.bool_] = self.to_seq.values[places] > sequence
        held &= self.from_seq.values[places] <= sequence
        if begun_ns < OPEN:
            held &= self.valid_from_ns.values[places] <= begun_ns
            held &= self.valid_to_ns.values[places] > not_over_ns
        return held

    def of_slots(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places of the rows of slots, and for each which of the slots it belongs to."""
        where = np.arange(len(slots))
        places = self.first_of.values[slots]
        if len(places) and places.min() >= 0 and self.following.values[places].max() < 0:
            return places, where
        found, owners = [], []
        while (there := places >= 0).any():
            places, where = places[there], where[there]
            found.append(places)
            owners.append(where)
            places = self.following.values[places]
        empty = np.empty(0, np.int64)
        return np.concatenate([empty, *found]), np.concatenate([empty, *owners])
