"""Lineage between summaries and the statements they replace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from hylo_memory_ros.model import MemoryItem

__all__ = [
    'CONSOLIDATED',
    'SUMMARIZES',
    'count_labels',
    'event_count',
    'first_ns',
    'is_summary',
    'last_ns',
    'without_lineage',
]

SUMMARIZES = 'summarises'
"""Relation of a summary to each statement that it replaces."""
CONSOLIDATED = 'consolidated'
"""Name in the payload of a summary under which it describes them."""


def is_summary(item: MemoryItem) -> bool:
    """Return True if an item is a summary."""
    return bool(_told(item))


def without_lineage(item: MemoryItem) -> MemoryItem:
    """Return an item that is no summary without a lineage that its writer put into the payload."""
    if CONSOLIDATED not in item.payload:
        return item
    payload = {name: value for name, value in item.payload.items() if name != CONSOLIDATED}
    return item.model_copy(update={'payload': payload})


def event_count(item: MemoryItem) -> int:
    """Return the number of events behind an item: 1 unless it is a summary."""
    return int(_told(item).get('stands_for', 1))


def count_labels(items: Iterable[MemoryItem]) -> Counter[str]:
    """Count the labels of the events behind items."""
    labels: Counter[str] = Counter()
    for item in items:
        if lineage := _told(item):
            labels.update(lineage.get('labels', {}))
        elif item.label:
            labels[item.label] += 1
    return labels


def first_ns(item: MemoryItem) -> int:
    """Return the begin of the first event behind an item, nanoseconds."""
    return item.event_time.start_ns if item.event_time is not None else item.valid_from_ns or 0


def last_ns(item: MemoryItem) -> int:
    """Return the end of the last event behind an item, nanoseconds."""
    if item.event_time is None or item.event_time.end_ns is None:
        return first_ns(item)
    return item.event_time.end_ns


def _told(item: MemoryItem) -> Mapping[str, Any]:
    """Return the lineage of a summary; empty for any other item, whatever its payload holds."""
    lineage = item.payload.get(CONSOLIDATED)
    if not isinstance(lineage, dict) or not any(relation == SUMMARIZES for relation, _ in item.links):
        return {}
    labels = lineage.get('labels', {})
    counts = [lineage.get('stands_for'), *(labels.values() if isinstance(labels, dict) else [None])]
    return lineage if all(type(count) is int for count in counts) else {}
