"""The timeline of one identity: a pure function of its assertions, forgets and consolidations.

Points are ordered by ``valid_from``; at equal ``valid_from`` the one that came latest wins.
Neighbours of equal content form one span, which starts at the first of them. An ending is a point
without content: it ends what held before it, and nothing older resurfaces behind it; an assertion
from the same instant that comes later holds. Its cause is a forget, an end that was observed or
reported, or a consolidation, in which a summary replaces what it ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

FORGET = 'forget'
"""Ending by a forget."""
END = 'end'
"""Ending that perception, a report or a move states."""
CONSOLIDATE = 'consolidate'
"""Ending by a summary."""


class Point(NamedTuple):
    """One assertion or ending of an identity; the field order is the order of application."""

    valid_from_ns: int
    """World time from which it holds."""
    sequence: int
    """Transaction that recorded it."""
    position: int
    """Its place in that transaction."""
    content: bytes | None
    """Content digest; None: it ends here."""
    assertion_id: int
    """The assertion; 0: an ending."""
    ending: str = ''
    """Cause of an ending: `FORGET`, `END` or `CONSOLIDATE`; empty: an assertion."""


class Span(NamedTuple):
    """A maximal stretch ``[valid_from, valid_to)`` of world time with one content."""

    valid_from_ns: int
    valid_to_ns: int | None
    """None: open."""
    ended_by: str | None
    """`FORGET` or `END`; None: it is open, superseded or consolidated."""
    content: bytes
    assertion_id: int
    """The first assertion of this content at `valid_from_ns`."""


def timeline(points: Iterable[Point]) -> list[Span]:
    """Return the spans of one identity in order of world time.

    Examples
    --------
    >>> a, b = b'A', b'B'
    >>> written = [Point(1, 1, 0, a, 1), Point(3, 2, 0, a, 2), Point(2, 3, 0, b, 3)]
    >>> [(s.content, s.valid_from_ns, s.valid_to_ns) for s in timeline(written)]
    [(b'A', 1, 2), (b'B', 2, 3), (b'A', 3, None)]
    """
    spans: list[Span] = []
    holding: Point | None = None
    for point, endings in _winners(points):
        if holding is not None and holding.content is not None:
            if point.content == holding.content and not endings:
                continue
            causes = {ending.ending for ending in endings}
            ended_by = next((cause for cause in (FORGET, END) if cause in causes), None)
            spans.append(_span(holding, point.valid_from_ns, ended_by))
        holding = point
    if holding is not None and holding.content is not None:
        spans.append(_span(holding, None, None))
    return spans


def _span(first: Point, valid_to_ns: int | None, ended_by: str | None) -> Span:
    assert first.content is not None
    return Span(first.valid_from_ns, valid_to_ns, ended_by, first.content, first.assertion_id)


def _winners(points: Iterable[Point]) -> Iterator[tuple[Point, list[Point]]]:
    """Yield for each ``valid_from`` the latest point, as its first repetition, and the endings there."""
    ordered = sorted(points, key=lambda point: point[:3])
    for _, group in groupby(ordered, key=lambda point: point.valid_from_ns):
        winner, *others = group
        endings = [] if winner.content is not None else [winner]
        for point in others:
            if point.content is None:
                endings.append(point)
            if point.content != winner.content:
                winner = point
        yield winner, endings


def span_at(spans: Sequence[Span], at_ns: int) -> Span | None:
    """Return the span that holds at a world time, or None."""
    place = bisect_right(spans, at_ns, key=lambda span: span.valid_from_ns) - 1
    if place < 0:
        return None
    span = spans[place]
    return span if span.valid_to_ns is None or at_ns < span.valid_to_ns else None


def open_span(spans: Sequence[Span]) -> Span | None:
    """Return the span without an end, or None."""
    return spans[-1] if spans and spans[-1].valid_to_ns is None else None
