"""Values of a query that may identify an item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ['told_by']

# What of a query says no more than when, where and how much was asked.
_PLAIN = frozenset(
    {
        'kinds', 'depth', 'horizontal', 'any_map', 'time_range_ns', 'as_of_ns', 'known_at_ns',
        'known_seq', 'include_invalidated', 'include_stale', 'min_confidence', 'min_score', 'min_existence',
        'min_helpfulness', 'weights', 'k', 'cursor', 'explain', 'text_space', 'skill_status',
    }
)  # fmt: skip


def told_by(query: Mapping[str, Any] | None, *, place: bool = True) -> list[Any]:
    """Return what of a query, as a JSON object, may tell of an item.

    Parameters
    ----------
    place : bool
        Whether a place can: only one where the item was, not one that it was near to.
    """
    asked = {name: value for name, value in (query or {}).items() if name not in _PLAIN}
    relation, scope, near = (asked.pop(name, None) or () for name in ('relation', 'scope', 'near'))
    told = [*asked.values(), *relation[1:]]
    told += [value for name, value in dict(scope).items() if name != 'map_id']
    return [*told, near[0]['position']] if near and place else told
