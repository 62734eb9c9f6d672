"""Filter of skills by status and by the state of the caller.

A version has the status and the predicates of its own statement, so both are as of the belief of the query.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryKind, MemoryQuery
from hylo_memory_ros.model.skill import SKILL_STATUSES
from hylo_memory_ros.storage.query.filters.base import Filter
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.schema import tag, version
from hylo_memory_ros.storage.statements.mapper import STATUS

is_skill = version.c.kind == MemoryKind.SKILL.value


class SkillFilter(Filter):
    """Skills of one of these statuses, whose predicates hold in the state of the caller."""

    fields = ('skill_status', 'state')
    plain = frozenset({'skill_status'})
    bound = ('fitting',)
    # No skill has a place; `ResolvedQuery.filters_rows` knows of those with a vector.
    places = selective = False
    options_json = ('state', 'skill_status')
    no_options = 'the command `skills` lists them'
    reasons = (
        'not_verified',
        'other_skill_status',
        'trigger_failed',
        'precondition_failed',
        'precondition_unknown',
        'precondition_unfit',
    )
    lifted = {'skill_status': SKILL_STATUSES, 'state': None}

    def narrows(self, query: MemoryQuery) -> bool:
        """Return True if a skill that matches otherwise may be excluded."""
        if query.kinds is not None and MemoryKind.SKILL not in query.kinds:
            return False
        return query.state is not None or set(query.skill_status) != set(SKILL_STATUSES)

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the condition over skills, where there are any."""
        query = spec.query
        if not spec.gated or (query.kinds is not None and MemoryKind.SKILL not in query.kinds):
            return
        skills_alone = query.kinds is not None and len(query.kinds) == 1
        if spec.fitting is not None:
            listed = sa.func.json_each(sa.bindparam('fitting', spec.fitting, type_=sa.Text)).table_valued(
                'value', name='fits'
            )
            if skills_alone:
                # With no other kind in the answer, the few that fit come first in the plan of SQLite.
                statement = version.alias('statement')
                rows = sa.select(statement.c.version_row).join(
                    listed, statement.c.assertion_id == listed.c.value
                )
                yield version.c.version_row.in_(rows)
            else:
                yield ~is_skill | version.c.assertion_id.in_(sa.select(listed.c.value))
        elif set(query.skill_status) != set(SKILL_STATUSES):
            # Looked up one by one: a page needs few, and listing all verified skills takes longer than that.
            has_status = sa.exists().where(
                tag.c.field == STATUS,
                tag.c.value.in_(query.skill_status),
                tag.c.assertion_id == version.c.assertion_id,
            )
            yield has_status if skills_alone else ~is_skill | has_status
