"""Which skills answer, as conditions over versions: of the status asked for, and fitting the caller's state.

What is no skill passes. A version has the status and the predicates of the statement that it is, so both are
those that were believed at the time asked about.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryKind, MemoryQuery
from hylo_memory_ros.model.skill import SKILL_STATUSES
from hylo_memory_ros.store.schema import assertion, tag, version

__all__ = ['ANY_SKILL', 'STATUS', 'admitted', 'has_status', 'is_skill']

STATUS = 'status'
"""The field of `tag` that holds the status of a skill."""

ANY_SKILL = {'skill_status': SKILL_STATUSES, 'state': None}
"""What to change in a query so that it asks for skills whatever they are."""

is_skill = version.c.kind == MemoryKind.SKILL.value


def admitted(query: MemoryQuery, fitting: str | None) -> Iterator[sa.ColumnElement[bool]]:
    """Yield what a version must fulfil if it is a skill.

    Parameters
    ----------
    fitting : str, optional
        JSON array of the assertions that fit the caller's state; None: whichever do.
    """
    if query.kinds is not None and MemoryKind.SKILL not in query.kinds:
        return
    if set(query.skill_status) != set(SKILL_STATUSES):
        yield ~is_skill | has_status(query)
    if fitting is not None:
        numbers = sa.bindparam('fitting', fitting, type_=sa.Text)
        listed = sa.select(sa.func.json_each(numbers).table_valued('value', name='fits').c.value)
        yield ~is_skill | assertion.c.assertion_id.in_(listed)


def has_status(query: MemoryQuery) -> sa.ColumnElement[bool]:
    """Return whether a skill has one of the statuses that a query asks for."""
    found = sa.select(tag.c.assertion_id).where(tag.c.field == STATUS, tag.c.value.in_(query.skill_status))
    return assertion.c.assertion_id.in_(found)
