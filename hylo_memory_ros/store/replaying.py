"""Belief recomputed: at each change of an identity, its versions must follow from what was known then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hylo_memory_ros.store.timeline import Point, Span, timeline

__all__ = ['BelievedSpan', 'Known', 'Said', 'sequence_of_difference']

# An identity that changed more often is looked at this often: each look costs its whole timeline.
_MOST_LOOKS = 64


class Said(NamedTuple):
    """What an assertion says from one transaction to another, instead of what it first said."""

    from_seq: int
    to_seq: int | None
    content: bytes | None
    """None: nothing."""
    spatial_id: int | None

    def holds(self, seq: int) -> bool:
        """Whether it said so as of a sequence."""
        return self.from_seq <= seq and (self.to_seq is None or self.to_seq > seq)


class Known(NamedTuple):
    """A point, the transaction that took it back, and what corrections made of it."""

    point: Point
    withdrawn_seq: int | None
    spatial_id: int | None = None
    corrected: Sequence[Said] = ()

    def as_of(self, seq: int) -> tuple[Point, int | None] | None:
        """Return the point and its place as of a sequence, or None: it said nothing then."""
        withdrawn = self.withdrawn_seq is not None and self.withdrawn_seq <= seq
        if self.point.sequence > seq or withdrawn:
            return None
        for said in self.corrected:
            if said.holds(seq):
                if said.content is None:
                    return None
                return self.point._replace(content=said.content), said.spatial_id
        return self.point, self.spatial_id


class BelievedSpan(NamedTuple):
    """A span, and the transactions between which it was believed."""

    span: Span
    from_seq: int
    to_seq: int | None
    spatial_id: int | None = None


def sequence_of_difference(known: Sequence[Known], believed: Sequence[BelievedSpan]) -> int | None:
    """Return a sequence as of which an identity's versions do not follow from its points, or None."""
    changes = {one.point.sequence for one in known}
    changes |= {one.withdrawn_seq for one in known if one.withdrawn_seq is not None}
    changes |= {
        seq
        for one in known
        for said in one.corrected
        for seq in (said.from_seq, said.to_seq)
        if seq is not None
    }
    for one in believed:
        if one.from_seq not in changes or (one.to_seq is not None and one.to_seq not in changes):
            return one.from_seq
    newest_first = sorted(changes, reverse=True)
    for seq in newest_first[:: len(newest_first) // _MOST_LOOKS + 1]:
        if not _follows(known, believed, seq):
            return seq
    return None


def _follows(known: Sequence[Known], believed: Sequence[BelievedSpan], seq: int) -> bool:
    points, places = [], {}
    for one in known:
        if (said := one.as_of(seq)) is not None:
            points.append(said[0])
            places[said[0].assertion_id] = said[1]
    held = [one for one in believed if one.from_seq <= seq and (one.to_seq is None or one.to_seq > seq)]
    held.sort(key=lambda one: one.span.valid_from_ns)
    spans = timeline(points)
    return [(span, places[span.assertion_id]) for span in spans] == [
        (one.span, one.spatial_id) for one in held
    ]
