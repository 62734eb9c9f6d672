"""Which happenings become one: near duplicates, and what belongs together.

Happenings belong together when they are of one episode, else of one day or several (UTC), and of the same
scope and clock. Those are near duplicates that also say the same words and numbers, of the same label,
entities and objects, at about the same place; whoever brings more than words in its payload is not.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

import numpy as np

from hylo_memory_ros.config import ConsolidationSettings
from hylo_memory_ros.consolidation.similarity import Alike
from hylo_memory_ros.consolidation.wording import normal_words, numbers
from hylo_memory_ros.store.consolidable import Consolidable

__all__ = ['NEAR_DUPLICATE', 'Chunk', 'Member', 'Need', 'Planner', 'Rule']

Rule = Literal['merge', 'summary']
NEAR_DUPLICATE = 'near-duplicate@1'
"""What makes one of near duplicates."""
_DAY_NS = 86_400_000_000_000


class Member(NamedTuple):
    """What is kept of one happening until the plan is made; they are in order of age."""

    begun_ns: int
    """Since when it holds; of a summary, when what it stands for began."""
    place: int
    """Its place among all."""
    version_row: int
    identity_id: int
    assertion_id: int
    items: int
    bytes: int


# Not `Member`: of plain tuples of numbers the garbage collector keeps no account. It would stop all threads
# for 0.3 s to look through 100 000 of the others.
_Row = tuple[int, int, int, int, int, int, int]


class Chunk(NamedTuple):
    """Happenings that are to become one, in order of world time."""

    rule: Rule
    members: tuple[Member, ...]
    episode: str
    """The episode they belong to; empty: none."""

    @property
    def version_rows(self) -> tuple[int, ...]:
        """Their versions."""
        return tuple(member.version_row for member in self.members)


@dataclass(slots=True)
class Need:
    """What is still to leave; it becomes less with each chunk that is taken."""

    items: int
    """Statements; 0 or less: enough have left."""
    bytes: int
    """Bytes; 0 or less: enough have left."""

    def __bool__(self) -> bool:
        """Whether anything is still to leave."""
        return self.items > 0 or self.bytes > 0

    def most(self, largest: int) -> int:
        """Return how many members the next chunk may have at most."""
        return largest if self.bytes > 0 else min(largest, self.items + 1)

    def part_met(self, at_first: Need) -> float:
        """Return which part of what was to leave has left, 0 to 1."""
        pairs = ((self.items, at_first.items), (self.bytes, at_first.bytes))
        parts = [1.0 - max(now, 0) / then for now, then in pairs if then > 0]
        return min(parts, default=1.0)

    def less(self, items: int, size: int) -> None:
        """Take off what leaves."""
        self.items -= items
        self.bytes -= size


class _Together(NamedTuple):
    """What happenings have in common that belong together."""

    episode: str
    days: int
    """Which day, or which so many days."""
    scope: str
    map_id: str
    clock: str


class Planner:
    """Gathers happenings and what stands for some, oldest first, and cuts them into chunks, oldest first.

    Parameters
    ----------
    settings : ConsolidationSettings
        Limits and thresholds.
    level : int
        Only up to this one: 0 for happenings themselves, 1 for what stands for some of them too, and so on.
    days : int, optional
        Of so many days belongs together what is of no episode; none: of any.
    pause : callable
        Called every now and then while it plans.
    """

    def __init__(
        self, settings: ConsolidationSettings, level: int, days: int | None, pause: Callable[[], None]
    ) -> None:
        self._settings = settings
        self.level = level
        self.next_level: int | None = None
        """The lowest one above its own of which there is anything."""
        self._days = days
        self._pause = pause
        self._largest = min(settings.group_items, settings.slice_items)
        self._rows: list[_Row] = []
        self._merged: set[int] = set()
        # By place: the number of what it belongs together with, and of those that it is a near duplicate of.
        self._groups, self._clusters = array('q'), array('q')
        self._group_of: dict[_Together, int] = {}
        self._cluster_of: dict[bytes, int] = {}
        # By cluster: the place of its first, and what those have in common of which only vectors are alike.
        self._firsts, self._alike = array('q'), list[bytes]()

    def add(self, row: Consolidable) -> None:
        """Take one happening in; each must be at least as young as those before."""
        if row.level > self.level:
            self.next_level = min(row.level, self.next_level or row.level)
            return
        place = len(self._rows)
        group = self._group_of.setdefault(self._together(row), len(self._group_of))
        # What was merged is merged again with others of its kind alone.
        merged = bool(row.level) and row.source == NEAR_DUPLICATE
        about = _digest(f'{group} {merged}', row.label, row.named or '', self._cell(row))
        alike = said = place.to_bytes(8, 'big')
        if merged or not row.has_payload:
            words = normal_words(row.content)
            said = _digest(*words)
            if self._settings.near_duplicate_space:
                alike = about + _digest(*numbers(words))
        cluster = self._cluster_of.setdefault(about + said, len(self._alike))
        if cluster == len(self._alike):
            self._alike.append(alike)
            self._firsts.append(place)
        self._groups.append(group)
        self._clusters.append(cluster)
        begun_ns = _start_ns(row) if row.level else row.valid_from_ns
        self._rows.append(
            (begun_ns, place, row.version_row, row.identity_id, row.assertion_id, row.items, row.bytes)
        )

    def _together(self, row: Consolidable) -> _Together:
        apart = not row.episode and self._days is not None
        part = _start_ns(row) // (_DAY_NS * (self._days or 1)) if apart else 0
        return _Together(row.episode, part, row.scope or '', row.map_id, row.event_clock or '')

    def _cell(self, row: Consolidable) -> str:
        if row.frame_id is None:
            return ''
        distance_m = self._settings.near_duplicate_distance_m
        return f'{row.frame_id} {[math.floor(part / distance_m) for part in (row.x, row.y, row.z)]}'

    def heads(self) -> list[int]:
        """Return the assertion that speaks for each cluster, oldest first."""
        return [Member(*self._rows[place]).assertion_id for place in self._firsts]

    def join_alike(self, vectors: Mapping[int, Sequence[float]]) -> None:
        """Make near duplicates also of those whose vectors are alike, but for words without a digit.

        Parameters
        ----------
        vectors : mapping of int to sequence of float
            By assertion, of those that `heads` names.
        """
        alike = Alike(vectors, self._settings.near_duplicate_similarity)
        by_alike: dict[bytes, dict[int, int]] = {}
        for cluster, (common, head) in enumerate(zip(self._alike, self.heads(), strict=True)):
            by_alike.setdefault(common, {})[head] = cluster
        joined = list(range(len(self._alike)))
        for clusters in by_alike.values():
            for head, leader in alike.leaders(list(clusters)).items():
                joined[clusters[head]] = clusters[leader]
        self._clusters = array('q', [joined[cluster] for cluster in self._clusters])

    def merges(self, need: Need) -> Iterator[Chunk]:
        """Yield near duplicates while there is need, oldest first."""
        for chunk in self._cut('merge', self._parts(self._clusters), need):
            self._merged.update(chunk.version_rows)
            yield chunk

    def summaries(self, need: Need) -> Iterator[Chunk]:
        """Yield what belongs together and was not merged while there is need, oldest first."""
        yield from self._cut('summary', self._parts(self._groups), need)

    def _parts(self, number_of: array[int]) -> Iterator[list[_Row]]:
        """Yield those of one number that were not merged, oldest first, where there are several."""
        of = np.array(number_of, np.int64)
        several = np.flatnonzero(np.bincount(of)[of] > 1)
        places = several[np.argsort(of[several], kind='stable')]
        for part in np.split(places, np.flatnonzero(np.diff(of[places])) + 1):
            rows = [self._rows[place] for place in part.tolist()]
            yield sorted(row for row in rows if row[2] not in self._merged)
            self._pause()

    def _cut(self, rule: Rule, parts: Iterator[list[_Row]], need: Need) -> Iterator[Chunk]:
        """Yield pieces of parts, the oldest piece first, the last one as small as the need is.

        By age and not by part: what an interrupted run has left is cut as it would have been.
        """
        episodes = [together.episode for together in self._group_of]
        pieces = [
            rows[first : first + self._largest]
            for rows in parts
            for first in range(0, len(rows) - 1, self._largest)
        ]
        for rows in sorted(pieces):
            if not need:
                return
            members = tuple(Member(*row) for row in rows[: need.most(self._largest)])
            yield Chunk(rule, members, episodes[self._groups[members[0].place]])


def _start_ns(row: Consolidable) -> int:
    return row.valid_from_ns if row.event_start_ns is None else row.event_start_ns


def _digest(*texts: str) -> bytes:
    return blake2b('\0'.join(texts).encode(), digest_size=16).digest()
