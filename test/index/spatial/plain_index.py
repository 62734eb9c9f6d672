"""The index's meaning in plain Python: every row looked at, every distance by `math.dist`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hylo_memory_ros.index.spatial import OPEN, BelievedRow


class PlainIndex:
    """Rows in a dict; the answers are lists of (distance, version row)."""

    def __init__(self) -> None:
        self.rows: dict[int, BelievedRow] = {}
        self.sequence = 0

    def apply(
        self,
        sequence: int,
        added: Iterable[BelievedRow] = (),
        ended: Iterable[int] = (),
        removed: Iterable[int] = (),
    ) -> None:
        for row in added:
            if all(map(math.isfinite, (row.x, row.y, row.z))):
                self.rows.setdefault(row.version_row, row)
        for version_row in ended:
            if version_row in self.rows and self.rows[version_row].to_seq is None:
                self.rows[version_row] = replace(self.rows[version_row], to_seq=sequence)
        for version_row in removed:
            self.rows.pop(version_row, None)
        self.sequence = max(self.sequence, sequence)

    def matching(
        self,
        map_id: str | None,
        frame_id: str,
        center: tuple[float, float, float],
        *,
        at_ns: int | None = None,
        seq: int | None = None,
        horizontal: bool = False,
    ) -> list[tuple[float, int]]:
        axes = 2 if horizontal else 3
        return sorted(
            (math.dist((row.x, row.y, row.z)[:axes], center[:axes]), row.version_row)
            for row in self._believed(seq)
            if map_id in (None, row.map_id)
            and row.frame_id == frame_id
            and (at_ns is None or row.valid_from_ns <= at_ns)
            and (at_ns is None or at_ns < (OPEN if row.valid_to_ns is None else row.valid_to_ns))
        )

    def _believed(self, seq: int | None) -> Iterator[BelievedRow]:
        seq = self.sequence if seq is None else min(seq, self.sequence)
        for row in self.rows.values():
            if row.from_seq <= seq < (OPEN if row.to_seq is None else row.to_seq):
                yield row
