"""What has to be stored of the landmarks of a map, and the numbers of new ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from hylo_memory_ros.perception.map.keyframes import StoredKeyframe
from hylo_memory_ros.perception.map.sightings import SightingChanges

__all__ = ['Changes', 'Numbering']


class Numbering:
    """Numbers for new landmarks, over all maps; none is given twice.

    Parameters
    ----------
    following : int
        The first one to give.
    """

    def __init__(self, following: int = 1) -> None:
        self.following = following
        """The next one to give."""

    def take(self) -> int:
        """Return a fresh number."""
        self.following += 1
        return self.following - 1


class Changes(NamedTuple):
    """What has to be stored of a book."""

    saved: Sequence[Mapping[str, Any]]
    """Rows to insert or replace."""
    deleted: Collection[int]
    """Numbers of landmarks that are gone."""
    new: Collection[str]
    """Keys that are saved for the first time."""
    keyframes: Sequence[StoredKeyframe]
    """Keyframes to insert or replace."""
    sightings: SightingChanges
    """What changed of the sightings."""

    def __bool__(self) -> bool:
        return bool(self.saved or self.deleted or self.keyframes or self.sightings)
