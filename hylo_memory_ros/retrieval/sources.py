"""Sources of candidates: each finds the matches of a query, or narrows those of another source.

All answer at one world time and one sequence, so their order matters for the time alone; see `planner`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hylo_memory_ros.domain.skills import Fit
from hylo_memory_ros.index import RadiusQuery, SpatialIndex
from hylo_memory_ros.index.vectors import VectorHits, scores_of
from hylo_memory_ros.model import CandidateEvidence, MemoryQuery
from hylo_memory_ros.model.embedding import EmbeddingSpace
from hylo_memory_ros.storage import QuerySource, QuerySpec
from hylo_memory_ros.storage.query.filters import FILTERS
from hylo_memory_ros.storage.query.spec import World
from hylo_memory_ros.storage.statements.mapper import ItemRow


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """A query of a user with everything that the memory adds to answer it."""

    query: MemoryQuery
    """The filters."""
    at_ns: int
    """World time of the answer."""
    seq: int | None
    """Believed as of this sequence; None: now."""
    map_id: str | None
    """Map that `near` searches; None: every map."""
    clock: str
    """Clock that event times are compared on."""
    offset: int = 0
    """Hits of the pages before."""
    continues: str = ''
    """`query_digest` of the query, where a cursor continues it; empty: its first page."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of each order that counts, by its name."""
    hides_skills: bool = False
    """Whether the skill filter may exclude a skill that matches otherwise."""
    fit: Fit | None = None
    """Skills that fit the state of the caller; None: the query has no state."""

    def spec(
        self, *, seq: int | None = None, world: World | None = None, at_ns: int | None = None
    ) -> QuerySpec:
        """Return the query for the store, perhaps at another place on the time axes."""
        if world is None:
            world = 'any' if self.query.include_invalidated else 'at'
        return QuerySpec(
            self.query,
            self.at_ns if at_ns is None else at_ns,
            world,
            self.seq if seq is None else seq,
            clock=self.clock,
            space=self.query.embedding[0] if self.query.embedding is not None else '',
            helpfulness='helpfulness' in self.weights,
            gated=self.hides_skills,
            fitting=None if self.fit is None else self.fit.to_json(),
        )

    @property
    def place(self) -> RadiusQuery:
        """The place of the query for the spatial index; `near` must be set."""
        assert self.query.near is not None
        pose, radius_m = self.query.near
        return RadiusQuery(
            self.map_id,
            pose.frame_id,
            pose.position,
            radius_m,
            None if self.query.include_invalidated else self.at_ns,
            self.seq,
            self.query.horizontal,
        )

    def spec_at_any_time(self) -> QuerySpec:
        """Return the query for the store over versions of any time, believed or not."""
        return QuerySpec(self.query, self.at_ns, 'any', ever_believed=True, clock=self.clock)

    @property
    def filters_rows(self) -> bool:
        """True if anything but place and vector decides on what has a place or a vector."""
        if self.hides_skills and self.query.embedding is not None:
            return True
        return any(one.narrows(self.query) and one.tests_rows(self.query) for one in FILTERS)


FEW = 256
"""Up to this many matches are measured one by one."""
_MOST_NAMED = 20_000
"""Beyond this many rows it is quicker to look for all matches than to test each."""

_FRAME, _X, _MAP = 21, 22, 9


MEASURED = ('distance_m', 'text', 'vector', 'valid_from_ns', 'confidence', 'helpfulness')
"""Columns that sources fill."""

COLUMNS = {
    'near': 'distance_m',
    'text': 'text',
    'vector': 'vector',
    'recency': 'valid_from_ns',
    'confidence': 'confidence',
    'helpfulness': 'helpfulness',
}
"""Column of `MatchColumns` that each order ranks by; smaller is better for `near`, larger for the others."""

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MatchColumns:
    """Version rows with their measures; a column that no source has filled is None."""

    rows: Rows
    """Version rows, shape (n,)."""
    distance_m: Floats | None = None
    """Metres from the centre, equal to `math.dist` to the bit."""
    text: Floats | None = None
    """b = -bm25, higher is better."""
    vector: Floats | None = None
    """Score of the similarity to the vector of the query, 0 to 1; see `index.vectors.metric`."""
    valid_from_ns: Rows | None = None
    """World time from which each holds."""
    confidence: Floats | None = None
    """Confidence of the producer."""
    helpfulness: Floats | None = None
    """Score of helpfulness, 0 to 1."""
    sorted: bool = False
    """Whether the rows come newest ``valid_from`` first, then by id."""
    lower_bound: bool = False
    """Whether more match than are here."""

    def __len__(self) -> int:
        return len(self.rows)

    def taken(self, index: NDArray[np.intp], **columns: object) -> MatchColumns:
        """Return some of the rows in the order of an index, with columns set as given."""
        names = ('rows', *MEASURED)
        kept = {name: None if (part := getattr(self, name)) is None else part[index] for name in names}
        return replace(self, **{**kept, 'sorted': False, **columns})  # type: ignore[arg-type]


class VectorSearch(Protocol):
    """The vector index, as retrieval uses it."""

    @property
    def sequence(self) -> int:
        """The newest transaction in it."""

    @property
    def spaces(self) -> Mapping[str, EmbeddingSpace]:
        """Its spaces by name."""

    def search(
        self,
        space: str,
        vector: Sequence[float],
        k: int,
        *,
        at_ns: int | None,
        seq: int | None,
        version_rows: Rows | None = None,
    ) -> VectorHits:
        """Return the most similar version rows, best first, with similarities and evidence."""


class SourceResult(NamedTuple):
    """Matches of a source, with its evidence."""

    matches: MatchColumns
    evidence: CandidateEvidence


