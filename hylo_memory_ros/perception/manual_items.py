"""What somebody wrote down of a thing stays as it was written; only its place, or its label, changes."""

from __future__ import annotations

import math
from typing import Any

from hylo_memory_ros.model import MemoryItem, MemoryKind, MemoryQuery, Pose
from hylo_memory_ros.perception.ingestion.observation import digest32
from hylo_memory_ros.perception.map.landmark_map import LandmarkMap
from hylo_memory_ros.perception.port import MemoryPort

__all__ = ['BY_HAND', 'as_written', 'believed']

BY_HAND = digest32(b'')
"""`source` of a landmark that no input began."""


# Places of landmarks are rounded to this, so nearer ones are the place that was written.
_SAME_M = 2e-6


def believed(memory: MemoryPort, key: str, map_id: str) -> MemoryItem | None:
    """Return what is said now under a key of a map."""
    return next((hit.item for hit in memory.query(_about(key, map_id, k=1))), None)


def _last(memory: MemoryPort, key: str, map_id: str) -> MemoryItem | None:
    """Return what was said last under a key, though that has ended: it was merged, and is parted again."""
    hits = memory.query(_about(key, map_id, k=1000, include_invalidated=True))
    return max((hit.item for hit in hits), key=lambda item: item.valid_from_ns or 0, default=None)


def _about(key: str, map_id: str, **fields: Any) -> MemoryQuery:
    scope = {'map_id': map_id} if map_id else None
    return MemoryQuery(kinds=[MemoryKind.SPATIAL], key=key, scope=scope, include_stale=True, **fields)


def as_written(
    item: MemoryItem, memory: MemoryPort, book: LandmarkMap, *, relabelled: bool = False
) -> MemoryItem:
    """Return a statement of perception, or of an edit, so that it takes nothing from what was written.

    Of a thing that perception began, that is the statement itself. Of one that somebody wrote down, it
    is what they wrote, elsewhere: content, payload and all else are not perception's to change.

    Parameters
    ----------
    item : MemoryItem
        The statement.
    memory : MemoryPort
        Knows what was written.
    book : LandmarkMap
        The landmarks of the map.
    relabelled : bool
        Somebody gave it another label, which holds from now on.
    """
    row = None if item.key is None else book.row_of(item.key)
    if row is None or book.state['source'][row] != BY_HAND:
        return item
    written = believed(memory, str(item.key), book.map_id) or _last(memory, str(item.key), book.map_id)
    if written is None or written.pose is None or item.pose is None or _is_own(written):
        return item
    changed: dict[str, Any] = {
        'pose': _placed(written.pose, item.pose),
        'valid_from_ns': item.valid_from_ns,
        'valid_from_assumed': False,
        'id': None,
    }
    if relabelled and item.label != written.label:
        changed['label'] = item.label
        if written.content == written.label:
            changed['content'] = item.label
    return written.model_copy(update=changed)


def _placed(written: Pose, given: Pose) -> Pose:
    if math.dist(written.position, given.position) <= _SAME_M:
        return written
    place: dict[str, Any] = {'position': given.position, 'covariance': given.covariance}
    if given.orientation is not None:
        place['orientation'] = given.orientation
    if written.stamp_ns is not None:
        place['stamp_ns'] = given.stamp_ns
    return written.model_copy(update=place)


def _is_own(item: MemoryItem) -> bool:
    return item.source.startswith('hylo_memory_ros/')
