"""Filters by statistics: existence, staleness and helpfulness."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.model.feedback import NEVER_JUDGED
from hylo_memory_ros.storage.query.filters.base import (
    Filter,
    FilterMessage,
    ItemContext,
    MinimumFilter,
    Option,
)
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.schema import assertion, helpfulness, landmark, version

subject_expression: sa.ColumnElement[str] = sa.case(
    (landmark.c.number.is_(None), assertion.c.id),
    else_=landmark.c.map_id + sa.literal_column('char(31)', sa.Text) + landmark.c.key,
)
"""The subject of `helpfulness` that a version belongs to, over `mapper.item_source`."""

score_or_never: sa.ColumnElement[float] = sa.func.coalesce(
    helpfulness.c.score, sa.literal_column(repr(NEVER_JUDGED), sa.Float)
)
"""The score of a version where `helpfulness` is joined by `subject_expression`."""

# The counts of a landmark hold for its open version; what has ended, or is no landmark, passes.
_HAS_COUNTS = version.c.valid_to_ns.is_(None) & landmark.c.number.is_not(None)


class StatisticFilter(Filter, ABC):
    """A filter whose exclusions are counted by one reason."""

    selective = False
    reason: ClassVar[str]

    @abstractmethod
    def failing(self, query: MemoryQuery) -> sa.ColumnElement[bool]:
        """Return the condition of what it excludes; it must be set."""

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the opposite of what it excludes."""
        if self.narrows(spec.query):
            yield ~self.failing(spec.query)


class MinExistenceFilter(StatisticFilter, MinimumFilter):
    """At least this probability that a landmark still exists; one without an opinion passes."""

    fields = ('min_existence',)
    plain = frozenset({'min_existence'})
    reason = 'below_existence'
    reasons = (reason,)
    options = (
        Option(
            '--min-existence', 'min_existence', 'Least probability to be there still.', float, metavar='P'
        ),
    )

    def failing(self, query: MemoryQuery) -> sa.ColumnElement[bool]:
        """Return whether it exists with less than the probability."""
        assert query.min_existence is not None
        return (
            _HAS_COUNTS
            & (landmark.c.existence != 0.0)
            & (landmark.c.existence < log_odds(query.min_existence))
        )


class StaleFilter(StatisticFilter):
    """Without landmarks that were not seen again although they should have been."""

    fields = ('include_stale',)
    plain = frozenset({'include_stale'})
    reason = 'stale'
    reasons = (reason,)
    options = (
        Option('--stale/--no-stale', 'include_stale', 'Also what was not seen where it should be.', bool),
    )

    def failing(self, query: MemoryQuery) -> sa.ColumnElement[bool]:
        """Return whether it is stale."""
        return _HAS_COUNTS & landmark.c.stale

    def from_message(self, message: FilterMessage) -> dict[str, Any]:
        """Return the flag."""
        return {'include_stale': message.value('include_stale')}


class HelpfulnessFilter(StatisticFilter, MinimumFilter):
    """At least this score of how far it has helped."""

    fields = ('min_helpfulness',)
    plain = frozenset({'min_helpfulness'})
    options_json = ('min_helpfulness',)
    reason = 'below_helpfulness'
    reasons = (reason,)
    options = (
        Option('--min-helpfulness', 'min_helpfulness', 'Least score of having helped.', float, metavar='S'),
    )

    def failing(self, query: MemoryQuery) -> sa.ColumnElement[bool]:
        """Return whether its score is lower, where `helpfulness` is joined."""
        return score_or_never < query.min_helpfulness

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if the score of what was never judged is high enough."""
        return query.min_helpfulness is None or query.min_helpfulness <= NEVER_JUDGED


def log_odds(probability: float) -> float:
    """Return the logarithm of the odds of a probability."""
    if probability in (0.0, 1.0):
        return math.copysign(math.inf, probability - 0.5)
    return math.log(probability / (1.0 - probability))