class Source(Protocol):
    """One way to find or to test candidates."""

    name: str

    def find(self, resolved: ResolvedQuery, seq: int, matches: MatchColumns | None) -> SourceResult:
        """Return all matches of this source, perhaps of given ones only."""


class SpatialSource:
    """Places within the radius, by the spatial index."""

    name = 'place'

    def __init__(self, store: QuerySource, index: SpatialIndex) -> None:
        self._store = store
        self._index = index

    def find(self, resolved: ResolvedQuery, seq: int | None, matches: MatchColumns | None) -> SourceResult:
        """Return the matches within the radius, perhaps of given ones only."""
        if matches is not None and len(matches) <= FEW:
            return self._measured(resolved, matches)
        hits = self._index.within(resolved.place._replace(seq=seq))
        near = MatchColumns(hits.version_rows, hits.distances_m, valid_from_ns=hits.valid_from_ns)
        if matches is not None:
            near = _joined(near, matches)
        count = len(hits)
        return SourceResult(
            near, CandidateEvidence('mirror', returned=count, after_filter=len(near), scanned=count)
        )

    def _measured(self, resolved: ResolvedQuery, matches: MatchColumns) -> SourceResult:
        place = resolved.place
        axes = 2 if place.horizontal else 3
        fetched = self._store.fetch(matches.rows.tolist())
        keep, distances = [], []
        for index, number in enumerate(matches.rows.tolist()):
            row: ItemRow | None = fetched.get(number)
            if row is None or row[_FRAME] != place.frame_id or place.map_id not in (None, row[_MAP]):
                continue
            distance_m = math.dist(row[_X : _X + axes], place.center[:axes])
            if distance_m <= place.radius_m:
                keep.append(index)
                distances.append(distance_m)
        near = matches.taken(np.array(keep, np.intp), distance_m=np.array(distances), sorted=matches.sorted)
        return SourceResult(near, CandidateEvidence('place', returned=len(matches), after_filter=len(near)))


class StatementSource:
    """Statements that pass the filters and have the words, by SQL."""

    name = 'statements'

    def __init__(self, store: QuerySource) -> None:
        self._store = store

    def find(self, resolved: ResolvedQuery, seq: int, matches: MatchColumns | None) -> SourceResult:
        """Return the statements that pass, perhaps of given matches only."""
        words = resolved.query.text is not None
        backend = 'fts5' if words else 'sql'
        named = matches is not None and len(matches) <= _MOST_NAMED
        # In the order of the file: neighbours are read together.
        among = np.sort(matches.rows).tolist() if matches is not None and named else None
        if among is not None and not among:
            return SourceResult(MatchColumns(np.empty(0, np.int64)), CandidateEvidence(backend))
        spec = resolved.spec(seq=seq)
        found = self._store.candidates(spec, among)
        passing = MatchColumns(
            np.array(found.version_rows, np.int64),
            text=np.array(found.text_ranks, np.float64) if words else None,
            valid_from_ns=np.array(found.valid_from_ns, np.int64),
            confidence=np.array(found.confidence, np.float64),
            helpfulness=np.array(found.helpfulness, np.float64)
            if 'helpfulness' in resolved.weights
            else None,
            sorted=True,
        )
        if matches is not None:
            passing = _joined(passing, matches)
        looked_at = len(among) if among is not None else len(found.version_rows)
        return SourceResult(
            passing,
            CandidateEvidence(backend, returned=looked_at, after_filter=len(passing)),
        )


class SimilaritySource:
    """Statements with a vector in the space, by the vector index."""

    name = 'vectors'

    def __init__(self, vectors: VectorSearch) -> None:
        self._vectors = vectors

    def find(self, resolved: ResolvedQuery, seq: int, matches: MatchColumns | None) -> SourceResult:
        """Compare every match exactly, and drop those without a vector."""
        assert matches is not None
        return self.best(resolved, seq, len(matches), matches)

    def best(
        self, resolved: ResolvedQuery, seq: int, k: int, matches: MatchColumns | None = None
    ) -> SourceResult:
        """Return the k most similar, best first."""
        query = resolved.query
        assert query.embedding is not None
        space, vector = query.embedding
        # A space without a vector is not known, and then nothing is found.
        known = self._vectors.spaces.get(space)
        metric = 'cosine' if known is None else known.metric
        hits = self._vectors.search(
            space,
            vector,
            max(k, 1),
            at_ns=None if query.include_invalidated else resolved.at_ns,
            seq=seq,
            version_rows=None if matches is None else matches.rows,
        )
        found = MatchColumns(np.asarray(hits.version_rows), vector=scores_of(metric, hits.similarities))
        return SourceResult(found if matches is None else _joined(matches, found), hits.evidence)


def _joined(first: MatchColumns, second: MatchColumns) -> MatchColumns:
    """Return the matches in both, in the order of the first, with the columns of both."""
    order = np.argsort(second.rows, kind='stable')
    rows = second.rows[order]
    if not len(rows):
        return first.taken(np.empty(0, np.intp), **_others(second, np.empty(0, np.intp), first))
    at = np.minimum(np.searchsorted(rows, first.rows), len(rows) - 1)
    keep = np.flatnonzero(rows[at] == first.rows)
    columns = _others(second, order[at[keep]], first)
    return replace(first.taken(keep, **columns), sorted=first.sorted)


def _others(matches: MatchColumns, index: Any, but: MatchColumns) -> dict[str, Any]:
    return {
        name: getattr(matches, name)[index]
        for name in MEASURED
        if getattr(matches, name) is not None and getattr(but, name) is None
    }
