"""Which skills answer, as conditions over versions: of the status asked for, and fitting the caller's state.

What is no skill passes. A version has the status and the predicates of the statement that it is, so both are
those that were believed at the time asked about.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryKind, MemoryQuery
from hylo_memory_ros.model.skill import SKILL_STATUSES
from hylo_memory_ros.storage.schema import tag, version

__all__ = ['ANY_SKILL', 'STATUS', 'admitted', 'is_skill']

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
        JSON array of the assertions that have the status asked for and fit the caller's state; None: no state
        is given.
    """
    if query.kinds is not None and MemoryKind.SKILL not in query.kinds:
        return
    skills_alone = query.kinds is not None and len(query.kinds) == 1
    if fitting is not None:
        listed = sa.func.json_each(sa.bindparam('fitting', fitting, type_=sa.Text)).table_valued(
            'value', name='fits'
        )
        if skills_alone:
            # Nothing else is asked for, so the few that fit lead.
            said = version.alias('said')
            rows = sa.select(said.c.version_row).join(listed, said.c.assertion_id == listed.c.value)
            yield version.c.version_row.in_(rows)
        else:
            yield ~is_skill | version.c.assertion_id.in_(sa.select(listed.c.value))
    elif set(query.skill_status) != set(SKILL_STATUSES):
        # Looked up one by one: a page needs few, and listing all that are verified takes longer than it.
        has_status = sa.exists().where(
            tag.c.field == STATUS,
            tag.c.value.in_(query.skill_status),
            tag.c.assertion_id == version.c.assertion_id,
        )
        yield has_status if skills_alone else ~is_skill | has_status
