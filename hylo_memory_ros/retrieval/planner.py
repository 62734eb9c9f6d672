"""Which source is asked first, and why: the one that leaves least, as far as a glance can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hylo_memory_ros.retrieval.resolved_query import ResolvedQuery
from hylo_memory_ros.retrieval.sources import FEW
from hylo_memory_ros.storage import QuerySource

__all__ = ['Plan', 'planned']

SUBSET = 5_000
"""Up to so many matches, all are compared by their vectors; beyond, vectors come first where they may."""

Step = Literal['place', 'statements', 'vectors']


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of the sources, and the reason for it."""

    steps: tuple[Step, ...]
    """What is asked, in this order."""
    told: tuple[str, ...]
    """The same in words."""


def planned(asked: ResolvedQuery, orders: Sequence[str], store: QuerySource) -> Plan:
    """Return in which order the sources answer a question.

    Parameters
    ----------
    asked : ResolvedQuery
        What is asked.
    orders : sequence of str
        Orders that count: vectors may only come first where they are the only one.
    store : QuerySource
        Its indexes are counted up to a limit.
    """
    query = asked.query
    exact: tuple[Step, ...] = ('place',) if query.near is not None else ()
    alone = query.embedding is not None and tuple(orders) == ('vector',)
    if asked.filters_rows or not (exact or alone):
        exact = (*exact, 'statements')
    if query.embedding is None and len(exact) == 1:
        return Plan(exact, (f'{exact[0]} alone',))
    if not exact:
        return Plan(('vectors',), ('vectors alone',))
    may_lead = alone and 'place' not in exact
    most = (SUBSET if may_lead else FEW) + 1
    counts = store.estimates(asked.sql(), most) if 'statements' in exact else {}
    told = tuple(f'{name}: {"at least " * (count >= most)}{count}' for name, count in counts.items())
    least = min(counts.values(), default=most)
    if may_lead and least >= most:
        return Plan(
            ('vectors', *exact), (*told, 'vectors first: no filter leaves few; pools grow until enough pass')
        )
    if len(exact) == 2 and least <= FEW:
        exact, told = exact[::-1], (*told, 'statements first: so few are left that each can be measured')
    elif len(exact) == 2:
        told = (*told, 'place first: no other filter is known to leave few')
    if query.embedding is None:
        return Plan(exact, told)
    return Plan((*exact, 'vectors'), (*told, 'vectors last: every match is compared exactly'))
