"""Consolidation planner: groups near duplicates and related events into chunks.

Events are related when they are of one episode, else of one day or several (UTC), and of the same scope and
clock. Related events with the same words and numbers, label, entities and objects at about the same place
are near duplicates; an event with a payload is none.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.config import ConsolidationSettings
from hylo_memory_ros.domain.consolidation.summarizer import normal_words, numbers


class ConsolidationCandidate(NamedTuple):
    """One event that holds now, with the columns that planning reads."""

    version_row: int
    identity_id: int
    assertion_id: int
    valid_from_ns: int
    event_start_ns: int | None
    event_clock: str | None
    label: str
    content: str
    map_id: str
    scope: str | None
    """JSON, or None: nothing beside its map."""
    named: str | None
    """Entities and object ids as JSON, or None: there are none."""
    has_payload: int
    frame_id: str | None
    """Frame of its place, or None: it has none."""
    x: float
    y: float
    z: float
    episode: str
    """The episode in which it was stored; empty: none."""
    source: str
    level: int
    """0: an event; else a summary, 1 above the highest level that it may replace."""
    items: int
    """Accepted statements of its identity, duplicates too."""
    bytes: int
    """Approximate size of them with their vectors."""


# Bounds the cost of one comparison; an event of long ago is no near duplicate of a new one.
_LOOKS_BACK = 256


class SimilarityClusters:
    """Clusters statements by the cosine of their vectors.

    Parameters
    ----------
    vectors : mapping of int to sequence of float
        By the number of the statement; one without a vector stays alone.
    least : float
        Least cosine of two members of a cluster.
    """

    def __init__(self, vectors: Mapping[int, Sequence[float]], least: float) -> None:
        self._vectors = vectors
        self._least = least

    def leaders(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return the head of the cluster of each statement: itself, or an earlier statement.

        Parameters
        ----------
        numbers : sequence of int
            In order of world time.
        """
        leaders: dict[int, int] = {}
        heads: list[int] = []
        rows: NDArray[np.float32] | None = None
        for number in numbers:
            vector = self._unit(number)
            leaders[number] = number
            if vector is None:
                continue
            if rows is None:
                rows = np.empty((_LOOKS_BACK, len(vector)), np.float32)
            near = rows[: min(len(heads), _LOOKS_BACK)] @ vector
            best = int(near.argmax()) if len(near) else -1
            if best >= 0 and near[best] >= self._least:
                leaders[number] = heads[self._head_at(best, len(heads))]
                continue
            rows[len(heads) % _LOOKS_BACK] = vector
            heads.append(number)
        return leaders

    @staticmethod
    def _head_at(place: int, count: int) -> int:
        """Return the index of the head in a row of the ring."""
        turn = (count - 1 - place) // _LOOKS_BACK
        return place + turn * _LOOKS_BACK

    def _unit(self, number: int) -> NDArray[np.float32] | None:
        vector = self._vectors.get(number)
        if vector is None:
            return None
        found = np.asarray(vector, np.float32)
        unit: NDArray[np.float32] = found / np.linalg.norm(found)
        return unit


Rule = Literal['merge', 'summary']
NEAR_DUPLICATE = 'near-duplicate@1'
"""Name and version of the rule that merges near duplicates."""
NEAR_DUPLICATE_DISTANCE_M = 1.0
"""Side of the cells in which near duplicates lie together, metres."""
_DAY_NS = 86_400_000_000_000


class Member(NamedTuple):
    """Columns of one event that are kept until the plan is made."""

    begun_ns: int
    """Begin of its validity; of a summary, begin of its first event."""
    version_row: int
    identity_id: int
    assertion_id: int
    items: int
    bytes: int


_WIDTH = len(Member._fields)


