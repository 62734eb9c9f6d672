"""Chains of links between statements, each of which holds and is believed.

A link names its target. A statement answers to its id, to its key and, when it speaks of just
one object, to that object's id; names are looked up in the map of the statement that links,
and among those of no map. The depth is limited, so that cycles end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import MetaData, Table
from sqlalchemy.sql.selectable import NamedFromClause

from hylo_memory_ros.storage import schema
from hylo_memory_ros.storage.schema import identity
from hylo_memory_ros.storage.statements.mapper import paired

LIVE = 'live'
"""Schema name of the main file in a connection to an archive file."""


class Home(NamedTuple):
    """The tables of one file that hold statements."""

    version: Table
    assertion: Table
    tag: Table
    corrected: Table


HERE = Home(schema.version, schema.assertion, schema.tag, schema.corrected)
"""The file of the connection."""
_metadata = MetaData()
MAIN = Home(*(table.to_metadata(_metadata, schema=LIVE) for table in HERE))
"""The main file, in a connection to an archive file."""


def homes(archived: bool) -> tuple[Home, ...]:
    """Return every file that a connection reads."""
    return (HERE, MAIN) if archived else (HERE,)


Versions = NamedFromClause
"""The versions, under one name or another."""

Axes = Callable[[Versions], sa.ColumnElement[bool]]
"""Condition that a version, under the given alias of its table, holds and is believed."""

_SEPARATOR = paired('', '')
# The next character: where the values of the next relation may begin.
_BEHIND = chr(ord(_SEPARATOR) + 1)


def reached_by_relation(
    relation: str, target: str, depth: int, axes: Axes, among: Sequence[Home] = (HERE,)
) -> sa.CTE:
    """Return the versions that a chain of at most `depth` links of one relation leads from, to the target."""
    link = sa.literal(paired(relation, ''), sa.Text)
    first = [_tagged('link', paired(relation, target), axes, home) for home in among]
    return _chain(first, depth, axes, lambda name: link + name, among)


def reached_by_entity(entity: str, depth: int, axes: Axes, among: Sequence[Home] = (HERE,)) -> sa.CTE:
    """Return the versions that name an entity, or lead by less than `depth` links of any relation to one."""
    relations = _relations(among)
    first = [_tagged('entity', entity, axes, home) for home in among]
    return _chain(first, depth, axes, lambda name: relations.c.value + name, among, relations)


def names_of(chain: sa.CTE, depth: int, among: Sequence[Home] = (HERE,)) -> sa.Select[Any]:
    """Select (name, map) of what a chain reaches with links to spare."""
    ways = [
        sa.select(name.label('name'), statement.c.map_id).select_from(source).where(chain.c.depth < depth)
        for home in among
        for name, statement, source in _names(chain, home)
    ]
    return sa.select(*(union := sa.union(*ways).subquery()).c).where(union.c.name.is_not(None))


def _tagged(field: str, value: str, axes: Axes, home: Home) -> sa.Select[Any]:
    found, named = home.version.alias(), home.tag.alias()
    return (
        sa.select(found.c.version_row, found.c.assertion_id, sa.literal(1).label('depth'))
        .join(named, named.c.assertion_id == found.c.assertion_id)
        .where(named.c.field == field, named.c.value == value, axes(found))
    )


def _chain(
    first: Sequence[sa.Select[Any]],
    depth: int,
    axes: Axes,
    link_to: Callable[[sa.ColumnElement[str]], sa.ColumnElement[str]],
    among: Sequence[Home],
    *beside: sa.FromClause,
) -> sa.CTE:
    chain = first[0].cte(recursive=True)
    steps = list(first[1:])
    for (name, statement, source), home in (
        (named, home) for naming_home in among for named in _names(chain, naming_home) for home in among
    ):
        for other in beside:
            source = source.join(other, sa.true())
        linking, link, linker = home.version.alias(), home.tag.alias(), home.assertion.alias()
        source = (
            source.join(link, (link.c.field == 'link') & (link.c.value == link_to(name)))
            .join(linking, linking.c.assertion_id == link.c.assertion_id)
            .join(linker, linker.c.assertion_id == linking.c.assertion_id)
        )
        same_map = (
            (linker.c.map_id == statement.c.map_id) | (linker.c.map_id == '') | (statement.c.map_id == '')
        )
        steps.append(
            sa.select(linking.c.version_row, linking.c.assertion_id, chain.c.depth + 1)
            .select_from(source)
            .where(chain.c.depth < depth, axes(linking), same_map)
        )
    return chain.union(*steps)


def _names(
    chain: sa.CTE, home: Home
) -> Iterator[tuple[sa.ColumnElement[Any], NamedFromClause, sa.FromClause]]:
    """Yield each name of the statements in a chain: the name, its statement, and the join of both."""
    statement = home.assertion.alias()
    source: sa.FromClause = chain.join(statement, statement.c.assertion_id == chain.c.assertion_id)
    yield statement.c.id, statement, source
    about = identity.alias()
    yield about.c.key, statement, source.join(about, about.c.identity_id == statement.c.identity_id)
    one, other = home.tag.alias(), home.tag.alias()
    others = sa.exists().where(
        other.c.assertion_id == one.c.assertion_id, other.c.field == 'object', other.c.value != one.c.value
    )
    alone = (one.c.assertion_id == statement.c.assertion_id) & (one.c.field == 'object') & ~others
    yield one.c.value, statement, source.join(one, alone)


def _relations(among: Sequence[Home]) -> sa.CTE:
    """Return every relation that there is, each with the separator."""
    first, *others = [sa.select(_relations_in(home).c.value) for home in among]
    return first.union(*others).cte() if others else _relations_in(among[0])


def _relations_in(home: Home) -> sa.CTE:
    """Return the relations of one file, by leaps over the index."""

    def leap(behind: sa.ColumnElement[Any] | None) -> sa.ColumnElement[Any]:
        link = home.tag.alias()
        least = sa.select(sa.func.min(link.c.value)).where(link.c.field == 'link')
        if behind is not None:
            least = least.where(link.c.value >= sa.func.replace(behind, _SEPARATOR, _BEHIND))
        value = least.scalar_subquery()
        return sa.func.substr(value, 1, sa.func.instr(value, _SEPARATOR)).label('value')

    relations = sa.select(leap(None)).cte(recursive=True)
    return relations.union(sa.select(leap(relations.c.value)).where(relations.c.value.is_not(None)))
