"""Query resolved for execution: valid time, transaction time, map and offset."""

from __future__ import annotations

from dataclasses import dataclass

from hylo_memory_ros.domain.skills import Fit
from hylo_memory_ros.model import MemoryQuery
from hylo_memory_ros.storage import QuerySpec
from hylo_memory_ros.storage.query.filters import FILTERS
from hylo_memory_ros.storage.query.spec import World

__all__ = ['ResolvedQuery']


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
    weighs_helpfulness: bool = False
    """Whether the order by helpfulness counts."""
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
            helpfulness=self.weighs_helpfulness,
            gated=self.hides_skills,
            fitting=None if self.fit is None else self.fit.to_json(),
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
