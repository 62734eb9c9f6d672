"""Tiered reader: merges answers of the main file and the archive.

A version and the rows that belong to it are in one file, so each file answers for its own; only links and
episodes lead from one to the other, and those are followed from the archive, with the main file attached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from hylo_memory_ros.model import Version
from hylo_memory_ros.storage.query import select as asking
from hylo_memory_ros.storage.query.select import TOTAL_LIMIT, CandidateRows, RankedRow
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.statements import embeddings as embedding
from hylo_memory_ros.storage.statements import history
from hylo_memory_ros.storage.statements.embeddings import VectorTuple, VersionTuple
from hylo_memory_ros.storage.statements.mapper import ItemRow

T = TypeVar('T')
_VALID_FROM, _ID = 1, 8


class TieredReader(NamedTuple):
    """One consistent state of a store: the main file, and the archive file where a question reaches it."""

    live: sa.Connection
    archive: sa.Connection | None = None

    @property
    def all(self) -> tuple[sa.Connection, ...]:
        """Every file that is read."""
        return (self.live,) if self.archive is None else (self.live, self.archive)

    def _asked(self, asked: QuerySpec) -> tuple[tuple[sa.Connection, QuerySpec], ...]:
        """Return what to ask of each file."""
        if self.archive is None:
            return ((self.live, asked),)
        there = replace(asked, archived=True)
        if asked.query.depth > 1:
            there = replace(there, reached=asking.rows_reached(self.archive, there))
        return (self.live, replace(there, archived=False)), (self.archive, there)

    def page(self, asked: QuerySpec, limit: int, offset: int) -> list[RankedRow]:
        """Return matches in order; see `asking.match_page`."""
        if self.archive is None:
            return asking.match_page(self.live, asked, limit, offset)
        pages = [asking.match_page(one, of, offset + limit) for one, of in self._asked(asked)]
        return list(islice(merge(*pages, key=_order), offset, offset + limit))

    def count(self, asked: QuerySpec) -> int:
        """Return how many match; see `asking.count_matches`."""
        return min(sum(asking.count_matches(one, of) for one, of in self._asked(asked)), TOTAL_LIMIT + 1)

    def matching(self, asked: QuerySpec, among: Sequence[int] | None) -> dict[int, float | None]:
        """Return matching version rows; see `asking.matching_rows`."""
        found: dict[int, float | None] = {}
        for one, of in self._asked(asked):
            found |= asking.matching_rows(one, of, among)
        return found

    def candidates(self, asked: QuerySpec, among: Sequence[int] | None) -> CandidateRows:
        """Return all that matches, with what can be ranked; see `asking.candidates`."""
        if self.archive is None:
            return asking.candidates(self.live, asked, among)
        parts = [asking.candidates(one, of, among, ids=True) for one, of in self._asked(asked)]
        parts = [part for part in parts if part.version_rows]
        if not parts:
            return CandidateRows()
        # A column that was not asked for is empty in both.
        filled = [name for name in CandidateRows._fields if getattr(parts[0], name)]
        rows = (zip(*(getattr(part, name) for name in filled), strict=True) for part in parts)
        stamp, name = filled.index('valid_from_ns'), filled.index('ids')
        in_order = merge(*rows, key=lambda row: (-row[stamp], row[name]))
        return CandidateRows(**dict(zip(filled, zip(*in_order, strict=True), strict=True)))

    def excluded_by_time(self, asked: QuerySpec, among: Sequence[int] | None) -> dict[str, int]:
        """Count what does not hold at the time, by reason; see `asking.excluded_by_time`."""
        # Links are followed through what held whenever, as its matches are looked for.
        everywhen = self._asked(replace(asked, world='any'))
        return _summed(
            asking.excluded_by_time(one, replace(of, world=asked.world), among) for one, of in everywhen
        )

    def excluded_by_statistics(self, asked: QuerySpec, among: Sequence[int] | None) -> dict[str, int]:
        """Count what only its statistics exclude, by reason; see `asking.excluded_by_statistics`."""
        return _summed(asking.excluded_by_statistics(one, of, among) for one, of in self._asked(asked))

    def estimates(self, asked: QuerySpec, most: int) -> dict[str, int]:
        """Return about how many statements pass each filter; see `asking.estimates`."""
        counts = asking.estimates(self.live, asked, most)
        if self.archive is not None:
            # Keys and words are those of the main file, whichever file their statements are in.
            archive = asking.estimates(self.archive, replace(asked, archived=True), most)
            counts = {
                name: count if name in ('keys', 'text') else min(count + archive[name], most)
                for name, count in counts.items()
            }
        return counts

    def names_reached(self, asked: QuerySpec) -> set[tuple[str, str]]:
        """Return what the links of a question reach; see `asking.names_reached`."""
        if self.archive is None:
            return asking.names_reached(self.live, asked)
        return asking.names_reached(self.archive, replace(asked, archived=True))

    def fetch(self, version_rows: Sequence[int]) -> dict[int, ItemRow]:
        """Return item rows by version row; see `asking.fetch`."""
        return _united(asking.fetch(one, version_rows) for one in self.all)

    def vectors(self, rows: Iterable[ItemRow]) -> dict[int, dict[str, tuple[float, ...]]]:
        """Return the vectors of item rows; see `asking.embeddings_of`."""
        rows = list(rows)
        return _united(asking.embeddings_of(one, rows) for one in self.all)

    def history(self, limit: int, offset: int, **named: Any) -> list[Version]:
        """Return versions in the order of belief; see `history.versions_of`."""
        if self.archive is None:
            return [one for _, one in history.versions_of(self.live, limit=limit, offset=offset, **named)]
        parts = [history.versions_of(one, limit=offset + limit, **named) for one in self.all]
        in_order = merge(*parts, key=lambda one: one[0])
        return [version for _, version in islice(in_order, offset, offset + limit)]

    def vectors_of(self, space: str, assertions: Sequence[int]) -> dict[int, bytes]:
        """Return the float32 bytes of vectors by assertion; see `embedding.vectors_of_assertions`."""
        return _united(embedding.vectors_of_assertions(one, space, assertions) for one in self.all)

    def vector_records(self, space: str) -> list[tuple[int, str, bytes]]:
        """Return assertion, item id and digest of every vector of a space, in order of the assertion."""
        return list(merge(*(embedding.vector_records(one, space) for one in self.all)))

    def vector_batches(self, size: int) -> Iterator[list[VectorTuple]]:
        """Yield every vector, in order of its assertion."""
        return self._batches(embedding.vector_batches, size)

    def vector_version_batches(self, size: int) -> Iterator[list[VersionTuple]]:
        """Yield every version that has a vector, in order of its row."""
        return self._batches(embedding.vector_version_batches, size)

    def _batches(
        self, batches: Callable[[sa.Connection, int], Iterator[list[Any]]], size: int
    ) -> Iterator[list[Any]]:
        if self.archive is None:
            yield from batches(self.live, size)
            return
        rows = merge(
            *((row for batch in batches(one, size) for row in batch) for one in self.all), key=_first
        )
        while batch := list(islice(rows, size)):
            yield batch


def _first(row: Sequence[Any]) -> Any:
    return row[0]


def _order(one: RankedRow) -> tuple[float, int, str]:
    return -(one.text_rank or 0.0), -one.row[_VALID_FROM], one.row[_ID]


def _summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def _united(parts: Iterable[Mapping[int, T]]) -> dict[int, T]:
    found: dict[int, T] = {}
    for part in parts:
        found |= part
    return found
