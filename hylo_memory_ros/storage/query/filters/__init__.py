"""Registry of query filters: code that treats filters one by one asks it.

A filter is one class with its field, SQL, match, erasure and options; see "Adding a filter" in
CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.storage.query.filters.attributes import (
    ConfidenceFilter,
    IdsFilter,
    KeysFilter,
    KindsFilter,
    LabelsFilter,
    ObjectIdsFilter,
    ScopeFilter,
    TimeRangeFilter,
)
from hylo_memory_ros.storage.query.filters.base import Filter, FilterMessage, ItemContext, Option
from hylo_memory_ros.storage.query.filters.episode import EpisodeFilter
from hylo_memory_ros.storage.query.filters.relations import EntitiesFilter, RelationFilter
from hylo_memory_ros.storage.query.filters.search import (
    EmbeddingFilter,
    NearFilter,
    TextFilter,
    distance_from,
)
from hylo_memory_ros.storage.query.filters.skill import SkillFilter
from hylo_memory_ros.storage.query.filters.statistics import (
    HelpfulnessFilter,
    MinExistenceFilter,
    StaleFilter,
    StatisticFilter,
)

__all__ = [
    'FILTERS',
    'INDEXED',
    'NOT_FILTERS',
    'SELECTING',
    'SKILLS',
    'STATISTICS',
    'Filter',
    'FilterMessage',
    'ItemContext',
    'Option',
    'distance_from',
    'identifying_values',
    'matches',
    'selects_items',
]

SKILLS = SkillFilter()
STATISTICS: tuple[StatisticFilter, ...] = (MinExistenceFilter(), HelpfulnessFilter(), StaleFilter())

FILTERS: tuple[Filter, ...] = (
    KindsFilter(),
    IdsFilter(),
    KeysFilter(),
    LabelsFilter(),
    EpisodeFilter(),
    EntitiesFilter(),
    ObjectIdsFilter(),
    RelationFilter(),
    ScopeFilter(),
    ConfidenceFilter(),
    TimeRangeFilter(),
    TextFilter(),
    NearFilter(),
    EmbeddingFilter(),
    *STATISTICS,
    SKILLS,
)
"""Every filter, in the order of conditions, of estimates in a plan and of options on the command line."""

NOT_FILTERS: Mapping[str, str] = {
    'as_of_ns': 'the axis of world time, part of `QuerySpec`',
    'known_at_ns': 'the axis of belief, resolved to a sequence',
    'known_seq': 'the axis of belief, part of `QuerySpec`',
    'include_invalidated': 'lifts the axis of world time',
    'min_score': 'tests the score, which belongs to a whole answer',
    'weights': 'changes the order only',
    'rerank': 'changes the order only',
    'k': 'the size of a page',
    'cursor': 'the start of a page',
    'explain': 'adds counts to an answer',
}
"""Fields of `MemoryQuery` that test no item, each with the reason. None of them names an item."""

INDEXED = tuple(
    one
    for one in FILTERS
    if type(one).indexed is not Filter.indexed or type(one).estimates is not Filter.estimates
)
"""Filters that estimate how many statements pass, by an index of theirs."""

SELECTING = frozenset(field for one in FILTERS for field in one.fields if field not in one.modifiers)
"""Fields of `MemoryQuery` whose filters test items."""

_OF_FIELD = {field: one for one in FILTERS for field in one.fields}


def matches(item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
    """Return whether an item of working memory passes every filter, the two time axes aside."""
    return all(one.matches(item, query, context) for one in FILTERS)


def selects_items(query: MemoryQuery) -> bool:
    """Return whether a filter that may choose what a removal takes is set."""
    return any(one.selects(query) for one in FILTERS)


def identifying_values(recorded: Mapping[str, Any] | None, *, place: bool = True) -> list[Any]:
    """Return what of a recorded query, as a JSON object, may name an item.

    Parameters
    ----------
    recorded : mapping or None
        Fields of a `MemoryQuery`; one of a filter that no longer exists counts as a name.
    place : bool
        Whether a place can name an item: the place where it was, not one nearby.
    """
    found: list[Any] = []
    for field, value in (recorded or {}).items():
        one = _OF_FIELD.get(field)
        if one is None:
            found += [] if field in NOT_FILTERS else [value]
        elif place or field != 'near':
            found += one.identifying_values(field, value)
    return found
