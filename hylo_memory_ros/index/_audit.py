"""The comparison of a mirror with the rows of its store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.index._ball import Points
from hylo_memory_ros.index._intake import Key, by_place, is_sound
from hylo_memory_ros.index._part import FROM_SEQ, TO_SEQ, VERSION, Index, Part, Rows, present
from hylo_memory_ros.index._rows import OPEN, Difference, RowBatch

__all__ = ['Audit']

_COLUMNS = ('version_row', 'valid_from_ns', 'valid_to_ns', 'spatial_id', 'from_seq', 'to_seq')


class Audit:
    """Compares as of one sequence, while the mirror moves on.

    Parameters
    ----------
    parts : mapping of (map, frame) to tuple of Part
        Taken when the mirror had reached the sequence.
    sequence : int
        Rows that came later are left out; an end that came later counts as no end.
    """

    def __init__(self, parts: Mapping[Key, tuple[Part, ...]], sequence: int) -> None:
        self._parts = parts
        self._sequence = sequence
        self._seen = {id(part): np.zeros(len(part), np.bool_) for place in parts.values() for part in place}
        self._found: dict[int, Difference] = {}

    def compare(self, batches: Iterable[RowBatch], limit: int) -> None:
        """Compare rows of the store, in any order, until `limit` rows differ."""
        for batch in batches:
            for key, rows, points in by_place(batch):
                sound = is_sound(points) & (rows[FROM_SEQ] <= self._sequence)
                self._compare_place(key, rows[:, sound], points[sound])
            if len(self._found) >= limit:
                return
        self._find_extra()

    def differences(self, removed: set[int], limit: int) -> tuple[Difference, ...]:
        """Return what was found, less the rows that were removed meanwhile, in order of the version row."""
        found = (self._found[version_row] for version_row in sorted(self._found.keys() - removed))
        return tuple(difference for difference, _ in zip(found, range(limit), strict=False))

    def _compare_place(self, key: Key, rows: Rows, points: Points) -> None:
        missing = np.ones(len(points), np.bool_)
        for part in self._parts.get(key, ()):
            index = part.locate(rows[VERSION])
            here = np.flatnonzero((index >= 0) & (index < len(self._seen[id(part)])))
            index = index[here]
            self._seen[id(part)][index] = True
            missing[here] = False
            self._compare_rows(part, index, rows[:, here], points[here])
        for version_row in rows[VERSION, missing].tolist():
            self._note(version_row, 'missing')

    def _compare_rows(self, part: Part, index: Index, rows: Rows, points: Points) -> None:
        mine, mine_at = part.rows[:, index], part.points_of(index)
        differs = self._settled(mine) != self._settled(rows)
        moved = (mine_at != points).any(axis=1)
        for i in np.flatnonzero(differs.any(axis=0) | moved).tolist():
            fields = [name for name, differ in zip(_COLUMNS, differs[:, i].tolist(), strict=True) if differ]
            self._note(int(rows[VERSION, i]), 'differs', (*fields, *(['position'] if moved[i] else [])))

    def _settled(self, rows: Rows) -> Rows:
        """Take back the ends that came after the sequence."""
        rows = rows.copy()
        rows[TO_SEQ, rows[TO_SEQ] > self._sequence] = OPEN
        return rows

    def _find_extra(self) -> None:
        for place in self._parts.values():
            for part in place:
                seen: NDArray[np.bool_] = self._seen[id(part)]
                rows = part.rows[:, : len(seen)]
                extra = ~seen & present(rows) & (rows[FROM_SEQ] <= self._sequence)
                for version_row in rows[VERSION, extra].tolist():
                    self._note(version_row, 'extra')

    def _note(self, version_row: int, kind: str, fields: tuple[str, ...] = ()) -> None:
        if version_row in self._found:
            # Missing where the store has it, extra elsewhere: it stands in another place.
            kind, fields = 'differs', ('place',)
        self._found[version_row] = Difference(version_row, kind, fields)
