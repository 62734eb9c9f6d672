"""Which happenings become one: near duplicates, and what belongs together.

Happenings belong together when they are of one episode, else of one day or several (UTC), and of the same
scope and clock. Those are near duplicates that also say the same words and numbers, of the same label,
entities and objects, at about the same place; whoever brings more than words in its payload is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple

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
    """What is kept of one happening until the plan is made."""

    order: tuple[int, int]
    """Since when it holds, or what it stands for began, and its place among all: oldest first."""
    version_row: int
    identity_id: int
    assertion_id: int
    items: int
    bytes: int


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


@dataclass(slots=True)
class _Cluster:
    together: _Together
    about: bytes
    """Digest of label, names, place and numbers: those that differ in it are never near duplicates."""
    more: bool
    """Whether it says more than words: then it is alike to nobody."""
    members: list[Member] = field(default_factory=list)
    joined: bool = False
    """Whether it became part of an earlier one."""


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
        self._clusters: dict[tuple[_Together, bytes, bool, bytes], _Cluster] = {}
        self._groups: dict[_Together, list[Member]] = {}
        self._keys: dict[_Together, _Together] = {}
        self._merged: set[int] = set()
        self._count = 0

    def add(self, row: Consolidable) -> None:
        """Take one happening in; each must be at least as young as those before."""
        if row.level > self.level:
            self.next_level = min(row.level, self.next_level or row.level)
            return
        together = self._together(row)
        # What was merged is merged again with others of its kind alone.
        merged = bool(row.level) and row.source == NEAR_DUPLICATE
        more = bool(row.has_payload) and not merged
        words = normal_words(row.content)
        about = self._about(row, merged, numbers(words))
        alone = row.version_row.to_bytes(8, 'big', signed=True)
        key = together, about, more, alone if more else _digest(*words)
        cluster = self._clusters.get(key)
        if cluster is None:
            cluster = self._clusters[key] = _Cluster(together, about, more)
        begun_ns = _start_ns(row) if row.level else row.valid_from_ns
        member = Member(
            (begun_ns, self._count), row.version_row, row.identity_id, row.assertion_id, row.items, row.bytes,
        )  # fmt: skip
        cluster.members.append(member)
        self._groups.setdefault(together, []).append(member)
        self._count += 1

    def _together(self, row: Consolidable) -> _Together:
        apart = not row.episode and self._days is not None
        part = _start_ns(row) // (_DAY_NS * (self._days or 1)) if apart else 0
        found = _Together(row.episode, part, row.scope or '', row.map_id, row.event_clock or '')
        return self._keys.setdefault(found, found)

    def _about(self, row: Consolidable, merged: bool, counted: Sequence[str]) -> bytes:
        distance_m = self._settings.near_duplicate_distance_m
        cell = ''
        if row.frame_id is not None:
            cell = f'{row.frame_id} {[math.floor(part / distance_m) for part in (row.x, row.y, row.z)]}'
        return _digest(row.label, row.named or '', cell, str(merged), *counted)

    def heads(self) -> list[int]:
        """Return the assertion that speaks for each cluster, oldest first."""
        return [cluster.members[0].assertion_id for cluster in self._clusters.values()]

    def join_alike(self, vectors: Mapping[int, Sequence[float]]) -> None:
        """Make near duplicates also of those whose vectors are alike, but for words without a digit.

        Parameters
        ----------
        vectors : mapping of int to sequence of float
            By assertion, of those that `heads` names.
        """
        alike = Alike(vectors, self._settings.near_duplicate_similarity)
        by_about: dict[tuple[_Together, bytes], list[_Cluster]] = {}
        for cluster in self._clusters.values():
            if not cluster.more:
                by_about.setdefault((cluster.together, cluster.about), []).append(cluster)
        for clusters in by_about.values():
            by_head = {cluster.members[0].assertion_id: cluster for cluster in clusters}
            for head, leader in alike.leaders(list(by_head)).items():
                if leader != head:
                    by_head[leader].members += by_head[head].members
                    by_head[head].joined = True

    def merges(self, need: Need) -> Iterator[Chunk]:
        """Yield near duplicates while there is need, oldest first."""
        groups = [
            (cluster.together, cluster.members) for cluster in self._clusters.values() if not cluster.joined
        ]
        for chunk in self._cut('merge', groups, need):
            self._merged.update(chunk.version_rows)
            yield chunk

    def summaries(self, need: Need) -> Iterator[Chunk]:
        """Yield what belongs together and was not merged while there is need, oldest first."""
        groups = []
        for together, members in self._groups.items():
            left = [member for member in members if member.version_row not in self._merged]
            groups.append((together, left))
            self._pause()
        yield from self._cut('summary', groups, need)

    def _cut(
        self, rule: Rule, groups: Sequence[tuple[_Together, Sequence[Member]]], need: Need
    ) -> Iterator[Chunk]:
        """Yield pieces of groups, the oldest piece first, the last one as small as the need is.

        By age and not by group: what an interrupted run has left is cut as it would have been.
        """
        pieces = [
            (members[first : first + self._largest], together)
            for together, members in ((together, sorted(unordered)) for together, unordered in groups)
            for first in range(0, len(members) - 1, self._largest)
        ]
        for members, together in sorted(pieces, key=lambda piece: piece[0][0].order):
            if not need:
                return
            yield Chunk(rule, tuple(members[: need.most(self._largest)]), together.episode)


def _start_ns(row: Consolidable) -> int:
    return row.valid_from_ns if row.event_start_ns is None else row.event_start_ns


def _digest(*texts: str) -> bytes:
    return blake2b('\0'.join(texts).encode(), digest_size=16).digest()