class Chunk(NamedTuple):
    """Events that become one statement, in order of world time."""

    rule: Rule
    members: tuple[Member, ...]
    episode: str
    """The episode they belong to; empty: none."""

    @property
    def version_rows(self) -> tuple[int, ...]:
        """Their versions."""
        return tuple(member.version_row for member in self.members)

    def first(self, most: int) -> Chunk:
        """Return it with its oldest members alone."""
        return self if most >= len(self.members) else self._replace(members=self.members[:most])


@dataclass(slots=True)
class Need:
    """Amount that still has to leave; each chunk that is taken reduces it."""

    items: int
    """Statements; 0 or less: enough have left."""
    bytes: int
    """Bytes; 0 or less: enough have left."""

    def __bool__(self) -> bool:
        """Return True if something still has to leave."""
        return self.items > 0 or self.bytes > 0

    def most(self, members: int) -> int:
        """Return how many of so many members the next chunk needs."""
        return members if self.bytes > 0 else min(members, self.items + 1)

    def part_met(self, at_first: Need) -> float:
        """Return the share of the initial need that has been met, 0 to 1."""
        pairs = ((self.items, at_first.items), (self.bytes, at_first.bytes))
        parts = [1.0 - max(now, 0) / then for now, then in pairs if then > 0]
        return min(parts, default=1.0)

    def less(self, items: int, size: int) -> None:
        """Subtract what leaves."""
        self.items -= items
        self.bytes -= size


class _GroupKey(NamedTuple):
    """Common attributes of related events."""

    episode: str
    days: int
    """Which day, or which so many days."""
    scope: str
    map_id: str
    clock: str


