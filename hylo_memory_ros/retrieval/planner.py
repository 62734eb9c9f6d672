"""The query planner: the order of the sources, from estimates of how few each leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hylo_memory_ros.retrieval.resolved_query import ResolvedQuery
from hylo_memory_ros.retrieval.sources import FEW
from hylo_memory_ros.storage import Store

__all__ = ['Plan', 'make_plan']

SUBSET = 5_000
"""Up to so many matches, all are compared by their vectors; beyond, vectors come first where they may."""

Step = Literal['place', 'statements', 'vectors']


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of the sources, and the reason for it."""

    steps: tuple[Step, ...]
    """What is resolved, in this order."""
    reasons: tuple[str, ...]
    """Estimates and decisions in words, for the evidence."""


def make_plan(resolved: ResolvedQuery, orders: Sequence[str], store: Store) -> Plan:
    """Return the order in which the sources answer a query.

    Parameters
    ----------
    resolved : ResolvedQuery
        What is resolved.
    orders : sequence of str
        Orders that count: vectors may only come first where they are the only one.
    store : Store
        Counts its indexes up to a limit.
    """
    query = resolved.query
    exact: tuple[Step, ...] = ('place',) if query.near is not None else ()
    alone = query.embedding is not None and tuple(orders) == ('vector',)
    if resolved.filters_rows or not (exact or alone):
        exact = (*exact, 'statements')
    if query.embedding is None and len(exact) == 1:
        return Plan(exact, (f'{exact[0]} alone',))
    if not exact:
        return Plan(('vectors',), ('vectors alone',))
    may_lead = alone and 'place' not in exact
    most = (SUBSET if may_lead else FEW) + 1
    counts = store.estimates(resolved.spec(), most) if 'statements' in exact else {}
    reasons = tuple(f'{name}: {"at least " * (count >= most)}{count}' for name, count in counts.items())
    least = min(counts.values(), default=most)
    if may_lead and least >= most:
        return Plan(
            ('vectors', *exact),
            (*reasons, 'vectors first: no filter leaves few; pools grow until enough pass'),
        )
    if len(exact) == 2 and least <= FEW:
        exact, reasons = (
            exact[::-1],
            (*reasons, 'statements first: so few are left that each can be measured'),
        )
    elif len(exact) == 2:
        reasons = (*reasons, 'place first: no other filter is known to leave few')
    if query.embedding is None:
        return Plan(exact, reasons)
    return Plan((*exact, 'vectors'), (*reasons, 'vectors last: every match is compared exactly'))
