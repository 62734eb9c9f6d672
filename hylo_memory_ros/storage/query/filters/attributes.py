"""Filters on fields of an item: kind, keys, ids, labels, objects, scope, event time, confidence."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import sqlalchemy as sa

from hylo_memory_ros.model import MemoryItem, MemoryKind, MemoryQuery
from hylo_memory_ros.storage.query.filters.base import (
    MOST_SHOWN,
    Filter,
    FilterMessage,
    ItemContext,
    ListFilter,
    MinimumFilter,
    Option,
)
from hylo_memory_ros.storage.query.spec import QuerySpec
from hylo_memory_ros.storage.schema import assertion, identity, tag, version
from hylo_memory_ros.storage.statements.mapper import paired

_MOST_LABELS = 256


def tagged(field: str, value: str) -> sa.ColumnElement[bool]:
    """Return whether a statement has a tag."""
    return assertion.c.assertion_id.in_(tags_of(field, value))


def tags_of(field: str, value: str) -> sa.Select[Any]:
    """Select the assertions that have a tag."""
    return sa.select(tag.c.assertion_id).where(tag.c.field == field, tag.c.value == value)


def _labels(connection: sa.Connection) -> list[str]:
    """Return the labels of statements, in order, by leaps over their index; of many, the first."""
    raw: Any = connection.connection.dbapi_connection
    found: list[str] = []
    after = ''
    while len(found) < _MOST_LABELS:
        # The condition of the partial index is repeated, or SQLite would read every statement.
        leap = "SELECT min(label) FROM assertion WHERE label != '' AND label > ?"
        ((after,),) = raw.execute(leap, (after,)).fetchall()
        if after is None:
            break
        found.append(after)
    return found


class KindsFilter(Filter):
    """One of these kinds."""

    fields = ('kinds',)
    plain = frozenset({'kinds'})
    options = (Option('--kind', 'kinds', 'May be repeated.', type=MemoryKind, repeated=True),)

    def selects(self, query: MemoryQuery) -> bool:
        """Return True if it names some kinds, not all; an empty set of them passes nothing."""
        return bool(query.kinds) and query.kinds != frozenset(MemoryKind)

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the condition over its kind."""
        if spec.query.kinds is not None:
            yield version.c.kind.in_(sorted(kind.value for kind in spec.query.kinds))

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it is of one of the kinds."""
        return query.kinds is None or MemoryKind(item.kind) in query.kinds

    def from_message(self, message: FilterMessage) -> dict[str, Any]:
        """Return the kinds."""
        return {'kinds': frozenset(message.texts('kinds'))}


class IdsFilter(ListFilter):
    """One of these ids."""

    fields = ('ids',)
    noun = 'id'
    options = (Option('--id', 'ids', 'Id; may be repeated.', repeated=True),)

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the condition over its id."""
        if spec.query.ids:
            yield assertion.c.id.in_(spec.query.ids)

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it has one of the ids."""
        return not query.ids or item.id in query.ids

    def indexed(self, query: MemoryQuery) -> Iterable[tuple[str, sa.Select[Any]]]:
        """Yield the statements of the ids."""
        if query.ids:
            yield 'ids', sa.select(assertion.c.assertion_id).where(assertion.c.id.in_(query.ids))


class KeysFilter(ListFilter):
    """One of these keys."""

    fields = ('keys', 'key')
    noun = 'key'
    options = (Option('--key', 'keys', 'Key; may be repeated.', repeated=True),)

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the conditions over its key."""
        if keys := spec.query.all_keys:
            yield identity.c.key.in_(keys)
            # Follows from the join; repeated, it lets indexes find versions that are no longer believed.
            yield assertion.c.identity_id == identity.c.identity_id

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it has one of the keys."""
        return not query.all_keys or item.key in query.all_keys

    def indexed(self, query: MemoryQuery) -> Iterable[tuple[str, sa.Select[Any]]]:
        """Yield the identities of the keys."""
        if keys := query.all_keys:
            yield 'keys', sa.select(identity.c.identity_id).where(identity.c.key.in_(keys))


class LabelsFilter(ListFilter):
    """One of these labels."""

    fields = ('labels',)
    noun = 'label'
    options = (Option('--label', 'labels', 'Class of the thing; may be repeated.', repeated=True),)

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the condition over its label."""
        if spec.query.labels:
            yield assertion.c.label.in_(spec.query.labels)

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it has one of the labels."""
        return not query.labels or item.label in query.labels

    def indexed(self, query: MemoryQuery) -> Iterable[tuple[str, sa.Select[Any]]]:
        """Yield the statements of the labels."""
        if query.labels:
            labeled = assertion.c.label.in_(query.labels) & (assertion.c.label != '')
            yield 'labels', sa.select(assertion.c.assertion_id).where(labeled)

    def absences(self, connection: sa.Connection, query: MemoryQuery) -> list[str]:
        """Return the sentence of labels that no statement has, with those that there are."""
        found = super().absences(connection, query)
        if found and (existing := _labels(connection)):
            close = [name for label in query.labels for name in get_close_matches(label, existing, 3)]
            # The likely ones first, and some others: which labels there are is what a caller has to know.
            shown = list(dict.fromkeys([*close, *existing]))[:MOST_SHOWN]
            more = ', …' if len(existing) > len(shown) else ''
            return [f'{found[0]} ({", ".join(shown)}{more} exist)']
        return found


class ObjectIdsFilter(ListFilter):
    """All of these object ids."""

    fields = ('object_ids',)
    options = (Option('--object', 'object_ids', 'Object id in it; repeated: all.', repeated=True),)

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield a condition for each object id."""
        return (tagged('object', name) for name in spec.query.object_ids)

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it has all of the object ids."""
        return set(query.object_ids) <= set(item.object_ids)

    def indexed(self, query: MemoryQuery) -> Iterable[tuple[str, sa.Select[Any]]]:
        """Yield the statements of each object id."""
        return ((f'object {name}', tags_of('object', name)) for name in query.object_ids)


class ScopeFilter(Filter):
    """All of these scope values; ``map_id`` also chooses the map of `near`."""

    fields = ('scope', 'any_map')
    plain = modifiers = frozenset({'any_map'})
    no_options = '--map gives map_id; no other scope value is typed'
    reasons = ('other_map',)

    def tests_rows(self, query: MemoryQuery) -> bool:
        """Return True if it sets more than the map, which the spatial index tests."""
        return any(name != 'map_id' for name in query.scope or ())

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield a condition for each scope value."""
        for name, value in (spec.query.scope or {}).items():
            yield assertion.c.map_id == value if name == 'map_id' else tagged('scope', paired(name, value))

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it has all of the scope values."""
        return (query.scope or {}).items() <= item.scope.items()

    def identifying_values(self, field: str, value: Any) -> list[Any]:
        """Return the scope values; a map names no item."""
        if field in self.plain:
            return []
        return [part for name, part in dict(value or {}).items() if name != 'map_id']

    def indexed(self, query: MemoryQuery) -> Iterable[tuple[str, sa.Select[Any]]]:
        """Yield the statements of each scope value but the map, which most statements share."""
        for name, value in (query.scope or {}).items():
            if name != 'map_id':
                yield f'scope {name} {value}', tags_of('scope', paired(name, value))

    def from_message(self, message: FilterMessage) -> dict[str, Any]:
        """Return the scope, with the map of its own field, and whether every map is searched."""
        return {'scope': message.scope(), 'any_map': message.value('any_map')}


class ConfidenceFilter(MinimumFilter):
    """At least this confidence."""

    fields = ('min_confidence',)
    plain = frozenset({'min_confidence'})
    options = (Option('--min-confidence', 'min_confidence', 'Least confidence, 0 to 1.', float, metavar='C'),)

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the condition over its confidence."""
        if spec.query.min_confidence is not None:
            yield assertion.c.confidence >= spec.query.min_confidence

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it is that confident."""
        return query.min_confidence is None or item.confidence >= query.min_confidence


class TimeRangeFilter(Filter):
    """An event that meets a closed interval, on the clock of the memory."""

    fields = ('time_range_ns',)
    plain = frozenset({'time_range_ns'})
    no_options = 'event times come from other programs, nobody types them'
    reasons = ('other_clock',)

    def selects(self, query: MemoryQuery) -> bool:
        """Return True if the interval has an end; without one every event is in it."""
        return query.time_range_ns not in (None, (None, None))

    def conditions(self, spec: QuerySpec) -> Iterable[sa.ColumnElement[bool]]:
        """Yield the conditions over the time of its event."""
        if spec.query.time_range_ns is None:
            return
        start_ns, end_ns = spec.query.time_range_ns
        yield assertion.c.event_start_ns.is_not(None)
        if end_ns is not None:
            yield assertion.c.event_start_ns <= end_ns
        if start_ns is not None:
            yield assertion.c.event_end_ns.is_(None) | (assertion.c.event_end_ns >= start_ns)
        yield assertion.c.event_clock == spec.clock

    def matches(self, item: MemoryItem, query: MemoryQuery, context: ItemContext) -> bool:
        """Return True if it has an event that meets the interval."""
        if query.time_range_ns is None:
            return True
        event, (start_ns, end_ns) = item.event_time, query.time_range_ns
        if event is None or event.clock != context.clock:
            return False
        begins = end_ns is None or event.start_ns <= end_ns
        return begins and (start_ns is None or event.end_ns is None or event.end_ns >= start_ns)

    def from_message(self, message: FilterMessage) -> dict[str, Any]:
        """Return the interval; an end that is zero is open."""
        start_ns, end_ns = message.stamp_ns('time_start'), message.stamp_ns('time_end')
        return {} if start_ns is None and end_ns is None else {'time_range_ns': (start_ns, end_ns)}