class Planner:
    """Groups events and summaries, oldest first, into chunks, oldest first.

    Parameters
    ----------
    settings : ConsolidationSettings
        Limits and thresholds.
    level : int
        Highest level taken: 0 for events, 1 for their summaries too, and so on.
    days : int, optional
        Days that form one group where there is no episode; none: all days.
    pause : callable
        Called every now and then while it plans.
    """

    def __init__(
        self, settings: ConsolidationSettings, level: int, days: int | None, pause: Callable[[], None]
    ) -> None:
        self._settings = settings
        self.level = level
        self.next_level: int | None = None
        """The lowest level above its own that has a statement."""
        self._days = days
        self._pause = pause
        self._largest = min(settings.group_items, settings.slice_items)
        # Numbers in a row, by place among all: of a hundred thousand tuples the garbage collector would keep
        # account, and stop all threads to look through them.
        self._kept = array('q')
        self._merged: list[int] = []
        # By place: the number of its group of related events, and of its cluster of near duplicates.
        self._groups, self._clusters = array('q'), array('q')
        self._group_of: dict[_GroupKey, int] = {}
        self._episodes: list[str] = []
        self._cluster_of: dict[bytes, int] = {}
        # By cluster: place of its first member, and the key shared with clusters that vectors may join.
        self._firsts, self._alike = array('q'), list[bytes]()

    def add(self, row: ConsolidationCandidate) -> None:
        """Add one event; each must be at least as young as those before."""
        if row.level > self.level:
            self.next_level = min(row.level, self.next_level or row.level)
            return
        place = len(self._groups)
        group = self._group_of.setdefault(self._group_key(row), len(self._episodes))
        if group == len(self._episodes):
            self._episodes.append(row.episode)
        # What was merged is merged again with others of its kind alone.
        merged = bool(row.level) and row.source == NEAR_DUPLICATE
        about = _digest(f'{group} {merged}', row.label, row.named or '', self._cell(row))
        alike = text = place.to_bytes(8, 'big')
        if merged or not row.has_payload:
            words = normal_words(row.content)
            text = _digest(*words)
            if self._settings.near_duplicate_space:
                alike = about + _digest(*numbers(words))
        cluster = self._cluster_of.setdefault(about + text, len(self._alike))
        if cluster == len(self._alike):
            self._alike.append(alike)
            self._firsts.append(place)
        self._groups.append(group)
        self._clusters.append(cluster)
        begun_ns = _start_ns(row) if row.level else row.valid_from_ns
        self._kept.extend(
            Member(begun_ns, row.version_row, row.identity_id, row.assertion_id, row.items, row.bytes)
        )

    def _group_key(self, row: ConsolidationCandidate) -> _GroupKey:
        apart = not row.episode and self._days is not None
        part = _start_ns(row) // (_DAY_NS * (self._days or 1)) if apart else 0
        return _GroupKey(row.episode, part, row.scope or '', row.map_id, row.event_clock or '')

    def _cell(self, row: ConsolidationCandidate) -> str:
        if row.frame_id is None:
            return ''
        cell = [math.floor(part / NEAR_DUPLICATE_DISTANCE_M) for part in (row.x, row.y, row.z)]
        return f'{row.frame_id} {cell}'

    def heads(self) -> list[int]:
        """Return the first assertion of each cluster, oldest first."""
        return [self._member(place).assertion_id for place in self._firsts]

    def join_alike(self, vectors: Mapping[int, Sequence[float]]) -> None:
        """Join clusters whose vectors are alike and whose words with digits are equal.

        Parameters
        ----------
        vectors : mapping of int to sequence of float
            By assertion, of those that `heads` names.
        """
        alike = SimilarityClusters(vectors, self._settings.near_duplicate_similarity)
        by_alike: dict[bytes, dict[int, int]] = {}
        for cluster, (common, head) in enumerate(zip(self._alike, self.heads(), strict=True)):
            by_alike.setdefault(common, {})[head] = cluster
        joined = list(range(len(self._alike)))
        for clusters in by_alike.values():
            for head, leader in alike.leaders(list(clusters)).items():
                joined[clusters[head]] = clusters[leader]
        self._clusters = array('q', [joined[cluster] for cluster in self._clusters])

    def merges(self) -> Iterator[Chunk]:
        """Yield near duplicates, oldest first."""
        for places in self._pieces(self._clusters):
            self._merged += places
            yield self._chunk('merge', places)

    def summaries(self) -> Iterator[Chunk]:
        """Yield groups of related events that were not yielded as near duplicates, oldest first."""
        for places in self._pieces(self._groups):
            yield self._chunk('summary', places)

    def _pieces(self, number_of: array[int]) -> Iterator[list[int]]:
        """Yield places of one number that were not merged, at least two, the oldest piece first.

        By age and not by number: what an interrupted run has left is cut as it would have been.
        """
        pieces, most = list[NDArray[np.intp]](), self._largest
        for part in self._parts(np.array(number_of, np.int64)):
            pieces += [part[first : first + most] for first in range(0, len(part) - 1, most)]
            self._pause()
        for piece in sorted(pieces, key=lambda places: (self._member(places[0]).begun_ns, places[0])):
            yield piece.tolist()

    def _parts(self, of: NDArray[np.int64]) -> list[NDArray[np.intp]]:
        """Return the places of each number that were not merged, in order of age, where there are several."""
        left = np.ones(len(of), bool)
        left[self._merged] = False
        several = np.bincount(of[left], minlength=len(of)) > 1
        places = np.flatnonzero(left & several[of])
        begun_ns = np.array(self._kept, np.int64).reshape(-1, _WIDTH)[places, 0]
        places = places[np.lexsort((places, begun_ns, of[places]))]
        return np.split(places, np.flatnonzero(np.diff(of[places])) + 1)

    def _chunk(self, rule: Rule, places: Sequence[int]) -> Chunk:
        episode = self._episodes[self._groups[places[0]]]
        return Chunk(rule, tuple(map(self._member, places)), episode)

    def _member(self, place: int) -> Member:
        return Member(*self._kept[place * _WIDTH : (place + 1) * _WIDTH])


def _start_ns(row: ConsolidationCandidate) -> int:
    return row.valid_from_ns if row.event_start_ns is None else row.event_start_ns


def _digest(*texts: str) -> bytes:
    return blake2b('\0'.join(texts).encode(), digest_size=16).digest()
