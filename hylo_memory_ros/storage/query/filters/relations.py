"""Filters by relation and entities, over chains of links."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryItem, MemoryQuery
from hylo_memory_ros.storage.query.filters.attributes import tagged, tags_of
from hylo_memory_ros.storage.query.filters.base import Filter, FilterMessage, ItemContext, ListFilter, Option
from hylo_memory_ros.storage.query.links import Versions, homes, reached_by_entity, reached_by_relation
from hylo_memory_ros.storage.query.spec import QuerySpec, believed, holds
from hylo_memory_ros.storage.schema import version
from hylo_memory_ros.storage.statements.mapper import paired


def relation_chain(spec: QuerySpec) -> sa.CTE | None:
    """Return what the links of the relation of a query reach; None: it follows none."""
    query = spec.query
    if query.relation is None or query.depth == 1:
        return None
    return reached_by_relation(*query.relation, query.depth, partial(_stands, spec), homes(spec.archived))


def chains_of(spec: QuerySpec) -> list[sa.CTE]:
    """Return every chain of links that a match must be in."""
    query = spec.query
    if query.depth == 1:
        return []
    if (chain := relation_chain(spec)) is not None:
        return [chain]
    stands, among = partial(_stands, spec), homes(spec.archived)
    return [reached_by_entity(name, query.depth, stands, among) for name in query.entities]


def _stands(spec: QuerySpec, versions: Versions) -> sa.ColumnElement[bool]:
    return believed(versions, spec) & holds(versions, spec)


class RelationFilter(Filter):
    """A link of this relation to this target, with a greater `depth` also over links of the same relation."""

    fields = ('relation', 'depth')
    plain = modifiers = frozenset({'depth'})
    options_json = ('depth',)
    options = (
        Option(
            '--relation', 'relation', 'A link that it must have, such as on:O12.', tuple, metavar='NAME:ID'
        ),
        Option('--depth', 'depth', 'Most links to follow from --relation or --entity.', int, metavar='N'),
    )

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the conditions over its links, and over the chains of links of the query."""
        query = spec.query
        if spec.reached is not None:
            for rows in spec.reached:
                listed = sa.func.json_each(sa.literal(rows, sa.Text)).table_valued('value')
                yield version.c.version_row.in_(sa.select(listed.c.value))
        else:
            yield from (
                version.c.version_row.in_(sa.select(chain.c.version_row)) for chain in chains_of(spec)
            )
        if query.relation is not None and query.depth == 1:
            yield tagged('link', paired(*query.relation))

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it has the link, or one to what the durable memory reaches by it."""
        if query.relation is None or query.relation in item.links:
            return True
        map_id = item.scope.get('map_id', '')
        return any(
            name == query.relation[0] and _is_reached(target, map_id, context) for name, target in item.links
        )

    def identifying_values(self, field: str, value: Any) -> list[Any]:
        """Return the target; the word of a relation names no item."""
        return [] if field in self.plain else list(value or ())[1:]

    def indexed(self, query: MemoryQuery) -> Iterable[tuple[str, sa.Select[Any]]]:
        """Yield the statements of the link itself."""
        if query.relation is not None and query.depth == 1:
            yield f'link {" ".join(query.relation)}', tags_of('link', paired(*query.relation))

    def from_message(self, message: FilterMessage) -> dict[str, Any]:
        """Return the link."""
        relation = message.text('relation')
        return {'relation': message.pairs('relation', ':')[0]} if relation else {}


class EntitiesFilter(ListFilter):
    """All of these entities; without a relation a greater `depth` follows any links to what names them."""

    fields = ('entities',)
    options = (Option('--entity', 'entities', 'Named by it; repeated: all.', repeated=True),)

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield a condition for each entity that the item itself must name."""
        return (tagged('entity', name) for name in self._own(spec.query))

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it names all of the entities."""
        return set(query.entities) <= set(item.entities)

    def indexed(self, query: MemoryQuery) -> Iterable[tuple[str, sa.Select[Any]]]:
        """Yield the statements of each entity that the item itself must name."""
        return ((f'entity {name}', tags_of('entity', name)) for name in self._own(query))

    @staticmethod
    def _own(query: MemoryQuery) -> tuple[str, ...]:
        return query.entities if query.depth == 1 or query.relation is not None else ()


def _is_reached(target: str, map_id: str, context: ItemContext) -> bool:
    """Return whether a name is among those of a map, of no map, or of any when the item has none."""
    if map_id:
        return (target, map_id) in context.reached or (target, '') in context.reached
    return any(name == target for name, _ in context.reached)
