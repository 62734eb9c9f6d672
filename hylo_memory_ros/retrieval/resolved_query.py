"""A query with its place on both time axes, its map, and where its answer begins."""

from __future__ import annotations

from dataclasses import dataclass

from hylo_memory_ros.domain.skills import Fit
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.storage import QuerySpec
from hylo_memory_ros.storage.query.select import World

__all__ = ['ResolvedQuery']


@dataclass(frozen=True, slots=True)
class ResolvedQuery:
    """What is asked, resolved."""

    query: MemoryQuery
    """The filters."""
    at_ns: int
    """World time asked about."""
    seq: int | None
    """Believed as of this sequence; None: now."""
    map_id: str | None
    """Map that `near` searches; None: every map."""
    clock: str
    """Clock that event times are compared on."""
    offset: int = 0
    """How many hits an earlier answer gave."""
    hides_stale: bool = False
    """Whether there is anything stale, and it is left out."""
    weighs_helpfulness: bool = False
    """Whether the order by helpfulness counts."""
    hides_skills: bool = False
    """Whether a skill that matches otherwise may be left out for its status or its predicates."""
    fit: Fit | None = None
    """What the caller's state makes of skills; None: no state is given."""

    def sql(
        self, *, seq: int | None = None, world: World | None = None, at_ns: int | None = None
    ) -> QuerySpec:
        """Return the question for the store."""
        if world is None:
            world = 'any' if self.query.include_invalidated else 'at'
        return QuerySpec(
            self.query,
            self.at_ns if at_ns is None else at_ns,
            world,
            self.seq if seq is None else seq,
            clock=self.clock,
            space=self.query.embedding[0] if self.query.embedding is not None else '',
            helpfulness=self.weighs_helpfulness,
            gated=self.hides_skills,
            fitting=None if self.fit is None else self.fit.to_json(),
        )

    def among(self) -> QuerySpec:
        """Return the question for rows whose time and belief the mirror has tested."""
        return QuerySpec(self.query, self.at_ns, 'any', ever_believed=True, clock=self.clock)

    @property
    def filters_rows(self) -> bool:
        """Whether anything but the place narrows down what is near."""
        query = self.query
        scope = {name for name in query.scope or {} if name != 'map_id'}
        return bool(
            query.kinds is not None
            or query.all_keys
            or query.ids
            or query.labels
            or query.entities
            or query.object_ids
            or query.relation
            or scope
            or query.min_confidence is not None
            or query.episode is not None
            or query.outcome is not None
            or query.time_range_ns is not None
            or query.text is not None
            or query.min_existence is not None
            or query.min_helpfulness is not None
            or self.hides_stale
            # No skill has a place.
            or (self.hides_skills and query.embedding is not None)
        )
