"""Belief recomputed: at each change of an identity, its versions must follow from what was known then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hylo_memory_ros.store.timeline import Point, Span, timeline

__all__ = ['BelievedSpan', 'Known', 'sequence_of_difference']

# An identity that changed more often is looked at this often: each look costs its whole timeline.
_MOST_LOOKS = 64


class Known(NamedTuple):
    """A point, and the transaction that took it back."""

    point: Point
    withdrawn_seq: int | None


class BelievedSpan(NamedTuple):
    """A span, and the transactions between which it was believed."""

    span: Span
    from_seq: int
    to_seq: int | None


def sequence_of_difference(known: Sequence[Known], believed: Sequence[BelievedSpan]) -> int | None:
    """Return a sequence as of which an identity's versions do not follow from its points, or None."""
    changes = {one.point.sequence for one in known}
    changes |= {one.withdrawn_seq for one in known if one.withdrawn_seq is not None}
    for one in believed:
        if one.from_seq not in changes or (one.to_seq is not None and one.to_seq not in changes):
            return one.from_seq
    newest_first = sorted(changes, reverse=True)
    for seq in newest_first[:: len(newest_first) // _MOST_LOOKS + 1]:
        points = [
            one.point
            for one in known
            if one.point.sequence <= seq and (one.withdrawn_seq is None or one.withdrawn_seq > seq)
        ]
        held = [
            one.span for one in believed if one.from_seq <= seq and (one.to_seq is None or one.to_seq > seq)
        ]
        if timeline(points) != sorted(held, key=lambda span: span.valid_from_ns):
            return seq
    return None
