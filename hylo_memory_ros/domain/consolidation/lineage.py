"""What a summary tells of those that it stands for; any other item stands for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from hylo_memory_ros.model import MemoryItem

__all__ = [
    'CONSOLIDATED',
    'STANDS_FOR',
    'as_happening',
    'first_ns',
    'is_standing',
    'labels_of',
    'last_ns',
    'stood',
]

STANDS_FOR = 'summarises'
"""Relation of a summary to each statement that it stands for."""
CONSOLIDATED = 'consolidated'
"""Name in the payload of a summary under which it tells of them."""


def is_standing(item: MemoryItem) -> bool:
    """Whether an item is a summary."""
    return bool(_told(item))


def as_happening(item: MemoryItem) -> MemoryItem:
    """Return an item that nothing made to stand for others, without what its payload says of such."""
    if CONSOLIDATED not in item.payload:
        return item
    payload = {name: value for name, value in item.payload.items() if name != CONSOLIDATED}
    return item.model_copy(update={'payload': payload})


def stood(item: MemoryItem) -> int:
    """Return how many happenings an item stands for."""
    return int(_told(item).get('stands_for', 1))


def labels_of(items: Iterable[MemoryItem]) -> Counter[str]:
    """Return the labels of the happenings that items stand for, with how many have them."""
    labels: Counter[str] = Counter()
    for item in items:
        if told := _told(item):
            labels.update(told.get('labels', {}))
        elif item.label:
            labels[item.label] += 1
    return labels


def first_ns(item: MemoryItem) -> int:
    """Return when the first of the happenings that an item stands for began, nanoseconds."""
    return item.event_time.start_ns if item.event_time is not None else item.valid_from_ns or 0


def last_ns(item: MemoryItem) -> int:
    """Return when the last of the happenings that an item stands for ended, nanoseconds."""
    if item.event_time is None or item.event_time.end_ns is None:
        return first_ns(item)
    return item.event_time.end_ns


def _told(item: MemoryItem) -> Mapping[str, Any]:
    """Return what a summary tells; empty: it is none, whatever its payload looks like."""
    told = item.payload.get(CONSOLIDATED)
    if not isinstance(told, dict) or not any(relation == STANDS_FOR for relation, _ in item.links):
        return {}
    labels = told.get('labels', {})
    counts = [told.get('stands_for'), *(labels.values() if isinstance(labels, dict) else [None])]
    return told if all(type(count) is int for count in counts) else {}
