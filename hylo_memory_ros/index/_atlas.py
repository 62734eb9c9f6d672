"""The places of a mirror, and how a committed change reaches them.

Changed by one thread at a time, under the mirror's lock. The dict of places is replaced when a place is
added, so that readers walk through the one they took.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hylo_memory_ros.index._ball import LARGEST
from hylo_memory_ros.index._intake import Key
from hylo_memory_ros.index._place import Place
from hylo_memory_ros.index._rows import OPEN, BelievedRow

__all__ = ['Atlas', 'Change']


class Change(NamedTuple):
    """What one committed transaction did to the rows that have a pose."""

    sequence: int
    added: Sequence[BelievedRow] = ()
    ended: Collection[int] = ()
    removed: Collection[int] = ()


class Atlas:
    """Places by (map, frame).

    Attributes
    ----------
    places : dict
        Never changed, only replaced.
    skipped : int
        Rows left out for a coordinate that is not finite.
    """

    def __init__(
        self, places: dict[Key, Place] | None = None, highest_row: int = 0, skipped: int = 0
    ) -> None:
        self.places = places or {}
        self.skipped = skipped
        self._highest_row = highest_row

    def find(self, map_id: str | None, frame_id: str | Collection[str]) -> Iterable[Place]:
        """Find the places of a map, or of every map, in a frame or in several."""
        if map_id is not None and isinstance(frame_id, str):
            place = self.places.get((map_id, frame_id))
            return () if place is None else (place,)
        frames = {frame_id} if isinstance(frame_id, str) else frame_id
        return [place for (m, f), place in self.places.items() if map_id in (None, m) and f in frames]

    def follow(self, change: Change, cutoff_ns: int) -> None:
        """Make the change; what is already known, or not here, changes nothing."""
        if change.added:
            self._add(change.added, cutoff_ns)
        if change.ended:
            version_rows = np.array(list(change.ended), np.int64)
            left = len(version_rows)
            for place in self.places.values():
                left -= place.end(version_rows, change.sequence) if left else 0
        if change.removed:
            version_rows = np.array(list(change.removed), np.int64)
            for place in self.places.values():
                place.remove(version_rows)

    def _add(self, added: Sequence[BelievedRow], cutoff_ns: int) -> None:
        groups: dict[Key, tuple[list[tuple[int, ...]], list[tuple[float, float, float]]]] = {}
        for row in self._unknown(added):
            point = (row.x, row.y, row.z)
            if not all(abs(axis) <= LARGEST for axis in point):
                self.skipped += 1
                continue
            valid_to = OPEN if row.valid_to_ns is None else row.valid_to_ns
            to_seq = OPEN if row.to_seq is None else row.to_seq
            rows, points = groups.setdefault((row.map_id, row.frame_id), ([], []))
            rows.append((row.version_row, row.valid_from_ns, valid_to, row.spatial_id, row.from_seq, to_seq))
            points.append(point)
        for key, (rows, points) in groups.items():
            place = self.places.get(key)
            if place is None:
                place = Place()
                self.places = {**self.places, key: place}
            place.extend(rows, points, cutoff_ns)

    def _unknown(self, added: Sequence[BelievedRow]) -> Iterable[BelievedRow]:
        """Leave out the rows that are here already, as after a load that had read them too."""
        rows = {row.version_row: row for row in added}
        # Numbers only grow, so that hardly ever a row has to be looked for.
        old = np.array([version_row for version_row in rows if version_row <= self._highest_row], np.int64)
        if len(old):
            for place in self.places.values():
                for version_row in old[place.knows(old)].tolist():
                    rows.pop(version_row, None)
        self._highest_row = max(self._highest_row, max(rows, default=0))
        return rows.values()
